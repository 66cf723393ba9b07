"""Topics: the guide's formulas by their numbers, and what too many partitions cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.plan.findings import Finding
from kedge.services.planning import make_plan
from kedge.services.topics.cluster_limits import added_replication_ms
from kedge.services.topics.partition_count import partitions_needed
from tests.planned import findings, of_topics

RATES = {"target_mb_per_s": 100, "production_mb_per_s": 10, "consumption_mb_per_s": 20}


def planned(topic: dict[str, Any], **clusters: Any) -> dict[str, str]:
    plan = make_plan(of_topics(topic, **clusters))
    return {s.key: s.value for s in plan.topics["leaf"]["t0"]}


def cluster(brokers: int, **more: Any) -> dict[str, Any]:
    return {"leaf": {"version": "4.3.1", "bootstrap_servers": "x:9092", "broker_count": brokers} | more}


def test_the_reason_has_the_sum_with_its_numbers() -> None:
    (setting,) = [
        s for s in make_plan(of_topics(RATES)).topics["leaf"]["t0"] if s.rule == "topics.partitions"
    ]
    assert setting.because == "max(100 / 10, 100 / 20) MB/s = 10.00, rounded up"
    assert setting.source == "Configure Kafka for High Throughput, Number of Partitions"


def test_own_partitions_below_the_need_are_a_warning() -> None:
    assert planned(RATES | {"partitions": 4})["partitions"] == "4"
    (warning,) = findings(of_topics(RATES | {"partitions": 4}), "topics.partitions", "warning")
    assert warning.fix == "set partitions to 10, or leave partitions out"


def test_own_partitions_count_beside_a_target_that_nothing_was_measured_for() -> None:
    both = {"partitions": 4, "target_mb_per_s": 100}
    assert planned(both)["partitions"] == "4"
    (note,) = findings(of_topics(both), "topics.target")
    assert note.severity == "note"
    assert "4 partitions of topic t0 count" in note.message
    assert findings(of_topics(RATES | {"partitions": 10}), "topics.target") == []


@pytest.mark.parametrize(
    ("topic", "severity"),
    [
        ({"partitions": 12, "live_partitions": 12}, None),
        ({"partitions": 12, "live_partitions": 6}, "error"),
        ({"partitions": 12, "live_partitions": 6, "keys_may_move": True}, "warning"),
        ({"partitions": 12, "live_partitions": 6, "keyed": False}, "note"),
        ({"partitions": 6, "live_partitions": 12, "keys_may_move": True}, "error"),
    ],
)
def test_growing_a_live_topic_says_what_happens_to_keys(topic: dict[str, Any], severity: str | None) -> None:
    found = findings(of_topics(topic), "topics.partitions.live")
    assert [f.severity for f in found] == ([severity] if severity else [])
    if severity == "warning":
        assert "a key lies in two partitions" in found[0].message


@pytest.mark.parametrize(
    ("partitions", "brokers", "severity"), [(6_000, 3, None), (6_600, 3, "note"), (12_600, 3, "warning")]
)
def test_leaders_a_broker_are_held_against_2000_to_4000(
    partitions: int, brokers: int, severity: str | None
) -> None:
    inventory = of_topics({"partitions": partitions, "replication": 1}, clusters=cluster(brokers))
    assert [f.severity for f in findings(inventory, "topics.leaders")] == ([severity] if severity else [])


def test_the_clusters_other_partitions_count() -> None:
    inventory = of_topics({"partitions": 1}, clusters=cluster(9, other_partitions=25_000))
    (warning,) = findings(inventory, "topics.cluster.partitions")
    assert "25001 partitions" in warning.message


def test_replicating_1000_partitions_from_one_broker_to_another_adds_20_ms() -> None:
    assert added_replication_ms(partitions=1000, brokers=1, replication=2) == pytest.approx(20)
    # (3000 / 6) x (3 - 1) x 20 / 1000
    assert added_replication_ms(partitions=3000, brokers=6, replication=3) == pytest.approx(20)
    inventory = of_topics({"partitions": 3000, "replication": 3}, clusters=cluster(6))
    (note,) = findings(inventory, "topics.replication.latency")
    assert note.severity == "note"
    assert "about 20.0 ms" in note.message


def test_added_latency_above_half_of_the_level_is_a_warning() -> None:
    levels = {"latency": {"kafka": {"ack_p99_ms": 30}}}
    inventory = of_topics({"partitions": 3000, "replication": 3}, clusters=cluster(6), service_levels=levels)
    assert [f.severity for f in findings(inventory, "topics.replication.latency")] == ["warning"]


def test_file_handles_are_two_a_segment_and_held_against_the_limit() -> None:
    # 2000 partitions x 3 copies on 3 brokers, 11 GiB in segments of 1 GiB and the one being written
    topic = {"partitions": 2000, "replication": 3, "settings": {"retention.bytes": 11 * 2**30}}
    found = {f.rule: f for f in findings(of_topics(topic, clusters=cluster(3)), "topics.")}
    assert "opens about 48000 files: 2 for each of 24000 log segments" in found["topics.file_handles"].message
    assert found["topics.file_handles"].severity == "note"
    assert "topics.memory_maps" not in found
    more = topic | {"settings": {"retention.bytes": 50 * 2**30}}
    found = {f.rule: f for f in findings(of_topics(more, clusters=cluster(3)), "topics.")}
    assert found["topics.memory_maps"].severity == "warning"
    # Of somebody else's brokers nobody knows the limit; of Kedge's own it is a variable.
    assert found["topics.file_handles"].severity == "warning"
    assert found["topics.file_handles"].fix.startswith("see that its brokers may open 408000")


def test_fixes_of_files_and_maps_end_their_findings() -> None:
    topic = {"partitions": 2000, "replication": 1, "settings": {"retention.bytes": 150 * 2**30}}

    def of_own_brokers(**more: Any) -> dict[str, Finding]:
        clusters = {"leaf": {"version": "4.3.1", "brokers": "kafka_leaf"}}
        planned = of_topics(topic, clusters=clusters, **more)
        groups = {"kafka_leaf": ("somewhere",), "kafka_broker": ("somewhere",)}
        return {f.rule: f for f in make_plan(replace(planned, groups=planned.groups | groups)).findings}

    found = of_own_brokers()
    assert found["topics.file_handles"].fix.startswith("set kafka_broker_open_files to 1208000")
    assert "topics.memory_maps" not in found  # the plan gives them what they need
    low = of_own_brokers(host_tuning_settings={"vm.max_map_count": 262_144})["topics.memory_maps"]
    assert "vm.max_map_count of 262144" in low.message
    assert low.fix.startswith("set vm.max_map_count to 1208000")
    fixed = of_own_brokers(
        kafka_broker_open_files=1_208_000, host_tuning_settings={"vm.max_map_count": 1_208_000}
    )
    assert fixed["topics.file_handles"].severity == "note"
    assert "topics.memory_maps" not in fixed


def test_topics_keep_the_form_that_roles_read() -> None:
    values = planned(
        {"partitions": 6, "replication": 1, "settings": {"retention.ms": 3_600_000, "preallocate": True}}
    )
    assert values == {
        "partitions": "6",
        "replication.factor": "1",
        "preallocate": "true",
        "retention.ms": "3600000",
    }


rates = st.floats(0.001, 10_000, allow_nan=False)


@given(target=rates, production=rates, consumption=rates, growth=st.floats(1, 10))
def test_that_many_partitions_carry_the_target_and_one_less_does_not(
    target: float, production: float, consumption: float, growth: float
) -> None:
    count = partitions_needed(target, production, consumption, growth)
    slowest = min(production, consumption)
    assert count * slowest >= target * growth * (1 - 1e-6)
    assert count == 1 or (count - 1) * slowest < target * growth * (1 + 1e-6)
    assert count == math.ceil(count)
