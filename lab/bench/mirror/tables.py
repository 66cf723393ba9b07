"""Tables of runs in Markdown: medians, and how many times the defaults each case was, with its interval."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

#: Two-sided 95 percent of Student's t, by degrees of freedom.
_T: Final = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the mean and half of its 95 percent confidence interval; None of fewer than two values."""
    if len(values) < 2:
        return None
    half = _T.get(len(values) - 1, 1.96) * statistics.stdev(values) / len(values) ** 0.5
    return statistics.mean(values), half


def ratios(runs: Sequence[Mapping[str, float]], defaults: Sequence[Mapping[str, float]]) -> list[float]:
    """Return how many times defaults each repetition was, against the defaults of the same rotation."""
    base = {one["rotation"]: one["records_per_s"] for one in defaults}
    return [one["records_per_s"] / base[one["rotation"]] for one in runs if one["rotation"] in base]


def table(cases: Mapping[str, Sequence[Mapping[str, Any]]], base: str = "defaults") -> str:
    """Return the result in Markdown: medians, and the ratio to a case with its interval."""
    columns = (
        "records_per_s",
        "wire_mb_per_s",
        "requests_per_s",
        "batch_bytes",
        "batch_records",
        "compression",
    )
    lines = [
        f"| case | processes | times {base} | records/s | MB/s on the wire | requests/s | batch, bytes "
        "| batch, records | compression |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, runs in cases.items():
        if not runs:
            lines.append(f"| {name} | | no repetition reached a steady state | | | | | | |")
            continue
        times = ratios(runs, cases.get(base, ()))
        spread = interval(times)
        shown = "-" if not times else f"{times[0]:.1f}"
        if spread:
            shown = f"{spread[0]:.1f} ± {spread[1]:.1f}"
        middle = (f"{statistics.median(run[column] for run in runs):,.10g}" for column in columns)
        lines.append(f"| {name} | {runs[0]['processes']} | {shown} | {' | '.join(middle)} |")
    return "\n".join(lines) + "\n"


def process_table(cases: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the result of cases that are named ``CONFIGURATION, PROCESSES`` in Markdown.

    A line a configuration: records/s (median) for each number of processes, and how many times the first one
    that is, with its interval.
    """
    lines: dict[str, dict[str, Sequence[Mapping[str, Any]]]] = {}
    for name, runs in cases.items():
        line, _, count = name.rpartition(", ")
        lines.setdefault(line, {})[count] = runs
    counts = list(next(iter(lines.values()), {}))
    made = [f"| processes | {' | '.join(counts)} |", "|---" + "|--:" * len(counts) + "|"]
    for line, found in lines.items():
        base = next(iter(found.values()))
        cells = []
        for runs in found.values():
            rate = f"{statistics.median(one['records_per_s'] for one in runs):,.0f}" if runs else "no figure"
            spread = interval(ratios(runs, base)) if runs is not base else None
            cells.append(rate + (f" ({spread[0]:.1f} ± {spread[1]:.1f})" if spread else ""))
        made.append(f"| {line} | {' | '.join(cells)} |")
    return "\n".join(made) + "\n"
