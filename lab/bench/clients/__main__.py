"""Stock clients against each profile, settings of a consumer, and acks against a leader that is killed.

    python -m lab.bench.clients          all cases in rotation; writes report.md and results.json

It ends after about --minutes: repetitions and kills are begun while there is time for them, one at least.

Three brokers on this machine's loopback, every topic with three copies and min.insync.replicas 2; the Java
client of the same version, all cases in one process and with the same records. Its cores bound every case.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from lab.bench.clients.cases import STOCK, Config, consumers, losses, polls, producers
from lab.bench.clients.driver import DriverError, running_driver
from lab.bench.clients.phases import Bench, consumed, lost, produced, with_topic
from lab.bench.clients.tables import claim, loss_table, medians, table
from lab.bench.jars import broker_jars
from lab.services.broker_cluster import running_nodes
from lab.services.brokers import KAFKA_VERSION
from verify.process import leave

HERE = Path(__file__).parent
READ = "bench-read"
#: The JVMs of clients and brokers are slow at first, and compile while others run.
_WARM_S = 3.0
#: Of the minutes: until then repetitions are begun; rounds and kills take the rest.
_MEASURED_SHARE = 0.66
#: A killed leader is replaced once its session is over.
BROKERS = {"broker.session.timeout.ms": "3000", "log.segment.delete.delay.ms": "1000"}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and keep; 0 when every case has a figure, 1 when one failed, 2 when nothing can run."""
    options = _parser().parse_args(arguments)
    jars = broker_jars()
    begin = time.monotonic()
    try:
        result = measure(options, jars)
    except (DriverError, RuntimeError, KafkaException) as error:
        print(error, file=sys.stderr)
        return 1
    result["took_s"] = round(time.monotonic() - begin)
    text = report(result)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.out / "report.md").write_text(text)
    print(text)
    return 0


def measure(options: argparse.Namespace, jars: Path) -> dict[str, Any]:
    """Run all repetitions of all cases in rotation on one cluster."""
    begin = time.monotonic()
    cases = {"producers": producers(options.partitions), "consumers": consumers(options.partitions)}
    killed = losses(1)
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {
        role: {name: [] for name in named} for role, named in cases.items()
    }
    with (
        tempfile.TemporaryDirectory(prefix="kedge-bench-clients-") as name,
        running_nodes(jars, Path(name), 3, 512, BROKERS) as nodes,
        running_driver(jars, Path(name)) as driver,
    ):
        bench = Bench(nodes, driver, options.partitions, options.record_bytes, options.warm_up,
                      options.seconds, options.steady)  # fmt: skip
        _warm(bench, cases)
        for repetition in while_time(options.repetitions, begin + _MEASURED_SHARE * 60 * options.minutes):
            for number, (case, config) in enumerate(cases["producers"].items()):
                _say(f"repetition {repetition + 1}: producer {case}")
                topic = f"bench-{repetition}-{number}"
                full = produced(bench, config, topic)
                steady = produced(bench, config, f"{topic}-steady", options.steady)
                runs["producers"][case].append({"full": full, "steady": steady})
            for case, config in cases["consumers"].items():
                _say(f"repetition {repetition + 1}: consumer {case}")
                full = consumed(bench, config, READ)
                steady = consumed(bench, config, "bench-steady", options.steady)
                runs["consumers"][case].append({"full": full, "steady": steady})
        rounds = [_round(bench, number, options.round_s) for number in range(options.rounds)]
        loss: dict[str, list[dict[str, int]]] = {case: [] for case in killed}
        for kill in while_time(options.kills, begin + 60 * options.minutes):
            for number, (case, config) in enumerate(killed.items()):
                _say(f"kill {kill + 1}: {case}")
                loss[case].append(lost(bench, config, f"bench-killed-{kill}-{number}", options.loss_rate))
    return {
        "kafka": KAFKA_VERSION,
        "cores": os.cpu_count(),
        "date": date.today().isoformat(),
        "machine": platform.machine(),
        "options": {k: v for k, v in vars(options).items() if k != "out"},
        "cases": {**cases, "killed": killed},
        "runs": runs,
        "rounds": rounds,
        "killed": loss,
    }


def while_time(most: int, until: float) -> Iterator[int]:
    """Count up to ``most``; end before what would pass ``until``, of the monotonic clock, as the last did."""
    took = 0.0
    for number in range(most):
        begin = time.monotonic()
        if number and begin + took > until:
            return
        yield number
        took = time.monotonic() - begin


def _round(bench: Bench, number: int, seconds: float) -> dict[str, float]:
    """Read with each max.poll.records, one right after the other; each is the first one in its turn."""
    cases = list(polls().items())
    start = number % len(cases)
    _say(f"round {number + 1}: max.poll.records")
    return {
        case: consumed(bench, config, READ, seconds=seconds)["records_per_s"]
        for case, config in cases[start:] + cases[:start]
    }


def report(result: dict[str, Any]) -> str:
    """Return the report: conditions, three tables, and what came of the claim."""
    asked = result["options"]
    rows = {
        role: {name: medians(runs) for name, runs in found.items()} for role, found in result["runs"].items()
    }
    conditions = (
        f"{result['date']}; Kafka {result['kafka']}, three brokers and the clients on one machine of "
        f"{result['cores']} cores; {asked['partitions']} partitions, three copies, min.insync.replicas 2; "
        f"records of {asked['record_bytes']} bytes; {len(result['runs']['producers'][STOCK])} repetitions in "
        "rotation, "
        f"{asked['seconds']:g} s each after {asked['warm_up']:g} s of warm-up; medians. Latency runs from "
        "when a record was to be sent to its acknowledgement (producers) or to the poll that brought it "
        "(consumers); requests are the Produce and the consumers' Fetch requests that the brokers counted. "
        "The spread is the range of the repetitions over their median: rows that differ by less say nothing."
    )
    return "\n".join([
        "# Client profiles, measured", "", conditions, "",
        table("Producers", rows["producers"], asked["steady"]),
        loss_table(result["killed"], asked["loss_rate"]),
        table("Consumers", rows["consumers"], asked["steady"]),
        claim(result["rounds"]), "",
        "Made by `make bench-clients`; every repetition and each case's settings are in results.json.", "",
    ])  # fmt: skip


def _warm(bench: Bench, cases: dict[str, dict[str, Config]]) -> None:
    """Have the code compiled by all kinds of cases, and the topics that are read filled."""
    with_topic(bench, "bench-steady")
    with_topic(bench, READ)
    for number, config in enumerate(cases["producers"].values()):
        produced(bench, config, f"bench-warm-{number}", seconds=_WARM_S)
    bench.driver.do(
        "produce", topic=READ,
        config={**cases["producers"]["durability"], "bootstrap.servers": bench.servers},
        record_bytes=bench.record_bytes, warm_up_s=1, seconds=5,
    )  # fmt: skip
    for config in ({}, cases["consumers"]["throughput"]):
        consumed(bench, config, READ, seconds=_WARM_S)
        consumed(bench, config, "bench-steady", bench.steady)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.clients",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--record-bytes", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=6.5, help="in all, about (default 6.5)")
    parser.add_argument("--repetitions", type=int, default=3, help="at most (default 3)")
    parser.add_argument("--seconds", type=float, default=1.5, help="measured, each phase (default 1.5)")
    parser.add_argument("--warm-up", type=float, default=0.5, help="seconds before that (default 0.5)")
    parser.add_argument("--steady", type=int, default=2000, help="records/s of the steady phases")
    parser.add_argument("--rounds", type=int, default=9, help="of each max.poll.records (default 9)")
    parser.add_argument("--round-s", type=float, default=1, help="measured, each of a round (default 1)")
    parser.add_argument("--kills", type=int, default=4, help="for each acks, at most (default 4)")
    parser.add_argument(
        "--loss-rate", type=int, default=0, help="records/s while it is killed (default: as fast as it goes)"
    )
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the report")
    return parser


if __name__ == "__main__":
    leave(main())
