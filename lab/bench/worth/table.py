"""The reports of classes of work as the tables of lab/measurements/worth.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.trials.figures import Compared
from kedge.trials.table import from_json, row
from lab.bench.worth.classes import CLASSES, FLEET

#: Of the proxies: the distribution, and its column; the last one is of classes that have no proxy.
ALONE: Final = "alone"
_PROXIES: Final = ("confluent", "strimzi", "sandbox")
_COLUMNS: Final = {name: DISTRIBUTIONS[name].title for name in _PROXIES} | {ALONE: "no proxy"}
_PLANNED: Final = "planned"
_BEGIN: Final = "## What was measured\n"
_END: Final = "\n## "


def reports(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what was measured so far, by distribution and class."""
    found = {}
    for path in sorted(folder.glob("*/*.json")):
        found[path.parent.name, path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return found


def judged(report: Mapping[str, Any], variant: str) -> list[Compared]:
    """Return the figures of a variant that were judged against the first."""
    figures = (from_json(one) for one in report["figures"].get(variant, ()))
    return [one for one in figures if one.chance is not None]


def tables(found: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """Return all tables: which classes were played on what, then every figure that was judged."""
    return (
        "\n".join([*_overview(found), *(line for report in _ordered(found) for line in _one(*report))]) + "\n"
    )


def written(page: str, found: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """Return a page with these tables in the place of those that it has."""
    before, begin, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{begin}\n{tables(found)}{_END}{after}"


def _ordered(
    found: Mapping[tuple[str, str], Mapping[str, Any]],
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in CLASSES:
        for distribution in _COLUMNS:
            if (distribution, name) in found:
                yield name, found[distribution, name]


def _overview(found: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    yield f"| class | work | {' | '.join(_COLUMNS.values())} |"
    yield "|---" * (2 + len(_COLUMNS)) + "|"
    for name, work in CLASSES.items():
        cells = []
        for distribution in _COLUMNS:
            report = found.get((distribution, name))
            applies = (work.by in FLEET) != (distribution == ALONE)
            cells.append(_said(report) if report else "not run" if applies else "")
        yield f"| `{name}` | {work.title} | {' | '.join(cells)} |"


def _said(report: Mapping[str, Any]) -> str:
    """Say what became of the planned variant."""
    figures = judged(report, _PLANNED)
    if not figures:
        return "no figure"
    changes = [one.change for one in figures]
    return f"{changes.count('better')} better, {changes.count('worse')} worse of {len(changes)}"


def _one(name: str, report: Mapping[str, Any]) -> Iterator[str]:
    base, fell = report["against"], report["collapsed"]
    yield ""
    yield f"**`{name}`, {report['subject']}**: {_how(report)}"
    yield ""
    if collapsed := ", ".join(f"{count} of {variant}" for variant, count in fell.items() if count):
        yield f"Collapsed: {collapsed}, of {2 * report['blocks']} each."
        yield ""
    yield f"| variant | figure | `{base}` | the variant | difference, 95 percent | chance | |"
    yield "|---|---|--:|--:|--:|--:|---|"
    for variant in report["arms"][1:]:
        for seen in (row(one) for one in judged(report, variant)):
            yield (
                f"| {variant} | {seen.name} | {seen.before} | {seen.after} | {seen.interval} | {seen.chance} "
                f"| {seen.change} |"
            )


def _how(report: Mapping[str, Any]) -> str:
    return f"{report['date']}, {report['blocks']} blocks, {report['machine']}; `{report['command']}`."


def worse(report: Mapping[str, Any]) -> Sequence[str]:
    """Return the figures in which the planned variant is worse than the first."""
    return [one.name for one in judged(report, _PLANNED) if one.change == "worse"]
