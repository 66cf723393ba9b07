"""Stock MirrorMaker, each measure alone, the article and the plan, over one long way, taking turns.

    python -m bench.mirror           all cases, three rotations; writes bench/mirror/metrics.json and .md
    python -m bench.mirror --case stock --case planned --records 100000

Two clusters of one broker each, classic MirrorMaker on the source's side, producing through the link of
:mod:`bench.mirror.link`, a stand-in for the network. All on this machine, so its cores bound every case.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.mirror.cases import Case, all_cases
from bench.mirror.link import running_link
from bench.mirror.run import Bench, repetition
from bench.mirror.steady import table
from bench.mirror.workloads import WORKLOADS, fill
from local.brokers import free_ports, kafka_jars, running_broker
from local.places import jar_folder

HERE = Path(__file__).parent
TOPIC = "bench"
MIRROR_JARS = "kafka-3.9.2"


def main(arguments: list[str] | None = None) -> int:
    """Measure, keep and print; 0 when every case has a figure, 1 when not, 2 when nothing can run."""
    parser = argparse.ArgumentParser(prog="python -m bench.mirror", description=__doc__)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="metrics")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--round-trip-ms", type=float, default=60)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--limit-s", type=float, default=300, help="for one repetition")
    parser.add_argument("--case", action="append", default=[], help="some; stock gives ratios")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the results")
    options = parser.parse_args(arguments)
    cases = all_cases(options.partitions, options.round_trip_ms, os.cpu_count() or 1)
    unknown = sorted(set(options.case) - set(cases))
    if unknown:
        print(f"no case {', '.join(unknown)}; there are: {', '.join(cases)}", file=sys.stderr)
        return 2
    jars = kafka_jars()
    if jars is None or not any(jar_folder(MIRROR_JARS).glob("kafka-tools-*.jar")):
        print(f"the jars of a broker or of {MIRROR_JARS} are not cached: make setup", file=sys.stderr)
        return 2
    chosen = {name: case for name, case in cases.items() if name in (options.case or cases)}
    result = measure(options, chosen, jars)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{options.workload}.json").write_text(json.dumps(result, indent=2) + "\n")
    text = table(result["cases"])
    (options.out / f"{options.workload}.md").write_text(text)
    print(text)
    return 0 if all(result["cases"].values()) else 1


def measure(options: argparse.Namespace, cases: dict[str, Case], jars: Path) -> dict[str, Any]:
    """Run all repetitions of all cases in rotation on one pair of clusters."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    failures: list[str] = []
    near, link_port = free_ports(2)
    with (
        tempfile.TemporaryDirectory(prefix="kedge-bench-mirror-") as name,
        running_broker(jars, 512) as source,
        running_broker(jars, 512, {"message.max.bytes": "1000000"}, (near, link_port)) as target,
        running_link(link_port, near, options.round_trip_ms, Path(name)) as link,
    ):
        source.create_topic(TOPIC, options.partitions)
        records, size = fill(
            source.bootstrap_servers, TOPIC, options.partitions, WORKLOADS[options.workload](options.records)
        )
        bench = Bench(
            source, target, link, jar_folder(MIRROR_JARS), Path(name), TOPIC, options.partitions, records,
            size, options.limit_s,
        )  # fmt: skip
        names = list(cases)
        for turn in range(options.repetitions):
            # Each rotation begins with another case, so that none is always the one on a cold machine.
            start = turn % len(names)
            for case in names[start:] + names[:start]:
                try:
                    runs[case].append({"rotation": turn, **repetition(bench, cases[case])})
                except (RuntimeError, ValueError) as error:
                    failures.append(f"{case}, rotation {turn}: {error}")
                    print(failures[-1], file=sys.stderr)
    return {
        "command": "python -m bench.mirror",
        "workload": {"name": options.workload, "records": records, "bytes": size},
        "partitions": options.partitions,
        "link": f"bench.mirror.link, a stand-in: {options.round_trip_ms:g} ms, no loss, no rate limit",
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "load_at_the_end": round(os.getloadavg()[0], 1),
        "settings": {
            name: {"processes": c.processes, "heap_mib": c.heap_mib, **c.producer}
            for name, c in cases.items()
        },
        "failures": failures,
        "cases": runs,
    }


if __name__ == "__main__":
    sys.exit(main())
