"""Systems that carry a known load, with known noise; and bisection by full trials, the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from kedge.trials.search import CapacityEstimate, Rules, Tried, answers, next_trial

#: What bench and tests ask for: what capacity.yml does by default.
RULES: Final = Rules(
    ("healthy",), start=5000, ceiling=1e6, floor=100, width=0.15, most_short=10, most_full=12
)


class System:
    """Passes what is below its limit, which differs from trial to trial; short trials are kinder and noisier.

    Args:
        seed: of all that is drawn; of the limit too, where none is given.
        limits: records/s by condition.
        noise: by how large a share the limit differs from trial to trial, about a standard deviation.
        short: the limit of short trials, as a share of that of full ones.
        cold: by which share the first full trial's limit lies below the last one's: of what is left of it
            each of them takes an eighth away, as processes do that compile their code.
    """

    def __init__(
        self,
        seed: int,
        limits: Mapping[str, float] | None = None,
        noise: float = 0.0,
        short: float = 1.1,
        cold: float = 0.0,
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.limits = limits or {"healthy": float(10 ** self.random.uniform(3.3, 5.2))}
        self.noise = noise
        self.short = short
        self.cold = cold

    def passes(self, condition: str, load: float, kind: str) -> bool:
        """Run a trial."""
        full = kind == "full"
        share = self.random.uniform()
        away = self.noise * (1 if full else 2) * math.log(share / (1 - share)) / 1.702
        limit = self.limits[condition] * math.exp(away) * (1 - self.cold)
        if full:
            self.cold *= 7 / 8
        return bool(load <= limit * (1 if full else self.short))

    def search(self, rules: Rules) -> tuple[list[CapacityEstimate], list[Tried]]:
        """Search as capacity.yml does."""
        tried: list[Tried] = []
        while (one := next_trial(rules, tried)) is not None:
            passed = self.passes(one.condition, one.load, one.kind)
            tried.append(Tried(one.condition, one.load, one.kind, passed))
        return answers(rules, tried), tried


@dataclass(frozen=True)
class Bisected:
    """What a bisection found: the highest load that passed, and its number of full trials."""

    carries: float
    trials: int


class Passing(Protocol):
    """What can be asked whether it carries a load."""

    def passes(self, condition: str, load: float, kind: str) -> bool:
        """Run a trial."""
        ...


def bisect(system: Passing, rules: Rules) -> Bisected:
    """Double or halve until both ends are known, then bisect, each trial once and full: the usual way."""
    low, high, trials, load = 0.0, math.inf, 0, rules.start
    while rules.floor <= load <= rules.ceiling and (not low or high / low > 1 + rules.width):
        trials += 1
        if system.passes("healthy", load, "full"):
            low = load
        else:
            high = load
        load = 2 * low if math.isinf(high) else high / 2 if not low else math.sqrt(low * high)
    return Bisected(low, trials)
