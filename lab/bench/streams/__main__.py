"""Stock RocksDB and the bounded class side by side: throughput and RSS over the bound, over time, latency.

    python -m lab.bench.streams                  all parts; writes streams.json and docs/streams.svg
    python -m lab.bench.streams --part curve     one part into the same file: curve, time, latency, restore

One broker and one application on this machine share its cores, which bounds every case alike; parts measured
in one call see the same load. curve and time read a backlog without changelogs, so that RocksDB is pressed as
hard as this machine can; latency and restore run the sample as it is deployed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from kedge.services.streams.stores import state
from kedge.services.streams.variables import StreamsApp
from lab.bench.streams import cases, run
from lab.bench.streams.figures import knee, memory, over_time, percentiles, rate
from lab.bench.streams.plot import draw
from lab.bench.streams.run import Bench
from lab.services.application import SAMPLE_JAR
from lab.services.brokers import kafka_jars, running_broker

HERE = Path(__file__).parent
RESULT = HERE / "streams.json"
PLOT = HERE.parents[2] / "docs" / "streams.svg"
PARTS: Final = ("curve", "time", "restore", "latency")


def main(arguments: list[str] | None = None) -> int:
    """Measure, keep and draw; 0 when every case has its figures, 1 when not, 2 when nothing can run."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.streams",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", action="append", choices=PARTS, default=[])
    parser.add_argument("--case", action="append", default=[], help="some of the part's")
    parser.add_argument("--curve-s", type=float, default=30, help="for each bound")
    parser.add_argument("--time-s", type=float, default=120)
    parser.add_argument("--latency-s", type=float, default=40)
    parser.add_argument("--records", type=int, default=200_000, help="of the backlog")
    parser.add_argument(
        "--came-per-s",
        type=float,
        default=600,
        help="how fast the backlog had come: segments follow its time",
    )
    parser.add_argument("--restored", type=int, default=4000, help="records in the stores that are lost")
    parser.add_argument("--records-per-s", type=float, default=40, help="where they are sent at a rate")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--plot", type=Path, default=PLOT)
    options = parser.parse_args(arguments)
    jars = kafka_jars()
    if jars is None or not SAMPLE_JAR.is_file():
        print("the jars of a broker, or the sample application, are missing: make setup", file=sys.stderr)
        return 2
    result: dict[str, Any] = json.loads(options.out.read_text()) if options.out.is_file() else {}
    command = shlex.join(["python", "-m", "lab.bench.streams", *(arguments or sys.argv[1:])])
    failed = False
    for part in (one for one in PARTS if one in (options.part or PARTS)):
        kept = result.get(part, {}).get("cases", {}) if options.case else {}
        result[part] = {"command": command, "date": date.today().isoformat(), "cases": kept}
        for name, figures in measure(part, options, jars):
            failed = failed or "failed" in figures
            kept[name] = figures
            result[part]["machine"] = f"{os.cpu_count()} cores, Python {platform.python_version()}"
            result[part]["load_at_the_end"] = round(os.getloadavg()[0], 1)
            # A bench that is cut off keeps what it has measured.
            options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(summary(result), indent=1))
    if wrong := draw(result, options.plot):
        print(f"no plot: {wrong}", file=sys.stderr)
    return int(failed)


def measure(part: str, options: argparse.Namespace, jars: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run the cases of one part on one broker, one after the other; yield each with its figures."""
    with (
        tempfile.TemporaryDirectory(prefix="kedge-bench-streams-") as name,
        running_broker(jars, 512) as broker,
    ):
        run.prepare(broker)
        if part in ("curve", "time"):
            run.fill(broker, options.records, options.came_per_s)
        bench = Bench(broker, Path(name), options.records)
        for case, about in cases.of_part(part).items():
            if options.case and case not in options.case:
                continue
            print(f"{part}: {case}", file=sys.stderr, flush=True)
            try:
                yield case, _one(part, bench, case, about, options)
            except (RuntimeError, TimeoutError, KafkaException) as error:
                print(error, file=sys.stderr)
                yield case, {"failed": str(error).splitlines()[0]}


def _one(part: str, bench: Bench, name: str, case: cases.Case, options: argparse.Namespace) -> dict[str, Any]:
    if part == "restore":
        return run.restored(bench, case, options.restored)
    planned = plan_figures(case, changelogs=part == "latency")
    if part == "latency":
        seen = run.paced(bench, name, case, options.latency_s, options.records_per_s)
        # The first half pays for compiling; every record after it counts.
        late = seen["latency_ms"][len(seen["latency_ms"]) // 2 :]
        figures: dict[str, Any] = {"sent": seen["sent"], "came_out": len(seen["latency_ms"])} | percentiles(
            late
        )
    else:
        seconds = options.curve_s if part == "curve" else options.time_s
        seen = run.throughput(bench, name, case, seconds)
        figures = {
            "records_per_s": round(rate(seen["commits"])),
            "consumed_records": seen["commits"][-1][1],
        }
        if part == "time":
            # Until each memtable has been full once, default RocksDB flushes nothing and looks faster.
            figures["records_per_s_of_the_second_half"] = round(rate(seen["commits"], seconds / 2))
            figures["rss_over_time"] = over_time(seen["samples"])
    return planned | figures | memory(seen["samples"], cases.HEAP_MIB, case.bounded)


def plan_figures(case: cases.Case, *, changelogs: bool) -> dict[str, Any]:
    """Return what the plan says of a case: the bound, the memory in all, MiB of memtables a database."""
    if not case.bounded:
        return {}
    instance = case.instance(changelogs)
    memtables = int(instance.value("memtables.bytes")) / (1 << 20)
    return {
        "planned_rss_mib": int(instance.value("MemoryMax").removesuffix("M")),
        "bound_mib": int(instance.value("cache.bytes")) >> 20,
        "memtables_a_database_mib": round(memtables / writing(), 2),
    }


def writing() -> int:
    """Return how many databases take writes."""
    stores = StreamsApp.model_validate(cases.role(True)).stores
    return state(stores, 1, 0, measured=True).writing


def summary(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the sizing takes from the measurement."""
    found: dict[str, Any] = {}
    if curve := result.get("curve", {}).get("cases"):
        points = {
            about["memtables_a_database_mib"]: about["records_per_s"]
            for name, about in curve.items()
            if "memtables_a_database_mib" in about and not cases.is_large(name) and "failed" not in about
        }
        if defaults := curve.get("defaults", {}).get("records_per_s"):
            found["records_per_s_of_defaults"] = defaults
            found["share_of_defaults"] = {mib: round(of / defaults, 2) for mib, of in sorted(points.items())}
            found["floor_mib_a_database"] = knee(points, defaults)
    for part in ("curve", "time"):
        for name, about in result.get(part, {}).get("cases", {}).items():
            if "planned_rss_mib" in about and "rss_mib" in about:
                error = about["rss_mib"] / about["planned_rss_mib"] - 1
                found.setdefault("rss_against_plan_percent", {})[f"{part}: {name}"] = round(100 * error, 1)
    return found


if __name__ == "__main__":
    sys.exit(main())
