"""The self-test: ``python -m tests.faults [--mixtures N] [--seed N] [--master URL]``.

Puts every known fault into good evidence, alone and in random mixtures, and compares what the audit reports
with what was put in: no more and no less. Then takes each part out of good evidence, any file, any half of it
and any table: what needs it must be unknown. Exit 0 when all is so, else 1 with a line a difference.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import hypothesis
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from kedge.evidence.levels import Levels
from spark_checks.engine import session
from spark_checks.job import audit
from tests.faults.audited import Mixture, Outcome, audited
from tests.faults.inject import FAULTS
from tests.faults.parts import misjudged, parts, unnoticed, without
from tests.faults.synthetic import write_evidence

_BATCH: Final = 100
_MOST_LINES: Final = 20

_MIXTURES: Final = st.builds(
    Mixture,
    st.lists(st.sampled_from(sorted(FAULTS)), min_size=1, max_size=8).map(tuple),
    st.integers(0, (1 << 32) - 1),
    st.sampled_from(["kafka", "rest"]),
)


def main(arguments: list[str] | None = None) -> int:
    """Run the self-test; return 0 when the audit reports exactly what was put in."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--mixtures", type=int, default=1000, help="how many random mixtures (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the mixtures (default: 0)")
    parser.add_argument(
        "--master", default="local[*]", metavar="URL", help="Spark master (default: all cores)"
    )
    options = parser.parse_args(arguments)
    console = Console(soft_wrap=True, highlight=False)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as logs:
        spark = session.start(options.master, log=Path(logs) / "spark.log")
    try:
        alone = {name: audited(spark, [Mixture((name,), options.seed)]) for name in FAULTS}
        _show(alone, console)
        mixed, distinct = mixtures(spark, options.mixtures, options.seed, console)
        missing, wrong = missing_parts(spark)
    finally:
        spark.stop()
    differences = [line for outcome in (*alone.values(), mixed) for line in outcome.differences]
    differences += wrong
    for line in differences[:_MOST_LINES]:
        console.print(line, markup=False)
    console.print(
        f"{len(alone)} faults alone, {distinct:,} different mixtures with {sum(mixed.injected.values()):,} "
        f"faults: {sum(mixed.found.values()):,} findings reported, {len(differences):,} of them more or less "
        f"than were put in; {missing} missing parts, {len(wrong):,} times not unknown; {time.monotonic() - begin:.0f} s"
    )
    return 1 if differences or distinct < options.mixtures else 0


def mixtures(spark: SparkSession, count: int, seed: int, console: Console) -> tuple[Outcome, int]:
    """Audit that many different random mixtures, some at a time; return the sum and how many there were."""
    outcomes: list[Outcome] = []
    seen: set[Mixture] = set()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        # A batch that has been seen already is left out, hence more than are asked for.
        max_examples=max(1, 4 * count),
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.lists(_MIXTURES, min_size=1, max_size=20, unique=True))
    def gather(some: list[Mixture]) -> None:
        seen.update(some if len(seen) < count else ())

    gather()
    chosen = sorted(seen, key=lambda one: (one.seed, one.faults))[:count]
    for first in range(0, len(chosen), _BATCH):
        outcome = audited(spark, chosen[first : first + _BATCH])
        outcomes.append(outcome)
        state = "exact" if not outcome.differences else f"{len(outcome.differences)} differences"
        console.print(f"mixtures {first + 1:,} to {min(first + _BATCH, len(chosen)):,}: {state}")
    total = Outcome(
        sum((one.injected for one in outcomes), Counter()),
        sum((one.found for one in outcomes), Counter()),
        tuple(line for one in outcomes for line in one.differences),
        {},
    )
    return total, len(chosen)


def missing_parts(spark: SparkSession) -> tuple[int, list[str]]:
    """Audit good evidence without each of its parts; return how many there are, and what was wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "whole"
        write_evidence(folder, 1_100, mirrored=True, per_record=1)
        whole, found, lines = audit(spark, str(folder), Levels()), parts(folder), list[str]()
        for number, part in enumerate(found):
            copy = without(folder, part, Path(name) / str(number))
            lines += [*unnoticed(spark, copy, part), *misjudged(spark, copy, part, whole, Levels())]
    return len(found), lines


def _show(alone: dict[str, Outcome], console: Console) -> None:
    table = Table("fault", "reported", "delivery", "latency", "rebalance", "exact")
    for name, outcome in alone.items():
        told = ", ".join(f"{count} {kind}" for kind, count in outcome.found.items()) or "nothing"
        exact = "no" if outcome.differences else "yes"
        table.add_row(name.replace("_", " "), told, *outcome.verdicts.values(), exact)
    console.print(table)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    sys.exit(main())
