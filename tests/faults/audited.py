"""What the audit says of cases, against what was put into them."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from spark_checks.checks import latency, spread
from spark_checks.delivery import check as delivery
from spark_checks.engine.anomalies import showing
from spark_checks.engine.readers import open_evidence
from spark_checks.rebalance import check as rebalance
from spark_checks.results import Result
from tests.faults.evidence import write
from tests.faults.inject import expected, inject
from tests.faults.made import SECOND_US, Case, Finding, good_case

_PLACE: Final = ("producer", "seq", "topic", "partition", "offset")
#: By what a finding of each kind is known; of all other kinds, by its place.
_KNOWN_BY: Final = {
    "unledgered": ("producer", "seq", "until_seq"),
    "clock_shifted": ("topic", "partition", "shift_s"),
    "sampler_slept": ("group", "from_us", "until_us"),
    "unexplained_rebalance": ("group", "from_us", "until_us"),
    "idle_member": ("group", "idle"),
    "piled_up": ("group", "instance"),
}
_ALL: Final = 1 << 30


@dataclass(frozen=True)
class Mixture:
    """Names of faults to put into a run, and the seed that says where."""

    faults: tuple[str, ...]
    seed: int
    via: str = "kafka"


@dataclass(frozen=True)
class Outcome:
    """What was put into cases, what was found, and where both differ: a line a difference."""

    injected: Counter[str]
    found: Counter[str]
    differences: tuple[str, ...]
    verdicts: Mapping[str, str]


def made(mixtures: Sequence[Mixture]) -> list[Case]:
    """Return a case for each mixture, its faults in their places."""
    cases = []
    for number, mixture in enumerate(mixtures):
        rng = random.Random(mixture.seed)
        case = good_case(number, rng, mixture.via)
        inject(case, mixture.faults, rng)
        cases.append(case)
    return cases


def audited(spark: SparkSession, mixtures: Sequence[Mixture]) -> Outcome:
    """Audit all mixtures as one run's evidence, each in a topic and a group of its own."""
    cases = made(mixtures)
    with tempfile.TemporaryDirectory(prefix="kedge-faults-") as folder:
        write(Path(folder), cases)
        evidence = open_evidence(spark, folder)
        with showing(_ALL):
            results = [
                check(evidence, Levels())
                for check in (delivery.check, latency.check, rebalance.check, spread.check)
            ]
        spark.catalog.clearCache()
    return judged(cases, mixtures, results)


def judged(cases: Sequence[Case], mixtures: Sequence[Mixture], results: Sequence[Result]) -> Outcome:
    """Compare what checks report (the first of them delivery) with what was put into settled cases."""
    wanted = Counter(finding for case in cases for finding in expected(case))
    told = Counter(_findings(results))
    differences = [
        *_lines("not reported", wanted - told, mixtures),
        *_lines("reported", told - wanted, mixtures),
    ]
    counts = {
        "unknown_found_in_topic": sum(case.unacked for case in cases),
        "beyond_ledger": sum(len(case.lacking) for case in cases),
    }
    for name, count in counts.items():
        if results[0].measured.get(name, 0) != count:
            differences.append(f"{name} is {results[0].measured.get(name, 0)}, and should be {count}")
    return Outcome(
        Counter(name for case in cases for name in case.injected),
        Counter(kind for kind, _ in told.elements()),
        tuple(differences),
        {result.name: result.verdict for result in results},
    )


def _findings(results: Sequence[Result]) -> Iterator[Finding]:
    for result in results:
        for kind, anomaly in result.anomalies.items():
            assert anomaly.count >= len(anomaly.examples)
            for example in anomaly.examples:
                about = dict(example)
                if kind == "clock_shifted":
                    # The least shift that explains it is a little less than the shift.
                    about["shift_s"] = round(about["shift_at_least_ms"] * 1000 / SECOND_US)
                yield kind, tuple((name, about.get(name)) for name in _KNOWN_BY.get(kind, _PLACE))


def _lines(what: str, findings: Counter[Finding], mixtures: Sequence[Mixture]) -> Iterator[str]:
    for (kind, about), times in findings.items():
        fields = dict(about)
        mixture = mixtures[_case(fields)] if _case(fields) < len(mixtures) else None
        yield f"{what}{f' {times} times' if times > 1 else ''}: {kind} {fields}, in {mixture}"


def _case(fields: Mapping[str, Any]) -> int:
    """Return the number of the case that a finding is about."""
    name = fields.get("topic") or fields.get("group")
    return int(str(name)[1:]) if name else int(fields["producer"])
