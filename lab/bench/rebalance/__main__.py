"""Eager and cooperative assignors and the consumer protocol (KIP-848), restarted side by side and audited.

    python -m lab.bench.rebalance                 three minutes; writes report.md and results.json

A broker on this machine's loopback; three groups of librdkafka's consumers, all other settings as they come,
read the same topic while their members are stopped in order and started again, one after another.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.bench.jars import broker_jars
from lab.bench.rebalance.trial import TrialError, TrialSize, run
from lab.services.brokers import KAFKA_VERSION, running_broker
from verify.process import leave

HERE = Path(__file__).parent
TOPIC = "rebalanced"
#: As brokers come: a group that begins waits for members that may follow.
STOCK = {"group.initial.rebalance.delay.ms": "3000"}
COLUMNS = {
    "gives_away": "revokes",
    "most_taken_away": "partitions revoked, at most",
    "ownerless_s": "unassigned, s",
    "consume_stall_s": "delivery gap, s",
    "not_stable_s": "rebalancing, s",
    "lag_recovery_s": "lag back after, s",
}


def main(arguments: list[str] | None = None) -> int:
    """Run, audit, print and keep; 0 when done, 1 when the trial failed, 2 when nothing can run."""
    options = _parser().parse_args(arguments)
    jars = broker_jars()
    asked = TrialSize(members=options.members, restarts=options.restarts, pause_s=options.pause)
    folder = options.runs / f"rebalance-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    try:
        with running_broker(jars, config=STOCK) as broker:
            broker.create_topic(TOPIC, asked.partitions)
            run(broker.bootstrap_servers, TOPIC, folder, asked)
            groups = audited(folder, asked)
    except (TrialError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    text = table(groups)
    result = {
        "kafka": KAFKA_VERSION,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "asked": vars(asked),
        "groups": groups,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (options.out / "report.md").write_text(_page(text, result), encoding="utf-8")
    print(f"{text}\nreport: {folder / 'report' / 'report.html'}")
    return 0


def audited(folder: Path, asked: TrialSize) -> dict[str, dict[str, Any]]:
    """Audit a trial's evidence, while its topics are there; return what was measured of each group.

    Raises:
        TrialError: when the audit ends without verdicts, a record is missing somewhere, or a restart.
    """
    levels = {"rebalance": {"min_restarts": 3 * asked.restarts}, "settings": {"different": None}}
    (folder / "slo.yml").write_text(json.dumps(levels), encoding="utf-8")
    places = {"evidence": folder / "evidence", "slo": folder / "slo.yml", "out": folder / "report"}
    command = [word for name, path in places.items() for word in (f"--{name}", str(path))]
    done = subprocess.run(
        [sys.executable, "-m", "spark_checks", *command], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise TrialError(f"the audit ended with {done.returncode}: {done.stderr.strip()}")
    verdicts = json.loads((folder / "report" / "verdicts.json").read_text(encoding="utf-8"))
    checks = {check["name"]: check for check in verdicts["checks"]}
    for name in ("delivery", "rebalance"):
        if checks[name]["verdict"] != "pass":
            raise TrialError(f"{name}: {checks[name]['verdict']}: {checks[name]['because']}")
    return dict(checks["rebalance"]["measured"]["by_group"])


def table(groups: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a Markdown table: a row a group, the worst of its restarts."""
    lines = [f"| group | {' | '.join(COLUMNS.values())} |", "|---|---|" + "--:|" * (len(COLUMNS) - 1)]
    for name, measured in groups.items():
        kind = " ".join(part for part in (measured["protocol"], measured["assignor"]) if part)
        cells = [str(measured.get(key, "-")).replace("all at once", "all") for key in COLUMNS]
        lines.append(f"| {kind if name in kind else f'{name}: {kind}'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _page(text: str, result: Mapping[str, Any]) -> str:
    asked = result["asked"]
    return (
        "# How groups rebalance, measured\n\n"
        f"Kafka {result['kafka']}, one broker and all consumers on one machine of {result['cores']} cores, "
        f"{result['date']}; {asked['partitions']} partitions, members a group: {asked['members']}, "
        f"restarts a group: {asked['restarts']}, {asked['records_per_s']:g} records/s. The worst restart of "
        f"each group; states sampled every {asked['sampling_ms']} ms.\n\n{text}\n"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.rebalance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--members", type=int, default=3, help="of each group (default: 3)")
    parser.add_argument("--restarts", type=int, default=3, help="of members of each group (default: 3)")
    parser.add_argument("--pause", type=float, default=10, help="seconds between restarts (default: 10)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the run goes (default: runs)")
    parser.add_argument("--out", type=Path, default=HERE, help="where the figures go (default: here)")
    return parser


if __name__ == "__main__":
    leave(main())
