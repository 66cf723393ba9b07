"""The local fleet: systemd nodes in containers, named and addressed by an inventory, reached over SSH.

python -m lab.fleet up|down|restart|status|ssh-config [--inventory PATH] [--limit a,b] [--with HOST]
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import signal
import sys
import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

from kedge.setup.disk_space import check_space
from kedge.setup.paths import GENERATED, PROJECT
from kedge.setup.problem import Problem
from lab.fleet import link, node_image, nodes, survey
from lab.fleet import ssh_keys as keys
from lab.fleet.engine import Engine, NoEngine, find_engine
from lab.fleet.inventory import Fleet, Node, choose, read_fleet
from lab.fleet.lock import alone
from lab.fleet.survey import FLEET_LABEL, NODE_LABEL, PROJECT_LABEL, Container, Network


def say(line: str) -> None:
    """Print one line at once, whole."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def up(fleet: Fleet, limit: Collection[str] = (), also: Collection[str] = ()) -> None:
    """Start the chosen nodes that do not run; raises Problem before anything is touched where they cannot."""
    began = time.monotonic()
    wanted = choose(fleet, limit, also)
    _check_cores(fleet, wanted)
    engine = find_engine()
    with _lock(fleet.name):
        found = _check(engine, fleet, wanted)
        say(
            f"fleet {fleet.name} on {fleet.subnet} ({engine.name}): {', '.join(node.name for node in wanted)}"
        )
        node_image.ensure(engine, lambda line: say(f"  node image: {line}"))
        keys.make_keys(fleet)
        kept = _clear_leftovers(engine, fleet, found, wanted)
        _start_all(engine, fleet, wanted, kept)
        for node in wanted:
            if node.link:
                link.install(engine, fleet, node)
                say(f"  {node.name}: round trip of {node.link.round_trip_ms:g} ms by {link.lay(fleet, node)}")
    how = f"ssh -F {keys.ssh_config(fleet)} {wanted[0].name}"
    say(f"fleet {fleet.name}: up in {time.monotonic() - began:.1f} s; {how}")


def _check(engine: Engine, fleet: Fleet, wanted: list[Node]) -> list[Container]:
    found, known = survey.containers(engine), survey.networks(engine)
    survey.check_owner(fleet, found, known)
    _clear_bridges(fleet, known)
    survey.clear_leases(engine, found, known)
    survey.check_subnet(fleet, known, _routes())
    running = {container.name for container in found if container.alive}
    new = [node for node in wanted if fleet.container(node) not in running]
    needs = [(node_image.store(engine.name), nodes.NODE_MB * len(new), f"{len(new)} nodes")]
    if not node_image.is_present(engine):
        needs += [(folder, size, "the nodes' image") for folder, size in node_image.needs(engine.name)]
    check_space(needs)
    return [container for container in found if container.labels.get(FLEET_LABEL) == fleet.name]


def _check_cores(fleet: Fleet, wanted: list[Node]) -> None:
    last = (os.cpu_count() or 1) - 1
    for node in wanted:
        if node.cores and node.cores[-1] > last:
            raise Problem(
                f"inventory {fleet.source}: fleet_cores of {node.name} has core {node.cores[-1]}, and this "
                f"machine has cores 0 to {last}: name some of these, or take fleet_cores out"
            )


def _routes() -> list[tuple[str, ipaddress.IPv4Network]]:
    return survey.routes(Path("/proc/net/route").read_text(encoding="utf-8"))


def _clear_bridges(fleet: Fleet, known: list[Network]) -> None:
    for bridge in survey.left_bridges(fleet, known, _routes()):
        nodes.remove_bridge(bridge)
        say(f"  bridge {bridge}: left over from a killed fleet, cleared")


def _clear_leftovers(engine: Engine, fleet: Fleet, own: list[Container], wanted: list[Node]) -> set[str]:
    """Remove what cannot be used; return the names of the containers that stay."""
    by_name = {fleet.container(node): node for node in fleet.nodes}
    chosen = {fleet.container(node) for node in wanted}
    gone, kept = [], set()
    for container in own:
        node = by_name.get(container.name)
        if node is None:
            reason = "no longer in the inventory"
        elif not container.alive:
            reason = "left over from a stopped or killed fleet"
        elif container.name in chosen and container.labels.get(NODE_LABEL) != nodes.description(fleet, node):
            reason = "made from other settings"
        else:
            kept.add(container.name)
            continue
        gone.append(container)
        say(f"  {container.name.removeprefix(fleet.name + '-')}: {reason}, cleared")
    nodes.remove(engine, gone)
    if nodes.ensure_network(engine, fleet, survey.networks(engine)):
        if kept:
            raise Problem(
                f"fleet {fleet.name} runs on another subnet than {fleet.subnet}: run 'make fleet-down' first"
            )
        engine.run("network", "rm", "--force", fleet.network)
        nodes.ensure_network(engine, fleet, ())
    return kept


def _start_all(engine: Engine, fleet: Fleet, wanted: list[Node], kept: set[str]) -> None:
    stop = threading.Event()

    def one(node: Node) -> None:
        began = time.monotonic()
        if stop.is_set():
            return
        if fleet.container(node) in kept:
            state, verb = nodes.wait(engine, fleet, node, stop, seconds=20.0), "was up"
        else:
            state = nodes.start(engine, fleet, node, stop, say)
            verb = f"up in {time.monotonic() - began:.1f} s"
        if stop.is_set():
            return
        failed = (
            f", failed units: {', '.join(nodes.failed_units(fleet, node))}" if state == "degraded" else ""
        )
        say(f"  {node.name:<12} {node.address:<15} {verb}{failed}")

    pool = ThreadPoolExecutor(max_workers=8)
    try:
        for finished in [pool.submit(one, node) for node in wanted]:
            finished.result()
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def down(name: str | None, limit: Collection[str] = ()) -> None:
    """Remove the fleet `name`, or its nodes in `limit`, or with None all fleets that this project started."""
    try:
        engine = find_engine()
    except NoEngine:
        say("no container engine, so no fleet to stop")
        return
    label, value = (FLEET_LABEL, name) if name else (PROJECT_LABEL, str(PROJECT))
    with _lock(name) if name else contextlib.nullcontext():
        own = [container for container in survey.containers(engine) if container.labels.get(label) == value]
        gone = [container for container in own if container.name in limit] if limit else own
        gone = [container for container in gone if not survey.is_foreign(container)]
        nodes.remove(engine, gone)
        for container in gone:
            say(f"  {container.name}: removed")
        left = {container.labels[FLEET_LABEL] for container in own if container not in gone}
        for network in survey.networks(engine):
            if network.labels.get(label) == value and network.labels.get(FLEET_LABEL, "") not in {"", *left}:
                engine.run("network", "rm", "--force", network.name)
                say(f"  network {network.name}: removed")
    if name is None:
        nodes.close_connections()


def restart(fleet: Fleet, names: Collection[str]) -> None:
    """Restart nodes as a reboot restarts a host: every process ends, what is on disk stays."""
    engine = find_engine()
    with _lock(fleet.name):
        for node in choose(fleet, names, ()):
            began = time.monotonic()
            nodes.restart(engine, fleet, node, threading.Event())
            if node.link:
                link.install(engine, fleet, node)
            say(f"  {node.name}: restarted in {time.monotonic() - began:.1f} s")


def status(fleet: Fleet) -> bool:
    """Print one line a node; return whether all that start with the fleet can be worked with."""
    engine = find_engine()
    records = {container.name: container for container in survey.containers(engine)}
    complete = True
    for node in fleet.nodes:
        container = records.get(fleet.container(node))
        if container is None or container.labels.get(FLEET_LABEL) != fleet.name:
            state = "not started" + (" (on demand)" if node.on_demand else "")
        elif survey.is_foreign(container):
            state = f"runs for the project in {container.labels.get(PROJECT_LABEL)}"
        elif not container.alive:
            state = "stopped or killed; 'make fleet-up' makes it anew"
        else:
            state = (
                nodes.over_ssh(fleet, node, "systemctl is-system-running").stdout.strip()
                or "does not answer over SSH"
            )
        complete &= node.on_demand or state in ("running", "degraded")
        say(f"{node.name:<12} {node.address:<15} {state}")
    return complete


def _lock(name: str) -> contextlib.AbstractContextManager[None]:
    return alone(GENERATED / "fleet" / name / "lock", f"fleet {name}")


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.fleet", description="Systemd nodes in containers.")
    parser.add_argument("action", choices=["up", "down", "restart", "status", "ssh-config"])
    parser.add_argument("nodes", nargs="*", metavar="HOST", help="restart: these nodes")
    parser.add_argument("--inventory", type=Path, default=PROJECT / "inventories" / "local")
    parser.add_argument("--limit", type=_names, default=[], metavar="HOST,...", help="only these nodes")
    parser.add_argument(
        "--with", type=_names, default=[], metavar="HOST,...", dest="also", help="on-demand nodes too"
    )
    parser.add_argument("--all", action="store_true", help="down: every fleet that this project started")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run one command: 0 done, 1 an incomplete or impossible fleet, 2 a problem to mend, 130 interrupted."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if options.action == "down" and options.all:
            down(None)
            return 0
        fleet = read_fleet(options.inventory)
        if options.action == "up":
            up(fleet, options.limit, options.also)
        elif options.action == "down":
            chosen = choose(fleet, options.limit, ()) if options.limit else []
            down(fleet.name, [fleet.container(node) for node in chosen])
        elif options.action == "restart":
            restart(fleet, [*options.limit, *options.nodes])
        elif options.action == "status":
            return 0 if status(fleet) else 1
        else:
            keys.make_keys(fleet)
            say(keys.ssh_config(fleet).read_text(encoding="utf-8").rstrip())
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        again = "'make fleet-up' goes on from here, 'make fleet-down' clears what was started"
        print(f"interrupted; {again}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
