"""Who owned a partition when, and how a group gives its partitions away."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.evidence.run import Run
from spark_checks.rebalance.ownership import bars, by_group
from spark_checks.rebalance.restarts import Restart

RUN = Run.model_validate(
    {
        "run_id": "r",
        "started_us": 0,
        "ended_us": 21_000_000,
        "measured_until_us": 20_000_000,
        "topics": [],
        "groups": {"g": {"via": "rest", "topics": ["t"], "protocol": "classic"}},
    }
)
RESTART = Restart(1, "h", "s", "i", 5_000_000, 6_000_000, 15_000_000)


def change(at_s: float, event: str, partition: int, consumer: str = "a") -> dict[str, Any]:
    about = {"group": "g", "topic": "t", "partition": partition, "consumer": consumer, "event": event}
    return about | {"at_us": int(at_s * 1e6)}


START = [change(-1, "assigned", 0), change(-1, "assigned", 1, "b")]
EAGER = [
    change(5, "revoked", 0),
    change(5, "revoked", 1, "b"),
    change(7, "assigned", 0),
    change(7, "assigned", 1),
]
COOPERATIVE = [change(5, "revoked", 1, "b"), change(7, "assigned", 1)]


def stretches(changes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(one["place"], one["consumer"], one["from_s"], one["until_s"]) for one in bars(changes, RUN)]


def test_a_bar_ends_where_its_owner_loses_the_partition_and_the_last_with_the_load() -> None:
    assert stretches(START + EAGER) == [
        ("t-0", "a", 0, 5),
        ("t-0", "a", 7, 20),
        ("t-1", "b", 0, 5),
        ("t-1", "a", 7, 20),
    ]


def test_bars_stand_in_the_order_of_partitions_and_end_with_the_load() -> None:
    found = [change(1, "assigned", number) for number in (10, 9)] + [change(20.5, "revoked", 9)]
    assert stretches(found) == [("t-9", "a", 1, 20), ("t-10", "a", 1, 20)]
    assert stretches([change(20.5, "assigned", 0)]) == []


def test_a_partition_taken_over_before_it_is_given_back_is_never_without_an_owner() -> None:
    late = [change(5, "assigned", 1), change(6, "revoked", 1, "b")]
    assert stretches([START[1], *late]) == [("t-1", "b", 0, 5), ("t-1", "a", 5, 20)]


@pytest.mark.parametrize(
    ("changes", "gives_away", "taken"),
    [(EAGER, "all at once", 2), (COOPERATIVE, "some", 1), ([], "nothing", 0)],
)
def test_how_a_group_gives_its_partitions_away_is_told_by_what_happened(
    changes: list[dict[str, Any]], gives_away: str, taken: int
) -> None:
    table = [{"by": {"g": {"ownerless_s": 2.0}}}, {"by": {"g": {"ownerless_s": 3.5}}}]
    found = by_group(START + changes, [RESTART], table, RUN)["g"]
    assert (found["gives_away"], found["most_taken_away"], found["partitions"]) == (gives_away, taken, 2)
    assert found["ownerless_s"] == 3.5
    assert found["protocol"] == "classic"


def test_groups_of_applications_and_of_flows_stand_beside_the_runs_own() -> None:
    place = {"cluster": "leaf", "topic": "t"}
    flow = {"flow": "f", "source": place, "target": place | {"cluster": "agg"}, "group": "mirror"}
    application = {"name": "joins", "input": place}
    parts = {"mirrors": [flow, flow], "applications": [application]}
    run = Run.model_validate(RUN.model_dump(by_alias=True) | parts)
    found = by_group([change(1, "assigned", 0) | {"group": "mirror"}], [RESTART], [], run)
    assert [(name, row["protocol"], row["via"]) for name, row in found.items()] == [
        ("g", "classic", "rest"),
        ("joins", "streams", "kafka"),
        ("mirror", "classic", "mirror"),
    ]
    assert found["mirror"]["partitions"] == 1


def test_a_group_that_nobody_watched_is_said_so() -> None:
    assert by_group([], [RESTART], [], RUN)["g"]["gives_away"] == "not watched"
