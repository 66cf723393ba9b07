"""What was compared, as text: a row a figure for a terminal, a log and a page; and as JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from kedge.trials.figures import Blocks, Compared
from kedge.trials.permutation import Difference, enough
from kedge.trials.thresholds import FALSE_ALARM, SINGLE_RUN_NOISE

#: Ends of an interval, and where each is when it is open.
_ENDS: Final = {"low": -1, "high": 1}


class ComparedFigure(NamedTuple):
    """A figure: medians with the range of the repetitions, the difference, its interval, the chance of it."""

    change: str
    name: str
    before: str
    after: str
    by: str
    interval: str
    chance: str


def row(one: Compared) -> ComparedFigure:
    """Return a figure as people read it."""
    judged = one.chance is not None
    change = "no difference" if judged and one.change == "same" else one.change
    chance = f"{one.chance:.2g}" if judged else ""
    return ComparedFigure(
        change, one.name, _range(one.before), _range(one.after), _by(one), _interval(one), chance
    )


def how_sure(found: Sequence[Compared], blocks: Blocks, noise: float = SINGLE_RUN_NOISE) -> str:
    """Say what a verdict of a comparison is worth; ``blocks`` are what was compared."""
    runs = [(len(one), len(two)) for one, two in blocks]
    if min(map(sum, zip(*runs, strict=True))) < 2:
        return f"noise: not known from one run each; {noise:.0%} of the value was taken for it"
    judged = sum(one.chance is not None for one in found)
    said = (
        f"{judged} figures judged, with a chance of {FALSE_ALARM:.0%} at most that any is a false alarm; "
        f"intervals hold {1 - FALSE_ALARM:.0%} each"
    )
    if judged and not enough(runs, judged):
        said += "; so few repetitions cannot show any difference: repeat both sides more often"
    return said


def as_json(one: Compared) -> dict[str, Any]:
    """Return a figure as it stands in comparison.json; an open end of its interval is null."""
    figure = {key: value for key, value in asdict(one).items() if key != "noise"}
    if one.difference is not None:
        ends = {key: figure["difference"][key] for key in _ENDS}
        figure["difference"] |= {key: end if math.isfinite(end) else None for key, end in ends.items()}
    return figure


def from_json(figure: Mapping[str, Any]) -> Compared:
    """Return a figure of comparison.json as :func:`as_json` wrote it."""
    of = dict(figure)
    if seen := of["difference"]:
        low, high = (seen[end] if seen[end] is not None else sign * math.inf for end, sign in _ENDS.items())
        of["difference"] = Difference(**{**seen, "low": low, "high": high})
    return Compared(**{**of, "before": tuple(of["before"]), "after": tuple(of["after"])})


def _range(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle = _number(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({_number(min(values))} to {_number(max(values))})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _by(one: Compared) -> str:
    if one.difference is not None:
        return f"{one.difference.by:+.1%}" if one.difference.relative else f"{one.difference.by:+.4g}"
    if not one.before or not one.after or not statistics.median(one.before):
        return ""
    return f"{statistics.median(one.after) / statistics.median(one.before) - 1:+.1%}"


def _interval(one: Compared) -> str:
    """Return the interval of a difference, or what was taken for noise."""
    if one.noise is not None:
        return f"±{_number(one.noise)}"
    if one.difference is None:
        return ""
    ends = (one.difference.low, one.difference.high)
    if not all(map(math.isfinite, ends)):
        return "any"
    return " to ".join(f"{end:+.1%}" if one.difference.relative else f"{end:+.4g}" for end in ends)
