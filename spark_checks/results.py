"""What a check answers, and how answers compose into one verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Verdict = Literal["pass", "fail", "unknown"]

#: Worst first: one failed check fails the run; one check that could not judge keeps it from passing.
_ORDER: Final[tuple[Verdict, ...]] = ("fail", "unknown", "pass")


@dataclass(frozen=True)
class Anomaly:
    """How often one kind of anomaly was found, and the first few of them, by position."""

    count: int
    examples: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Recommendation:
    """One thing to change: an inventory variable where there is one (``variable``), else only advice.

    ``value`` holds of the variable only what is recommended; sizing.inventory.recommendations lays it over
    the inventory's. ``effect`` is what the change is expected to do, with a figure where one follows from the
    evidence.
    """

    advice: str
    because: str
    variable: str | None = None
    value: Any = None
    effect: str = ""


def more_partitions(topic: str, cluster: str, count: int) -> tuple[str, list[dict[str, Any]]]:
    """Return the variable and the value that give a declared topic more partitions."""
    return "kafka_topics", [{"name": topic, "cluster": cluster, "partitions": count}]


@dataclass(frozen=True)
class Result:
    """The answer of one check.

    ``measured`` carries units in its keys (``_s``, ``_ms``, ``_per_s``). ``series`` feeds the charts of the
    report and is no part of verdicts.json. ``short`` is ``measured`` in a few words, for the terminal.
    """

    name: str
    verdict: Verdict
    because: str
    slo: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    anomalies: Mapping[str, Anomaly] = field(default_factory=dict)
    recommendations: tuple[Recommendation, ...] = ()
    short: str = ""
    definition: str = ""
    series: Mapping[str, Any] = field(default_factory=dict)


def compose(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of the verdicts; ``unknown`` when there are none, as nothing was shown."""
    seen = set(verdicts)
    return next((verdict for verdict in _ORDER if verdict in seen), "unknown")


def judge(problems: Iterable[str], doubts: Iterable[str], fine: str) -> tuple[Verdict, str]:
    """Return the verdict and its reason: any problem fails, else any doubt is unknown, else it passes."""
    problems, doubts = list(problems), list(doubts)
    if problems:
        return "fail", "; ".join(problems + doubts)
    if doubts:
        return "unknown", "; ".join(doubts)
    return "pass", fine
