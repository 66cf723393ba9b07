"""How long a JVM of each service takes to its first answer, with Java's class data archive and without.

    python -m lab.bench.hosts.java_starts [SERVICE...]     the result goes to lab/bench/hosts/java_starts.json

Each service starts on loopback beside one broker, on idle cores and beside a process a core that never
rests. The archive is made by ``jcmd PID VM.cds static_dump`` of a service that has answered (Java 17 or
later), and read by ``-XX:SharedArchiveFile``. Starts with it and without take turns. Proxies of vendors are
measured where KEDGE_REST_ARCHIVES names a folder with their archives.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kedge.trials.variant_order import order_of
from lab.bench.streams.cases import LEFT, PLANNED, RIGHT
from lab.bench.streams.run import prepare
from lab.services.application import running_application
from lab.services.brokers import Broker, end_process, kafka_jars, running_broker
from lab.services.mirrors import start_mm2
from lab.services.rest_proxies import running_proxy, sandbox_archive, unpack, vendor_archives

RESULT: Final = Path(__file__).with_suffix(".json")
#: Each way starts twice in a block.
_BLOCKS: Final = 2
_WAIT_S: Final = 120.0
_DUMP_S: Final = 120.0
#: The collector of all that the kit plans; an archive holds objects of one collector's heap.
_G1: Final = "-XX:+UseG1GC"
#: Starts a service with options for its JVM; yields its process id once it has answered.
Start = Callable[[Path, str], Any]


def main() -> int:
    """Measure services and write the result."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.hosts.java_starts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("services", nargs="*")
    asked = parser.parse_args().services
    with tempfile.TemporaryDirectory(prefix="kedge-bench-starts-") as name, ExitStack() as stack:
        jars = kafka_jars()
        if jars is None:
            print("java_starts: the jars of a broker are not cached: make bench", file=sys.stderr)
            return 2
        stack.enter_context(chdir(name))  # the JVM that dumps leaves files of its own where it is
        broker = stack.enter_context(running_broker(jars, 512))
        prepare(broker)
        services = _services(broker, Path(name))
        if unknown := [one for one in asked if one not in services]:
            print(
                f"java_starts: no service {', '.join(unknown)}; there are: {', '.join(services)}",
                file=sys.stderr,
            )
            return 2
        for service in asked or services:
            rows = _measured(service, services[service], Path(name))
            _keep(service, rows)
            for row in rows["starts"]:
                print(f"{service:15} {row['cores']:5} {row['how']:8} {_said(row['seconds'])}", flush=True)
    return 0


def _keep(service: str, rows: dict[str, Any]) -> None:
    report = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {"services": {}}
    report |= {"machine": f"{os.cpu_count()} cores", "java": _java(), "blocks": _BLOCKS}
    report["services"][service] = rows
    RESULT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _services(broker: Broker, folder: Path) -> dict[str, Start]:
    homes = {}
    if sandbox := sandbox_archive():
        homes[sandbox.name] = unpack(sandbox, folder / "software" / sandbox.name)
    vendors = vendor_archives()
    for one in [] if isinstance(vendors, str) else vendors:
        homes[one.distribution] = unpack(one.file, folder / "software" / one.distribution)
    found: dict[str, Start] = {name: _proxy(home, broker) for name, home in homes.items()}
    return {**found, "mirror-maker-2": _mirror(broker), "streams": _application(broker)}


def _proxy(home: Path, broker: Broker) -> Start:
    @contextmanager
    def start(folder: Path, options: str) -> Iterator[int]:
        bridge = (home / "bin" / "kafka_bridge_run.sh").exists()
        own = {"kafka.bootstrap.servers" if bridge else "bootstrap.servers": broker.bootstrap_servers}
        own |= {"bridge.id": "bench"} if bridge else {"id": "bench", "host.name": "127.0.0.1"}
        with running_proxy(home, folder, own, {"JDK_JAVA_OPTIONS": options}) as proxy:
            yield proxy.process.pid

    return start


def _mirror(broker: Broker) -> Start:
    own = {
        "clusters": "leaf, agg",
        "leaf.bootstrap.servers": broker.bootstrap_servers,
        "agg.bootstrap.servers": broker.bootstrap_servers,
        "leaf->agg.enabled": "true",
        "leaf->agg.topics": "bench-.*",
        "agg->leaf.enabled": "false",
        "replication.factor": 1,
        **{
            f"{name}.storage.replication.factor": 1
            for name in ("config", "offset", "status", "offset-syncs.topic", "checkpoints.topic")
        },
    }

    @contextmanager
    def start(folder: Path, options: str) -> Iterator[int]:
        process = start_mm2(folder, own, "agg", options=[*options.split(), "-Dlog4j2.level=INFO"])
        try:
            _await_line(folder / "log", "Kafka MirrorMaker started", process)
            yield process.pid
        finally:
            end_process(process)

    return start


def _application(broker: Broker) -> Start:
    case = PLANNED["planned"]

    @contextmanager
    def start(folder: Path, options: str) -> Iterator[int]:
        app = case.application(folder.name, LEFT, RIGHT, changelogs=False)
        app = replace(app, environment={**app.environment, "JDK_JAVA_OPTIONS": options})
        # One folder for all: an archive is of the jars of one place.
        with running_application(app, broker.bootstrap_servers, folder.parent / "streams") as running:
            running.wait_running(_WAIT_S)
            yield running.pid

    return start


def _measured(service: str, start: Start, folder: Path) -> dict[str, Any]:
    archive = folder / f"{service}.jsa"
    number = itertools.count()

    def seconds(options: str) -> float:
        began = time.monotonic()
        with start(folder / f"{service}-{next(number)}", options):
            return time.monotonic() - began

    with start(folder / f"{service}-{next(number)}", _G1) as pid:
        began = time.monotonic()
        subprocess.run(
            ["jcmd", str(pid), "VM.cds", "static_dump", str(archive)],
            check=True,
            timeout=_DUMP_S,
            stdout=subprocess.DEVNULL,
        )
        dump_s = time.monotonic() - began
    ways = {"without": _G1, "archive": f"{_G1} -XX:SharedArchiveFile={archive}"}
    starts = []
    for cores in ("idle", "busy"):
        print(f"{service}, {cores} cores", file=sys.stderr, flush=True)
        seen: dict[str, list[float]] = {how: [] for how in ways}
        with _busy() if cores == "busy" else ExitStack():
            for _, how in order_of(list(ways), _BLOCKS):
                seen[how].append(round(seconds(ways[how]), 2))
        starts += [{"cores": cores, "how": how, "seconds": took} for how, took in seen.items()]
    return {"archive_mib": archive.stat().st_size >> 20, "dump_s": round(dump_s, 1), "starts": starts}


@contextmanager
def _busy() -> Iterator[None]:
    """Keep a process a core that never rests."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def _await_line(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while text not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{text!r} is not in {log}")
        time.sleep(0.02)


def _java() -> str:
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "([^"]+)"', said)
    return f"Java {found[1] if found else said.splitlines()[0]}"


def _said(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


if __name__ == "__main__":
    sys.exit(main())
