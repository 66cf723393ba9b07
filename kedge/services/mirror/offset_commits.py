"""How often a mirror commits the offsets of what it has mirrored."""

from __future__ import annotations

from typing import Final

from kedge.plan.settings import Choice
from kedge.services.mirror.flow import CLASSIC, Flow

_OFFSET_COMMIT_MS: Final = 60_000  # default of --offset.commit.interval.ms


def commit_interval(flow: Flow) -> Choice:
    """Return how often offsets are committed, in milliseconds: the latency budget, the default at most."""
    budget = flow.flow.latency_budget_ms
    if flow.advice == "documented" or budget >= _OFFSET_COMMIT_MS:
        because = "the default; each commit flushes the producer, so linger.ms above it has no effect"
        return Choice(_OFFSET_COMMIT_MS, because, CLASSIC, "documented")
    because = (
        f"the latency budget of {budget} ms: the lag that a restart waits for is seen that often, and a "
        "process that is killed repeats at most what it mirrored since; an estimate, not measured"
    )
    return Choice(budget, because, f"mirror_maker_flows.{flow.name}.latency_budget_ms", "estimate")
