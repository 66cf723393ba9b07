"""``python -m bench.trials``: trials needed, and how often the answer holds in a run that nobody saw."""

from __future__ import annotations

import argparse

from bench.trials.simulated import System, bisect
from trials.search import Rules


def main() -> None:
    """Print a table: a row a noise and a way."""
    parser = argparse.ArgumentParser(prog="python -m bench.trials", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    seeds = range(parser.parse_args().seeds)
    rules = Rules(("healthy",), start=5000, ceiling=1e6, floor=100)
    print("| noise | search | short trials | full trials | answer holds once more | interval holds |")
    print("|---|---|---|---|---|---|")
    for noise in (0.005, 0.02, 0.05, 0.1):
        short = full = held = inside = 0
        by_halves = held_by_halves = 0
        for seed in seeds:
            system = System(seed, noise=noise)
            (one,), tried = system.search(rules)
            short += sum(each.kind == "short" for each in tried)
            full += sum(each.kind == "full" for each in tried)
            held += system.passes("healthy", one.carries or 0, "full")
            inside += (one.low or 0) <= system.limits["healthy"] <= (one.high or 0)
            other = System(seed, noise=noise)
            found = bisect(other, rules)
            by_halves += found.trials
            held_by_halves += other.passes("healthy", found.carries, "full")
        count = len(seeds)
        print(
            f"| {noise:.1%} | capacity.yml | {short / count:.1f} | {full / count:.1f} | {held / count:.0%} | "
            f"{inside / count:.0%} |\n| | bisection | | {by_halves / count:.1f} | "
            f"{held_by_halves / count:.0%} | none given |",
            flush=True,
        )


if __name__ == "__main__":
    main()
