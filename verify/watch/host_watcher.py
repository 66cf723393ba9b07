"""`python -m verify.watch.host_watcher --run-dir runs/ID --inventory INV`: each planned process a second.

One SSH connection a host brings a line a second (verify.watch.host_sampler), which becomes rows of the tables
processes (memory, CPU time and open files of each instance's main process) and pressure (what the host waits
for and carries); under a watch also of balancer (what HAProxy counts of each server) and metrics (what
instances with an agent tell Prometheus). ``heap_bytes`` stays null: asking a JVM for it stops that JVM at a
safepoint each time. A connection that ends is opened again, and what was missed is a gap. Ends with the load
or the watch, or with the playbook (``KEDGE_PARENT_PID``).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kedge.evidence.border.host_output import ERROR_BYTES, SAMPLE_BYTES, sample
from kedge.evidence.border.untrusted import UntrustedError, only, read_line, shown
from kedge.evidence.load_state import parts_of
from kedge.evidence.tables import BALANCER, PRESSURE
from kedge.evidence.watch_options import WATCH
from kedge.evidence.writing import EvidenceWriter, rows_to_columns
from kedge.plan.metrics import SAMPLED, served
from kedge.services.balancer.probe import SOCKET
from kedge.services.registry import SERVICES
from verify.collect.hosts import Access, CollectError, become_password, read_access, ssh
from verify.process import Ending

_PROGRAM: Final = Path(__file__).with_name("host_sampler.py")
#: Services whose instances are processes that do the work themselves, unlike HAProxy's, which have workers.
_UNITS: Final = {service.name: service.unit for service in SERVICES if service.java}
_NAMES: Final = frozenset(begin.partition("{")[0] for begin in SAMPLED)
_AGAIN_S: Final = 2.0
_LOOK_S: Final = 0.5
_END_S: Final = 5.0
#: A line is due each second, and what a connection held up comes at once; more must not fill the disk.
_MOST_PER_S: Final = 4
_BURST: Final = 120

#: The service and the instance of each unit of a host.
Units = Mapping[str, tuple[str, str]]


def planned_units(plan: Mapping[str, Any]) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the units of each host that has any, each with its service and the instance's name."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for host, part in plan["hosts"].items():
        for service, of_service in part["services"].items():
            if unit := _UNITS.get(service):
                for instance in of_service["instances"]:
                    name = str(instance["name"])
                    found.setdefault(host, {})[f"{unit}@{name}"] = (service, name)
    return found


def watched(run_dir: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the units of each host that is sampled: hosts that make the load and balancers have none.

    Raises:
        OSError, ValueError: when the run's folder does not hold a plan, and a load or a watch.
    """
    plan = json.loads((run_dir / "plan.json").read_text(encoding="utf-8"))
    beside = [run_dir / name for name in ("load.json", WATCH) if (run_dir / name).exists()]
    told = [json.loads(path.read_text(encoding="utf-8")) for path in beside or [run_dir / "load.json"]]
    hosts = [host for one in told for host in (*one.get("generators", ()), *one.get("balancers", ()))]
    return {host: {} for host in hosts} | planned_units(plan)


def beside(run_dir: Path) -> dict[str, list[str]]:
    """Return what is sampled of hosts under a watch alone, in the sampler's words: balancers and metrics."""
    path = run_dir / WATCH
    if not path.exists():
        return {}
    fronts = json.loads(path.read_text(encoding="utf-8"))["balancers"]
    words = {host: [f"socket={SOCKET}"] for host in fronts}
    plan = json.loads((run_dir / "plan.json").read_text(encoding="utf-8"))
    for host, agents in _agents(plan).items():
        words.setdefault(host, []).extend([*agents, *(f"series={one}" for one in SAMPLED)])
    return words


def _agents(plan: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return by host, in the sampler's words, which instances serve metrics and where."""
    found: dict[str, list[str]] = {}
    for host, part in plan["hosts"].items():
        for service, of_service in part["services"].items():
            for instance in of_service["instances"] if service in _UNITS else ():
                flags = (served(str(setting["value"])) for setting in instance["settings"])
                if where := next(filter(None, flags), None):
                    address = f"[{where[0]}]" if ":" in where[0] else where[0]
                    unit = f"{_UNITS[service]}@{instance['name']}"
                    found.setdefault(host, []).append(f"metrics={unit}={address}:{where[1]}")
    return found


def ssh_command(access: Access, units: Units, beside: Sequence[str] = ()) -> list[str]:
    """Return the command that brings a host's samples; ``beside`` are further words of the sampler."""
    return ssh(access, ["python3", "-c", _PROGRAM.read_text(encoding="utf-8"), *units, *beside])


def rows(host: str, units: Units, line: bytes) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that a line of a host's samples makes, by table.

    Raises:
        UntrustedError: when it is not one.
    """
    said = sample(line, units)
    made = []
    for unit, at_us, rss_bytes, cpu_us, fds in said.units:
        service, instance = units[unit]
        who = {"host": host, "service": service, "instance": instance}
        made.append({**who, "at_us": at_us, "rss_bytes": rss_bytes, "cpu_us": cpu_us, "fds": fds})
    columns = [name for name in PRESSURE.names if name != "host"]
    links: Sequence[Sequence[Any]] = said.links or [(None,) * (len(columns) - len(said.host))]
    of_host = [{"host": host, **dict(zip(columns, [*said.host, *link], strict=True))} for link in links]
    at_us = said.host[0]
    names = [name for name in BALANCER.names if name not in ("host", "at_us")]
    servers = [{"host": host, "at_us": at_us, **dict(zip(names, one, strict=True))} for one in said.servers]
    only((name for _, _, name, _ in said.metrics), _NAMES, "metrics")
    told = [
        {
            **dict(zip(("service", "instance"), units[unit], strict=True)),
            "host": host,
            "at_us": at_us,
            "name": name,
        }
        | {"value": value}
        for unit, at_us, name, value in said.metrics
    ]
    return {"processes": made, "pressure": of_host, "balancer": servers, "metrics": told}


class HostWatcher:
    """Writes one host's samples from a thread of its own, until stopped."""

    def __init__(
        self, host: str, units: Units, command: list[str], evidence: Path, password: str | None = None
    ) -> None:
        self._host, self._units, self._command, self._password = host, units, command, password
        self._evidence = evidence
        self._writers: dict[str, EvidenceWriter] = {}
        self._stop = threading.Event()
        self._ssh: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"processes-{host}", daemon=True)
        self._complaint = ""

    def start(self) -> None:
        """Begin sampling."""
        self._thread.start()

    def stop(self) -> None:
        """End sampling and put what was sampled on disk."""
        self._stop.set()
        with self._lock:
            if self._ssh is not None:
                self._ssh.terminate()
        self._thread.join(_END_S)
        for writer in self._writers.values():
            writer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            said = self._read()
            if not self._stop.is_set() and said != self._complaint:
                self._complaint = said
                print(f"{self._host}: no samples of its processes: {said}", file=sys.stderr, flush=True)
            self._stop.wait(_AGAIN_S)

    def _read(self) -> str:
        """Read one connection to its end; return why it ended."""
        with self._lock:
            if self._stop.is_set():
                return ""
            pipe = subprocess.PIPE
            stdin = subprocess.DEVNULL if self._password is None else pipe
            self._ssh = subprocess.Popen(self._command, stdin=stdin, stdout=pipe, stderr=pipe)
        with self._ssh as ssh:
            if ssh.stdin is not None:
                with contextlib.suppress(OSError):  # it ended already, and says why
                    ssh.stdin.write(f"{self._password}\n".encode())
                    ssh.stdin.close()
            assert ssh.stdout is not None
            assert ssh.stderr is not None
            began, heard = time.monotonic(), 0
            try:
                while line := read_line(ssh.stdout, SAMPLE_BYTES):
                    heard += 1
                    if heard > _BURST + _MOST_PER_S * (time.monotonic() - began):
                        ssh.terminate()
                        return "it sends far more than a line a second"
                    for table, found in rows(self._host, self._units, line).items():
                        if found:
                            self._append(table, found)
            except UntrustedError:
                ssh.terminate()
                return f"not a line of samples: {shown(line, 80)!r}"
            lines = ssh.stderr.read(ERROR_BYTES).decode(errors="replace").strip().splitlines()
        return shown(lines[-1]) if lines else f"ssh ended with {ssh.returncode}"

    def _append(self, table: str, found: list[dict[str, Any]]) -> None:
        if table not in self._writers:
            self._writers[table] = EvidenceWriter(self._evidence, table, f"watch-{self._host}")
        self._writers[table].append(rows_to_columns(table, found))


def main(arguments: list[str] | None = None) -> int:
    """Sample until the load has ended; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.watch.host_watcher", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run's folder, with plan.json")
    parser.add_argument("--inventory", required=True, help="how the hosts are reached")
    options = parser.parse_args(arguments)
    parent = os.environ.get("KEDGE_PARENT_PID")
    ending = Ending(int(parent) if parent else None)
    try:
        units, words = watched(options.run_dir), beside(options.run_dir)
        hosts = read_access(options.inventory, sorted(units))
    except (CollectError, OSError, ValueError) as error:
        holds = "Nothing is sampled of the processes; the load runs on."
        print(f"{error}. {holds} Fix that, then run the playbook again", file=sys.stderr)
        return 2
    watchers = [
        HostWatcher(
            host.name,
            units[host.name],
            ssh_command(host, units[host.name], words.get(host.name, ())),
            options.run_dir / "evidence",
            become_password(host.name) if host.become else None,
        )
        for host in hosts
    ]
    for watcher in watchers:
        watcher.start()
    pause = threading.Event()
    while not ending and not ended(options.run_dir):
        pause.wait(_LOOK_S)
    for watcher in watchers:
        watcher.stop()
    return 0


def ended(run_dir: Path) -> bool:
    """Tell whether the run's load and watch are over; what has not begun is not."""
    states = [run_dir / f"{part}.state" for part in parts_of(run_dir)]
    try:
        told = [json.loads(state.read_text(encoding="utf-8")) for state in states]
    except FileNotFoundError:
        return False
    return all(state["phase"] in ("done", "failed") for state in told)


if __name__ == "__main__":
    sys.exit(main())
