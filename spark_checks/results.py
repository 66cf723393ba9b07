"""What a check answers, and how answers compose into one verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Verdict = Literal["pass", "fail", "unknown", "measured"]

#: Worst first: one failed check fails the run; one check that could not judge keeps it from passing. What was
#: measured without a level counts for nothing: a run of which nothing was judged did not pass.
_ORDER: Final[tuple[Verdict, ...]] = ("fail", "unknown", "pass", "measured")
#: Units this short are said of a level again.
_SHORT_UNIT: Final = 3
#: Beside fewer runs nothing is unusual.
_FEW: Final = 5


@dataclass(frozen=True)
class Anomaly:
    """How often one kind of anomaly was found, and the first few of them, by position."""

    count: int
    examples: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Recommendation:
    """One thing to change: an inventory variable where there is one (``variable``), else only advice.

    ``value`` holds of the variable only what is recommended; kedge.plan.inventory.recommendations lays it
    over the inventory's. ``effect`` is what the change is expected to do, with a figure where one follows
    from the evidence.
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
class Earlier:
    """What the last runs of the same subject came to."""

    runs: int
    median: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class Figure:
    """One figure of a check, and the level that it is held against.

    Without a unit it is a count of ``what``, of so many in all (``of``). ``least`` turns the level round: the
    figure has to reach it. ``doubtful`` says that the figure cannot be told from its level. ``key`` is where
    in ``service_levels`` the level is given, ``said`` the figure in words where its parts do not make them.
    ``earlier`` is what it was in earlier runs, where a history was asked for.
    """

    what: str
    value: float | None
    level: float | None
    unit: str = ""
    key: str = ""
    least: bool = False
    of: int | None = None
    doubtful: bool = False
    said: str = ""
    earlier: Earlier | None = None

    @property
    def verdict(self) -> Verdict:
        """Return what the figure alone says; ``measured`` without a level."""
        if self.level is None:
            return "measured"
        if self.value is None or self.doubtful:
            return "unknown"
        met = self.value >= self.level if self.least else self.value <= self.level
        return "pass" if met else "fail"

    def words(self) -> str:
        """Say what was measured against which level: "ack p99 182 ms of 500 ms allowed"."""
        return self.said or self.found() + self.bound(" of ")

    def found(self) -> str:
        """Say what was measured: "ack p99 182 ms", "0 lost of 4,912,332"."""
        if self.value is None:
            return f"{self.what} not measured"
        value = rounded(self.value, self.level)
        if self.unit:
            return f"{self.what} {_with(value, self.unit)}"
        return f"{value} {self.what}" + (f" of {self.of:,}" if self.of is not None else "")

    def before(self) -> str:
        """Say what earlier runs came to: "118 ms in the last 20 runs (90 to 140)"; empty without any."""
        if (old := self.earlier) is None:
            return ""
        median, lowest, highest = (rounded(one) for one in (old.median, old.lowest, old.highest))
        runs = f"the last {old.runs} runs" if old.runs > 1 else "the last run"
        spread = f" ({lowest} to {highest})" if lowest != highest else ""
        return f"{_with(median, self.unit) if self.unit else median} in {runs}{spread}"

    @property
    def worse_than_before(self) -> bool:
        """Whether the figure is worse than in each of several earlier runs."""
        old = self.earlier
        if old is None or self.value is None or old.runs < _FEW:
            return False
        return self.value < old.lowest if self.least else self.value > old.highest

    def bound(self, before: str = "") -> str:
        """Say the level, if there is one: "500 ms allowed"; of a count nothing while none is allowed."""
        if self.level is None or (before and not self.unit and self.level == 0 == self.value):
            return ""
        level = rounded(self.level, self.value)
        if self.unit and len(self.unit) <= _SHORT_UNIT:
            level = _with(level, self.unit)
        before = ", " if before and not self.unit and self.of is not None else before
        return f"{before}{level} {'asked' if self.least else 'allowed'}"


def rounded(value: float, beside: float | None = None) -> str:
    """Return three digits of a figure, all of a count, and as many as tell it from the one beside it."""

    def digits(number: float, count: int) -> str:
        if float(number).is_integer() or abs(number) >= 10**count:
            return f"{number:,.0f}"
        return f"{number:.{count}g}"

    for count in range(3, 16):
        text = digits(value, count)
        if beside is None or beside == value or text != digits(beside, count):
            return text
    return repr(value)


def _with(value: str, unit: str) -> str:
    return f"{value}{unit}" if unit.startswith("/") else f"{value} {unit}"


@dataclass(frozen=True)
class Result:
    """The answer of one check.

    ``measured`` carries units in its keys (``_s``, ``_ms``, ``_per_s``). ``series`` feeds the charts of the
    report and is no part of verdicts.json. ``figures`` are what the check is about, the most telling first,
    each beside its level. The job adds the levels that were given to ``slo``, and ``definition``.
    """

    name: str
    verdict: Verdict
    because: str
    slo: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    anomalies: Mapping[str, Anomaly] = field(default_factory=dict)
    recommendations: tuple[Recommendation, ...] = ()
    figures: tuple[Figure, ...] = ()
    definition: str = ""
    series: Mapping[str, Any] = field(default_factory=dict)


def compose(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of the verdicts.

    What was only measured counts neither for nor against: ``measured`` when nothing else was seen.
    ``unknown`` when there are none, as nothing was shown.
    """
    seen = set(verdicts)
    return next((verdict for verdict in _ORDER if verdict in seen), "unknown")


def judge(problems: Iterable[str], doubts: Iterable[str], fine: str, *, judged: bool) -> tuple[Verdict, str]:
    """Return the verdict and its reason: any problem fails, else any doubt is unknown, else it passes.

    ``judged`` says whether there was a level to hold anything against; without one nothing passes.
    """
    problems, doubts = list(problems), list(doubts)
    if problems:
        return "fail", "; ".join(problems + doubts)
    if doubts:
        return "unknown", "; ".join(doubts)
    return ("pass", fine) if judged else ("measured", f"no level given; {fine}")


def concluded(
    name: str,
    problems: Iterable[str],
    doubts: Iterable[str],
    fine: str,
    figures: Iterable[Figure],
    *,
    judged: bool = False,
    **found: Any,
) -> Result:
    """Return the result of a check as :func:`judge` has it; a figure with a level is something to judge."""
    figures = tuple(figures)
    judged = judged or any(figure.level is not None for figure in figures)
    return Result(name, *judge(problems, doubts, fine, judged=judged), figures=figures, **found)
