"""``python -m lab.bench.trials``: trials needed, and how often the answer holds in a run that nobody saw."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

import numpy as np

from kedge.trials.search import CapacityEstimate, Tried
from lab.bench.trials.simulated import RULES, System, bisect

_NOISES = (0.005, 0.02, 0.05, 0.1)


def main() -> None:
    """Print two tables: one condition beside a bisection, and three conditions."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.trials", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    seeds = range(parser.parse_args().seeds)
    print("| noise | search | short | full | answer holds once more | interval holds | closed |")
    print("|---|---|---|---|---|---|---|")
    for noise in _NOISES:
        systems = [System(seed, noise=noise) for seed in seeds]
        print(_row(noise, "capacity.yml", systems, [system.search(RULES) for system in systems]))
        others = [System(seed, noise=noise) for seed in seeds]
        found = [bisect(other, RULES) for other in others]
        held = mean(
            other.passes("healthy", one.carries, "full") for other, one in zip(others, found, strict=True)
        )
        print(f"| | bisection | | {mean(one.trials for one in found):.1f} | {held:.0%} | none given | |")
    rules = replace(RULES, conditions=("healthy", "restart", "away"), apart=("away",))
    for noise in _NOISES:
        systems = [System(seed, limits=_limits(seed), noise=noise) for seed in seeds]
        print(
            _row(noise, "three conditions", systems, [system.search(rules) for system in systems]), flush=True
        )


def _limits(seed: int) -> dict[str, float]:
    """Return limits by condition: of two hosts with one away about half."""
    random = np.random.default_rng(1000 + seed)
    healthy = float(10 ** random.uniform(3.3, 5.2))
    restart = healthy * random.uniform(0.5, 1.0)
    return {
        "healthy": healthy,
        "restart": restart,
        "away": min(restart, healthy * random.uniform(0.4, 0.7)),
    }


def _row(
    noise: float,
    search: str,
    systems: Sequence[System],
    found: Sequence[tuple[Sequence[CapacityEstimate], Sequence[Tried]]],
) -> str:
    short, full = (
        mean(sum(each.kind == kind for each in tried) for _, tried in found) for kind in ("short", "full")
    )
    each = [(system, one) for system, (answers, _) in zip(systems, found, strict=True) for one in answers]
    held = mean(system.passes(one.condition, one.carries or 0, "full") for system, one in each)
    inside = mean((one.low or 0) <= system.limits[one.condition] <= (one.high or 0) for system, one in each)
    closed = mean(one.closed for _, one in each)
    return f"| {noise:.1%} | {search} | {short:.1f} | {full:.1f} | {held:.0%} | {inside:.0%} | {closed:.0%} |"


if __name__ == "__main__":
    main()
