"""Stock MirrorMaker, each measure alone, the article and the plan, over one long way, taking turns.

    python -m lab.bench.mirror                all cases, three rotations; writes metrics.json and .md
    python -m lab.bench.mirror --workload logs --case defaults --case article --case planned
    python -m lab.bench.mirror --processes    defaults and planned by processes: far, near, 1 core
    python -m lab.bench.mirror --transactions MirrorMaker 2 exactly once, by poll or by interval
    python -m lab.bench.mirror --buffers      MirrorMaker 2 with the planned buffer.memory and the default

Two clusters of one broker each, classic MirrorMaker on the source's side, producing through Toxiproxy. All on
this machine, so its cores bound every case.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from lab.bench.mirror.cases import Case, all_cases, by_buffers, by_processes, by_transactions
from lab.bench.mirror.run import Bench, repetition
from lab.bench.mirror.tables import process_table, table
from lab.bench.mirror.workloads import BEST_RATIO, WORKLOADS, fill
from lab.fleet import toxiproxy
from lab.fleet.toxiproxy import Way
from lab.services.brokers import kafka_jars, running_broker
from lab.services.mirrors import CLASSIC_JARS, MM2_JARS, has_jars
from lab.services.serving import free_ports
from verify.process import leave

HERE = Path(__file__).parent
TOPIC = "bench"
#: How many records there are, and how many of them are made: those are written again and again.
RECORDS = {"metrics": 8_000_000, "logs": 150_000}
MADE = {"metrics": 1_000_000, "logs": 10_000}


def main(arguments: list[str] | None = None) -> int:
    """Measure, keep and print; 0 when every case has a figure, 1 when not, 2 when nothing can run."""
    options = options_of(arguments)
    cores = os.cpu_count() or 1
    place = (options.partitions, options.round_trip_ms, cores)
    kinds = {"processes": by_processes, "transactions": by_transactions, "buffers": by_buffers}
    if options.table:
        cases = kinds[options.table](*place)
    else:
        cases = all_cases(*place, ratio=BEST_RATIO[options.workload])
    unknown = sorted(set(options.case) - set(cases))
    if unknown:
        print(f"no case {', '.join(unknown)}; there are: {', '.join(cases)}", file=sys.stderr)
        return 2
    jars = kafka_jars()
    tool = MM2_JARS if options.table in ("transactions", "buffers") else CLASSIC_JARS
    if jars is None or not has_jars(tool):
        print(f"the jars of a broker or of {tool} are not cached: make setup", file=sys.stderr)
        return 2
    if reason := toxiproxy.PROGRAM.obstacle():
        print(reason, file=sys.stderr)
        return 2
    chosen = {name: case for name, case in cases.items() if name in (options.case or cases)}
    result = measure(options, chosen, jars)
    print(keep(options, result))
    return 0 if all(result["cases"].values()) else 1


def keep(options: argparse.Namespace, result: Mapping[str, Any]) -> str:
    """Write the result and its table, which is returned."""
    name = options.table or options.workload
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    cases = result["cases"]
    base = {"transactions": "by poll", "buffers": "a task each, 32 MiB"}.get(options.table, "defaults")
    text = process_table(cases) if options.table == "processes" else table(cases, base)
    (options.out / f"{name}.md").write_text(text)
    return text


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Return what a command line asks for; defaults for an empty one."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.mirror",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="metrics")
    which = parser.add_mutually_exclusive_group()
    for name, about in (
        ("processes", "of more and more processes"),
        ("transactions", "of MirrorMaker 2 exactly once"),
        ("buffers", "of MirrorMaker 2 with buffers of several sizes"),
    ):
        which.add_argument(f"--{name}", action="store_const", dest="table", const=name, help=f"cases {about}")
    parser.add_argument("--records", type=int, help="8,000,000 metrics or 150,000 logs")
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--round-trip-ms", type=float, default=60)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--more", action="store_true", help="add rotations to those in the folder of results")
    parser.add_argument("--limit-s", type=float, default=120, help="for one repetition")
    parser.add_argument("--case", action="append", default=[], help="some; defaults gives ratios")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the results")
    options = parser.parse_args(arguments)
    options.records = options.records or RECORDS[options.workload]
    return options


@contextmanager
def running_bench(options: argparse.Namespace, jars: Path) -> Iterator[Bench]:
    """Run both clusters with a filled source and the link between them until the block ends."""
    far, link_port, api = free_ports(3)
    with tempfile.TemporaryDirectory(prefix="kedge-bench-mirror-") as name:
        requests = Path(name) / "requests"
        ways = [Way(f"127.0.0.1:{link_port}", f"127.0.0.1:{far}")]
        with (
            running_broker(jars, 512) as source,
            running_broker(jars, 512, {"message.max.bytes": "1000000"}, (far, link_port), requests) as target,
            toxiproxy.running(ways, options.round_trip_ms, api) as link,
        ):
            source.create_topic(TOPIC, options.partitions)
            times = max(1, -(-options.records // MADE[options.workload]))
            made = WORKLOADS[options.workload](options.records // times)
            records, size = fill(source.bootstrap_servers, TOPIC, options.partitions, made, times)
            yield Bench(
                source, target, link, link_port, far, requests, Path(name), TOPIC, options.partitions,
                records, size, options.limit_s,
            )  # fmt: skip


def measure(options: argparse.Namespace, cases: Mapping[str, Case], jars: Path) -> dict[str, Any]:
    """Run all repetitions of all cases in rotation on one pair of clusters."""
    before = kept(options)
    runs = {name: list(found) for name, found in before["cases"].items()}
    runs |= {name: [] for name in cases if name not in runs}
    failures = list(before["failures"])
    done = max((one["rotation"] + 1 for found in runs.values() for one in found), default=0)
    with running_bench(options, jars) as bench:
        names = list(cases)
        for turn in range(done, done + options.repetitions):
            # Each rotation begins with another case, so that none is always the one on a cold machine.
            start = turn * len(names) // (done + options.repetitions)
            for case in names[start:] + names[:start]:
                trip = cases[case].round_trip_ms
                bench.link.delay(options.round_trip_ms if trip is None else trip)
                try:
                    runs[case].append({"rotation": turn, **repetition(bench, cases[case])})
                    print(f"{case}, rotation {turn}: {runs[case][-1]}", file=sys.stderr)
                except (RuntimeError, ValueError, TimeoutError, KafkaException) as error:
                    failures.append(f"{case}, rotation {turn}: {error}")
                    print(failures[-1], file=sys.stderr)
                # A bench that is cut off keeps what it has.
                result = _result(options, cases, bench, runs, failures)
                result["settings"] = before["settings"] | result["settings"]
                days = {*before["measured_on"].split(", "), today()} - {""}
                result["measured_on"] = ", ".join(sorted(days))
                keep(options, result)
    return result


def kept(options: argparse.Namespace) -> dict[str, Any]:
    """Return what was measured before if more is wanted: all of its cases, also those that get no more."""
    file = options.out / f"{options.table or options.workload}.json"
    if not options.more or not file.exists():
        return {"cases": {}, "failures": [], "settings": {}, "measured_on": ""}
    return dict(json.loads(file.read_text()))


def today() -> str:
    """Return the day, of UTC."""
    return datetime.now(UTC).date().isoformat()


def _result(
    options: argparse.Namespace,
    cases: Mapping[str, Case],
    bench: Bench,
    runs: dict[str, list[dict[str, Any]]],
    failures: list[str],
) -> dict[str, Any]:
    return {
        "command": f"python -m lab.bench.mirror --workload {options.workload}"
        + (f" --{options.table}" if options.table else ""),
        "workload": {"name": options.workload, "records": bench.records, "bytes": bench.plain_bytes},
        "partitions": options.partitions,
        "link": f"Toxiproxy {toxiproxy.PROGRAM.version()}: {options.round_trip_ms:g} ms, no loss, "
        "no rate limit",
        "measured_on": today(),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "load_at_the_end": round(os.getloadavg()[0], 1),
        "settings": {
            name: {"processes": c.processes, "heap_mib": c.heap_mib, **c.producer, **c.worker}
            for name, c in cases.items()
        },
        "failures": failures,
        "cases": runs,
    }


if __name__ == "__main__":
    leave(main())
