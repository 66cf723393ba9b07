"""The figures of two sides beside each other, from their verdicts.json documents, and which changed.

Repetitions are held against each other by :mod:`kedge.trials.permutation`: a figure got better or worse where
the difference would be seen by chance in one of twenty comparisons at most, all judged figures together. From
one run on each side nothing is known of chance; then a share of the value is taken for it.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from kedge.trials.permutation import Difference, PairedSamples, corrected, difference
from kedge.trials.thresholds import FALSE_ALARM, SAME_LOAD, SINGLE_RUN_NOISE

Change = Literal["better", "worse", "same", "new", "gone"]

#: What is worth comparing, by the end of a measure's name, and whether more of it is better.
_MORE_IS_BETTER: Final = re.compile(r"(acked|mean|sustained_p5|least)_records_per_s$|share_of_level$")
_LESS_IS_BETTER: Final = re.compile(
    r"_p\d+_ms$|_max_ms$|(produce_gap|consume_stall|not_stable|ownerless|lag_recovery|restore)_s$|skew$"
    # How long a canary instance soaks (hold) is asked for.
    r"|^rebalance\.(until_ready_s$|steps_s\.(?!hold$))"
    r"|needed_partitions$|not_acked_records$|_pause_ms$|^anomalies\.|^cost\."
)
#: Of repetitions, what is judged. Each more makes it harder to tell a difference in the others: these are
#: what users of a service notice,
_NOTICED: Final = re.compile(
    r"^throughput\..*\bmean_records_per_s$|^latency\..*\b(ack|delivery)_p(50|99)_ms$"
    r"|^rebalance\.(produce_gap|consume_stall)_s$|^mirror\.[^.]+\.delay_p99_ms$|^outputs\..*\blatency_p99_ms$"
)
#: and what its owners do.
_SPENT: Final = re.compile(r"^cost\.|^rebalance\.(until_ready_s|steps_s\.(drain|stop|control))$")
#: What a run was asked for: where it differs, the two runs had different loads or disturbances.
_ASKED: Final = re.compile(
    r"offered_records_per_s$|target_records_per_s$|\.partitions$|^rebalance\.restarts$"
)

#: Whether a repetition collapsed, 1 or 0.
COLLAPSED: Final = "load_tests.collapsed"

#: verdicts.json documents of repetitions; one that collapsed has no figures (see ``collapsed``).
Documents = Sequence[Mapping[str, Any]]
#: What was measured in each block, before and after.
Blocks = Sequence[tuple[Documents, Documents]]


@dataclass(frozen=True)
class Compared:
    """One figure: the values of the repetitions on both sides, and what became of it.

    ``difference`` and ``chance``, corrected for all figures that were judged, are of repetitions; ``noise``
    is what was taken for chance where nothing was repeated.
    """

    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    change: Change
    noise: float | None = None
    difference: Difference | None = None
    chance: float | None = None


def collapsed(run_id: str) -> dict[str, Any]:
    """Return the document of a repetition that came to no figure: its load was not sustained at all.

    What users notice counts as in the worst repetition of either side, than which it was no better; of what
    it cost nothing is known.
    """
    return {"run_id": run_id, "verdict": "fail", "checks": [], "collapsed": True}


def compare(sides: Mapping[str, Blocks], noise: float = SINGLE_RUN_NOISE) -> dict[str, list[Compared]]:
    """Compare several sides with one, those figures first that changed.

    Args:
        sides: of each its blocks, with what it is compared with. The chance of a false alarm is of all
            sides together.
        noise: taken for chance where nothing was repeated, as a share of the value.
    """
    found = {name: list(_figures(blocks, noise)) for name, blocks in sides.items()}
    # With one value in all runs, no order of them could tell anything.
    judged = [
        (name, number, one.difference)
        for name, of_side in found.items()
        for number, one in enumerate(of_side)
        if one.difference is not None and _judged(one.name) and len({*one.before, *one.after}) > 1
    ]
    chances = corrected([seen.chance for *_, seen in judged])
    for (name, number, seen), chance in zip(judged, chances, strict=True):
        one = found[name][number]
        change = _better_or_worse(one.name, seen.by) if chance <= FALSE_ALARM else one.change
        found[name][number] = replace(one, chance=chance, change=change)
    order = ("worse", "better", "gone", "new", "same")
    return {name: sorted(many, key=lambda one: order.index(one.change)) for name, many in found.items()}


def _figures(blocks: Blocks, assumed: float) -> Iterator[Compared]:
    measured = [(_measured(one), _measured(two)) for one, two in blocks]
    fallen = [(_collapsed(one), _collapsed(two)) for one, two in blocks]
    if any(each for sides in fallen for side in sides for each in side):
        yield _compared(COLLAPSED, fallen, assumed)
    names = dict.fromkeys(name for sides in measured for side in sides for name in side)
    for name in names:
        if not _LESS_IS_BETTER.search(name) and not _MORE_IS_BETTER.search(name):
            continue
        # A kind of anomaly that does not occur is not listed.
        none = (0.0,) if name.startswith("anomalies.") else ()
        seen = [value for one, two in measured for value in (*one.get(name, ()), *two.get(name, ()))]
        worst = (min(seen) if _MORE_IS_BETTER.search(name) else max(seen),) if _NOTICED.search(name) else ()
        values: list[PairedSamples] = [
            (
                (*one.get(name, none * down.count(0.0)), *worst * down.count(1.0)),
                (*two.get(name, none * fell.count(0.0)), *worst * fell.count(1.0)),
            )
            for (one, two), (down, fell) in zip(measured, fallen, strict=True)
        ]
        yield _compared(name, values, assumed)


def _collapsed(documents: Documents) -> tuple[float, ...]:
    return tuple(float(document.get("collapsed", False)) for document in documents)


def _compared(name: str, values: Sequence[PairedSamples], assumed: float) -> Compared:
    before = tuple(value for one, _ in values for value in one)
    after = tuple(value for _, two in values for value in two)
    whole = [block for block in values if all(block)]
    if not before or not after:
        return Compared(name, before, after, "gone" if before else "new")
    if whole and min(len(before), len(after)) > 1:
        return Compared(name, before, after, _appeared(name, before, after), None, difference(whole))
    noise = assumed * abs(statistics.median(before))
    by = statistics.median(after) - statistics.median(before)
    change = _better_or_worse(name, by) if abs(by) > noise else "same"
    return Compared(name, before, after, change, noise)


def _judged(name: str) -> bool:
    return name == COLLAPSED or bool(_NOTICED.search(name) or _SPENT.search(name))


def _better_or_worse(name: str, by: float) -> Change:
    return "better" if (by > 0) == bool(_MORE_IS_BETTER.search(name)) else "worse"


def _appeared(name: str, before: Sequence[float], after: Sequence[float]) -> Change:
    """Tell what needs no statistics: a record that was lost is one too many."""
    if name.startswith("anomalies.") and any(before) != any(after):
        return "worse" if any(after) else "better"
    return "same"


def _measured(documents: Documents) -> dict[str, tuple[float, ...]]:
    """Return the values of each measure by its name: check, path in ``measured``."""
    found: dict[str, list[float]] = {}
    for document in documents:
        for check in document["checks"]:
            of_restarts = _restarts(check["measured"].get("by_restart", ()), check["name"])
            for name, value in (*_numbers(check["measured"], check["name"]), *of_restarts):
                found.setdefault(name, []).append(value)
            for kind, anomaly in check["anomalies"].items():
                found.setdefault(f"anomalies.{check['name']}.{kind}", []).append(float(anomaly["count"]))
    return {name: tuple(values) for name, values in found.items()}


def _numbers(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}.{key}")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"{prefix}.{key}", float(value)


def _restarts(rows: Sequence[Mapping[str, Any]], prefix: str) -> Iterator[tuple[str, float]]:
    """Yield what the restarts of a run took in the mean: each step, and from a start until it was ready."""
    taken: dict[str, list[float]] = {}
    for row in rows:
        spent = row.get("steps_s", {})
        for step, seconds in spent.items():
            taken.setdefault(f"steps_s.{step}", []).append(seconds)
        if "ready" in spent:
            taken.setdefault("until_ready_s", []).append(spent.get("start", 0.0) + spent["ready"])
    for name, seconds in taken.items():
        yield f"{prefix}.{name}", statistics.mean(seconds)


def asked_otherwise(before: Documents, after: Documents) -> list[str]:
    """Return what both sides were asked for and that differs: then neither repeats the other."""
    ours, theirs = _measured(before), _measured(after)
    lines = []
    for name in ours:
        if _ASKED.search(name) and name in theirs:
            one, two = statistics.median(ours[name]), statistics.median(theirs[name])
            if abs(two - one) > SAME_LOAD * max(abs(one), abs(two)):
                lines.append(f"{name} was {one:,.6g} and is {two:,.6g}")
    return lines


def judged_otherwise(before: Documents, after: Documents) -> list[str]:
    """Return the checks that one side judged and the other only measured, for want of a level."""

    def verdicts(documents: Documents) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for document in documents:
            for check in document["checks"]:
                found.setdefault(check["name"], set()).add(check["verdict"])
        return found

    ours, theirs = verdicts(before), verdicts(after)
    return [
        f"{name} was {' or '.join(sorted(ours[name]))} and is {' or '.join(sorted(theirs[name]))}"
        for name in ours
        if name in theirs and ("measured" in ours[name]) != ("measured" in theirs[name])
    ]
