"""The long way between the data centres of a fleet: its round trip, and cutting it.

python -m lab.fleet.link [--inventory PATH] [--round-trip-ms 0..200 | --cut | --mend]

A node with ``fleet_link`` (``round_trip_ms``, ``ways``: a port of it to ``host:port``) forwards TCP, and the
far cluster advertises a listener that leads through it. The delay is netem's where the nodes' kernel has it,
and Toxiproxy's otherwise. Without an option, it says what is laid.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from kedge.setup.paths import PROJECT
from kedge.setup.problem import Problem
from lab.fleet import nodes, toxiproxy
from lab.fleet.engine import Engine
from lab.fleet.inventory import Fleet, Node, read_fleet
from lab.fleet.toxiproxy import API_PORT, MOST_MS, Toxiproxy, Way

INVENTORY = PROJECT / "inventories" / "local-mirror"
UNIT = "kedge-link.service"
SERVER = "/usr/local/bin/toxiproxy-server"
#: Packets that wait at once: 200 ms of a link of 10 Gbit/s are 250 MB.
_NETEM_LIMIT = 200_000


def unit(node: Node) -> str:
    """Return the unit of the link; it is not restarted by itself, as it would come back without its delay."""
    return (
        "[Unit]\nDescription=The long way between data centres\n\n"
        f"[Service]\nExecStart={SERVER} -host {node.address} -port {API_PORT}\n"
        "DynamicUser=yes\nLimitNOFILE=10000\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def server(node: Node) -> Toxiproxy:
    """Return the Toxiproxy of a node."""
    return Toxiproxy(f"http://{node.address}:{API_PORT}")


def netem_command(round_trip_ms: float) -> str:
    """Return the command that delays all that leaves the node: half of the round trip in each direction."""
    return f"tc qdisc replace dev eth0 root netem delay {round_trip_ms / 2:g}ms limit {_NETEM_LIMIT}"


def install(engine: Engine, fleet: Fleet, node: Node) -> None:
    """Start the link's server where it does not run yet; raises Problem where it cannot be built."""
    if nodes.over_ssh(fleet, node, f"systemctl is-active -q {UNIT}").returncode == 0:
        return
    if not toxiproxy.PROGRAM.binary().is_file():
        toxiproxy.PROGRAM.build()
    container = fleet.container(node)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / UNIT
        file.write_text(unit(node), encoding="utf-8")
        engine.run("cp", str(toxiproxy.PROGRAM.binary()), f"{container}:{SERVER}")
        engine.run("cp", str(file), f"{container}:/etc/systemd/system/{UNIT}")
    started = f"chmod 755 {SERVER} && systemctl daemon-reload && systemctl enable -q --now {UNIT}"
    done = nodes.over_ssh(fleet, node, started)
    if done.returncode:
        raise Problem(f"the link on node {node.name} does not start: {done.stderr.strip()}")
    server(node).await_answer()


def lay(fleet: Fleet, node: Node) -> str:
    """Lay the ways that the inventory names, with its round trip; return how the delay is made."""
    assert node.link is not None
    ways = [Way(f"{node.address}:{port}", to) for port, to in node.link.ways]
    server(node).lay(ways, 0)
    return delay(fleet, node, node.link.round_trip_ms)


def delay(fleet: Fleet, node: Node, round_trip_ms: float) -> str:
    """Set the round trip; return whether netem makes it or Toxiproxy.

    Raises:
        Problem: when it is not within 0 and 200 ms, or the link does not answer.
    """
    if not 0 <= round_trip_ms <= MOST_MS:
        raise Problem(f"a round trip of {round_trip_ms:g} ms: say one of 0 to {MOST_MS}")
    if nodes.over_ssh(fleet, node, netem_command(round_trip_ms)).returncode == 0:
        server(node).delay(0)
        return "netem"
    server(node).delay(round_trip_ms)
    return "Toxiproxy"


def link_nodes(fleet: Fleet) -> list[Node]:
    """Return the nodes that are links; raises Problem when the fleet has none."""
    found = [node for node in fleet.nodes if node.link is not None]
    if not found:
        raise Problem(f"inventory {fleet.source}: no host has fleet_link, so there is no link to set")
    return found


def told(fleet: Fleet, node: Node) -> list[str]:
    """Return a line for each way: where from, where to, its round trip, whether it is cut."""
    shown = nodes.over_ssh(fleet, node, "tc qdisc show dev eth0").stdout
    made = "by netem" if "netem" in shown else "by Toxiproxy"
    lines = []
    for listen, (to, trip, cut) in sorted(server(node).state().items()):
        trip_said = shown.strip() if "netem" in shown else f"round trip {trip} ms {made}"
        lines.append(f"{listen} to {to}: {'cut' if cut else trip_said}")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Set or tell the link: 0 done, 2 a problem to mend."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.fleet.link",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--inventory", type=Path, default=INVENTORY)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--round-trip-ms", type=float, metavar="MS", help=f"0 to {MOST_MS}")
    what.add_argument("--cut", action="store_true", help="let nothing through; connections get no answer")
    what.add_argument("--mend", action="store_true", help="let everything through again")
    options = parser.parse_args(arguments)
    try:
        fleet = read_fleet(options.inventory)
        for node in link_nodes(fleet):
            if options.cut:
                server(node).cut()
            elif options.mend:
                server(node).mend()
            elif options.round_trip_ms is not None:
                delay(fleet, node, options.round_trip_ms)
            print("\n".join(told(fleet, node)))
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
