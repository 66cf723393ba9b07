"""What a restart waits for, and for how long where the inventory says nothing."""

from __future__ import annotations

from typing import Final, NamedTuple

from kedge.plan.settings import Basis


class Wait(NamedTuple):
    """What a rollout waits for: the variable without the service's name, why that long, where that is known.

    The model of the service's variables holds the default; ``basis`` is what that default rests on.
    """

    key: str
    rule: str
    because: str
    source: str
    basis: Basis


def ready(because: str, source: str, basis: Basis) -> Wait:
    """Return how long an instance may take until it does its job."""
    return Wait("ready_seconds", "rollout.ready", because, source, basis)


#: How long groups may take to be stable again, and the records of lag that count as caught up. The reasons
#: are those of GROUPS_BACK.
GATE_SECONDS: Final = 120
GATE_MAX_LAG: Final = 10_000
#: What a restart of a member of consumer groups waits for: the groups stable again, and their lag back.
GROUPS_BACK: Final = (
    Wait(
        "gate_seconds",
        "rollout.gate",
        "a killed member is removed after its session of 45 s, and a group was seen to get nothing for 40 s; "
        "that, a rebalance and catching up fit into it",
        "REST proxy measurements, Groups and restarts",
        "estimate",
    ),
    Wait(
        "gate_max_lag",
        "rollout.lag",
        "a lag of so many records counts as caught up, whatever it was before: an estimate, 20 answers of "
        "500 records, because a lag varies with what is being read",
        "Kafka documentation, max.poll.records",
        "estimate",
    ),
)
