"""Streams applications: the article's sums, the measured bound, and what must hold for any."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.plan.settings import MIB
from kedge.services.planning import make_plan
from kedge.services.streams.rocksdb import write_buffer_mib
from kedge.services.streams.stores import (
    InstanceState,
    Kept,
    disk_bytes,
    restore_bytes,
    segments,
    state,
)
from kedge.services.streams.variables import StateStore
from tests.planned import JOINS, files, findings, instances, streams, value

SERVICE = "streams_app"


def test_eight_joins_are_sixteen_stores_and_576_databases_of_which_192_take_writes() -> None:
    joins = StateStore.model_validate(JOINS)
    counted = state([joins], 1, 0, measured=True)
    assert (counted.stores, counted.databases, counted.writing) == (16, 576, 192)
    assert state([joins], 1, 0, measured=False).unbounded_mib == 28_224
    (note,) = findings(streams(), "streams.memory.unbounded")
    assert "28224 MB" in note.message
    assert "16 stores, 576 databases and 56448 MB" in note.message


def test_the_measured_bound_gives_each_writing_database_8_mib() -> None:
    (instance,) = instances(make_plan(streams()), SERVICE)["st1"]
    assert value(instance, "cache.bytes") == str(2048 * MIB)
    assert value(instance, "memtables.bytes") == str(1536 * MIB)
    assert value(instance, "write.buffer.count") == "2"
    assert value(instance, "write.buffer.bytes") == str(4 * MIB)
    assert value(instance, "rocksdb.config.setter") == "kedge.BoundedRocksDb"


def test_the_documented_bound_is_4_gb_and_each_deviation_is_a_note_with_both_values() -> None:
    (instance,) = instances(make_plan(streams(common={"advice": "documented"})), SERVICE)["st1"]
    assert value(instance, "cache.bytes") == str(4096 * MIB)
    assert value(instance, "write.buffer.count") == "3"
    assert value(instance, "write.buffer.bytes") == str(16 * MIB)
    (note,) = findings(streams(), "streams.rocksdb.bound")
    assert note.severity == "note"
    assert str(2048 * MIB) in note.message
    assert str(4096 * MIB) in note.message


@pytest.mark.parametrize(
    ("memtables", "writing", "databases", "buffer"),
    [
        (4000, 100, 100, 16),  # Kafka Streams' own is the most
        (1536, 192, 192, 8),  # no more than a writing database's share
        (1535, 192, 192, 4),
        (1536, 192, 576, 4),  # 576 times half of 4 MiB fit, of 8 MiB they do not
        (768, 192, 576, 2),
        (100, 192, 576, 1),
    ],
)
def test_write_buffers_fit_their_share_and_what_older_segments_keep(
    memtables: int, writing: int, databases: int, buffer: int
) -> None:
    assert write_buffer_mib(memtables, InstanceState(1, databases, writing, 0.0, 1)) == buffer


@pytest.mark.parametrize(
    ("bound_mib", "severity"),
    [(2048, None), (2047, "warning"), (1024, "warning"), (341, "error"), (256, "error")],
)
def test_a_bound_under_the_measured_floor_is_a_finding(bound_mib: int, severity: str | None) -> None:
    found = [f.severity for f in findings(streams(rocksdb_mib=bound_mib), "streams.rocksdb.floor")]
    assert found == ([severity] if severity else [])


def test_heap_rocksdb_and_overhead_are_the_units_limit() -> None:
    (instance,) = instances(make_plan(streams()), SERVICE)["st1"]
    # 256 MiB, 2 producers with 96 batches of 1 MiB, 2 x (96 fetched + 32) MiB; 576 databases with 0.8 MiB each
    # and 256 MiB
    assert value(instance, "KAFKA_HEAP_OPTS") == "-Xms704m -Xmx704m"
    assert value(instance, "MemoryMax") == f"{704 + 2048 + 717}M"
    assert value(instance, "LimitNOFILE") == "17408"


def test_what_does_not_fit_in_the_hosts_memory_is_an_error() -> None:
    assert findings(streams(memory_mib=4096), "", "error") == []
    # One thing that is wrong is one error, whether it leaves too little to the system or nothing at all.
    (error,) = findings(streams(memory_mib=4096, rocksdb_mib=4000), "", "error")
    assert error.rule == "host.memory"
    assert "host_memory_mib is 4096" in error.message
    assert "streams_app_rocksdb_mib" in error.fix
    squeezed = findings(streams(memory_mib=2600), "streams.rocksdb.floor")
    assert [f.severity for f in squeezed] == ["warning"]


@pytest.mark.parametrize(
    ("latency_ms", "record_bytes", "exactly_once", "expected"),
    [
        (1_000, 6_000, False, {"commit.interval.ms": "500", "batch": str(MIB), "linger": "50"}),
        (120_000, 6_000, False, {"commit.interval.ms": "30000", "batch": str(MIB), "linger": "50"}),
        (100, 100, False, {"commit.interval.ms": "50", "batch": "18432", "linger": "25"}),
        (60_000, 50, True, {"commit.interval.ms": "5000", "batch": "16384", "linger": "50"}),
    ],
)
def test_commit_batch_and_linger_follow_from_latency_and_record_size(
    latency_ms: int, record_bytes: int, exactly_once: bool, expected: dict[str, str]
) -> None:
    inventory = streams(latency_ms=latency_ms, record_bytes=record_bytes, exactly_once=exactly_once)
    (instance,) = instances(make_plan(inventory), SERVICE)["st1"]
    assert value(instance, "commit.interval.ms") == expected["commit.interval.ms"]
    assert value(instance, "producer.batch.size") == expected["batch"]
    assert value(instance, "producer.linger.ms") == expected["linger"]


def test_changelogs_keep_the_window_and_the_restore_is_predicted() -> None:
    store = JOINS | {"records_per_s": 10, "record_bytes": 6000}
    # Two minutes each way and a minute of grace are 5 minutes, and 10 more for clocks: 900 s. Retention looks
    # every 5 minutes, and half of the 900 s are in the open segment.
    read = 16 * (900 + 300 + 450) * 10 * 6000
    assert restore_bytes([StateStore.model_validate(store)], 1, Kept(600_000, 450_000)) == pytest.approx(read)
    (instance,) = instances(make_plan(streams(stores=[store])), SERVICE)["st1"]
    assert value(instance, "windowstore.changelog.additional.retention.ms") == "600000"
    (warning,) = findings(streams(stores=[store], restore_s=30), "streams.restore")
    assert f"about {read / 20e6:.0f} s at 20 MB/s (assumed" in warning.message
    assert findings(streams(stores=[store], restore_s=90), "streams.restore") == []


def test_the_state_folder_says_what_its_disk_has_to_hold() -> None:
    store = JOINS | {"records_per_s": 10, "record_bytes": 6000}
    # 16 stores keep 5 minutes, and the half of that which a segment is.
    assert disk_bytes([StateStore.model_validate(store)], 1) == 16 * 450 * 10 * 6000
    keyed = StateStore(name="k", kind="key_value", partitions=12, keys=1000, record_bytes=100)
    assert disk_bytes([keyed], 2) == 50_000
    (instance,) = instances(make_plan(streams(stores=[store])), SERVICE)["st1"]
    (because,) = [s.because for s in instance.settings if s.key == "state.dir"]
    assert "hold about 432 MB there" in because


def test_a_long_restore_gets_a_standby_where_a_second_host_can_hold_it() -> None:
    stores = [JOINS | {"records_per_s": 600, "record_bytes": 6000}]
    (alone,) = instances(make_plan(streams(1, stores=stores)), SERVICE)["st1"]
    assert value(alone, "num.standby.replicas") == "0"
    (one_of_two,) = instances(make_plan(streams(2, stores=stores)), SERVICE)["st1"]
    assert value(one_of_two, "num.standby.replicas") == "1"


def test_retention_of_a_week_is_named_as_what_it_would_cost() -> None:
    store = JOINS | {"records_per_s": 10, "record_bytes": 6000}
    own = {"windowstore.changelog.additional.retention.ms": 7 * 86_400_000}
    (warning,) = findings(streams(stores=[store], settings=own), "streams.restore")
    assert warning.severity == "warning"


def test_the_state_is_sized_for_one_host_away() -> None:
    writing = [
        int(value(instances(make_plan(streams(n)), SERVICE)["st1"][0], "cache.bytes")) // MIB
        for n in (1, 2, 3, 4)
    ]
    assert writing == [2048, 2048, 1024, 704]


@pytest.mark.parametrize(("retention_ms", "live"), [(60_000, 2), (90_000, 3), (120_000, 3), (3_600_000, 3)])
def test_segments_follow_from_the_retention(retention_ms: int, live: int) -> None:
    assert segments(StateStore(name="w", partitions=1, window_ms=retention_ms)) == live


def test_a_host_more_or_less_changes_no_others_identity() -> None:
    def of_b(hosts: list[str]) -> dict[str, str]:
        (instance,) = instances(make_plan(streams(hosts)), SERVICE)["b"]
        keys = ("client.id", "main.consumer.group.instance.id", "application.id", "state.dir")
        return {"name": instance.name} | {k: value(instance, k) for k in keys}

    assert of_b(["a", "b"]) == of_b(["b"]) == of_b(["b", "c"])


def test_a_persons_own_values_win_and_are_marked() -> None:
    inventory = streams(settings={"commit.interval.ms": 9_000, "num.stream.threads": 4}, heap_mib=2048)
    (instance,) = instances(make_plan(inventory), SERVICE)["st1"]
    assert value(instance, "commit.interval.ms") == "9000"
    assert value(instance, "KAFKA_HEAP_OPTS") == "-Xms2048m -Xmx2048m"
    own = {s.key for s in instance.settings if s.by == "person"}
    assert own == {"commit.interval.ms", "num.stream.threads", "KAFKA_HEAP_OPTS"}
    assert [f.severity for f in findings(inventory, "streams.latency")] == ["warning"]


def test_an_application_without_state_has_no_rocksdb() -> None:
    (instance,) = instances(make_plan(streams(stores=[])), SERVICE)["st1"]
    assert not any("rocksdb" in s.file or "rocksdb" in s.key for s in instance.settings)


stores = st.lists(
    st.builds(
        lambda kind, count, partitions, window: (
            {"kind": kind, "count": count, "partitions": partitions}
            | ({} if kind == "key_value" else {"window_ms": window})
        ),
        st.sampled_from(["windowed", "session", "join", "key_value"]),
        st.integers(1, 10),
        st.integers(1, 60),
        st.integers(1_000, 86_400_000),
    ),
    max_size=4,
).map(lambda found: [{"name": f"s{n}"} | s for n, s in enumerate(found)])


@given(
    hosts=st.integers(1, 4),
    cores=st.integers(1, 32),
    memory_mib=st.integers(1024, 65_536),
    stores=stores,
    each=st.integers(1, 3),
    bound=st.none() | st.integers(1, 20_000),
    advice=st.sampled_from(["measured", "documented"]),
)
@settings(max_examples=30, deadline=None)
def test_memory_is_never_above_ram_without_a_finding(
    hosts: int,
    cores: int,
    memory_mib: int,
    stores: list[dict[str, Any]],
    each: int,
    bound: int | None,
    advice: str,
) -> None:
    role: dict[str, Any] = {"stores": stores, "instances_per_host": each, "rocksdb_mib": bound}
    inventory = streams(hosts, cores, memory_mib, {"advice": advice}, **role)
    plan = make_plan(inventory)
    assert plan == make_plan(inventory)
    for found in instances(plan, SERVICE).values():
        total = sum(int(value(i, "MemoryMax").removesuffix("M")) for i in found)
        assert total <= memory_mib or any(
            f.rule == "host.memory" and f.severity == "error" for f in plan.findings
        )
        for i in found:
            assert files(i)
            assert all(s.rule and s.because and s.source for s in i.settings)
            heap = int(value(i, "KAFKA_HEAP_OPTS").split("-Xmx")[1].removesuffix("m")) * MIB
            threads = int(value(i, "num.stream.threads"))
            assert heap > threads * int(value(i, "producer.buffer.memory"))


def test_a_memory_limit_too_small_for_what_is_planned_is_an_error() -> None:
    assert findings(streams(memory_mib=16_384, rocksdb_mib=2048), "streams.memory.limit") == []
    inventory = streams(rocksdb_mib=2048)
    limited = {h: dict(v) | {"streams_app_memory_mib": 2000} for h, v in inventory.hosts.items()}
    (error,) = findings(type(inventory)(limited, inventory.groups), "streams.memory.limit", "error")
    assert "streams_app_memory_mib is 2000" in error.message
    assert f"set it to {704 + 2048 + 717}" in error.fix


def test_the_bound_that_the_floor_asks_for_is_enough() -> None:
    # 296 writing databases x 8 MiB / 0.75 are 3157.3 MiB: rounded down, the warning would stay.
    stores = [{"name": "counts", "partitions": 37, "count": 8, "window_ms": 60_000}]
    (short,) = findings(streams(stores=stores, rocksdb_mib=1024), "streams.rocksdb.floor")
    assert short.fix.startswith("set streams_app_rocksdb_mib to 3158")
    assert findings(streams(stores=stores, rocksdb_mib=3158), "streams.rocksdb.floor") == []


def test_a_delivery_timeout_with_which_the_producer_would_not_start_is_an_error() -> None:
    (error,) = findings(streams(settings={"producer.delivery.timeout.ms": 10_000}), "clients.delivery")
    assert error.severity == "error"
    assert "is 10000, below linger.ms and request.timeout.ms together, 50 + 30000 ms" in error.message
    assert error.fix.startswith("set producer.delivery.timeout.ms to 30050 or more")
    assert findings(streams(settings={"producer.delivery.timeout.ms": 30_050}), "clients.delivery") == []


def test_a_fix_of_standbys_names_the_key_that_counts() -> None:
    (variable,) = findings(streams(standbys=3), "streams.standbys")
    (key,) = findings(streams(standbys=1, settings={"num.standby.replicas": 3}), "streams.standbys")
    assert variable.fix == "set streams_app_standbys to 0 or less"
    assert key.fix == "set num.standby.replicas to 0 or less"


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"acks": 1}, "acks"),
        ({"producer.acks": "0"}, "producer.acks"),
        ({"producer.acks": 1, "acks": "all"}, "producer.acks"),
    ],
)
def test_acks_that_lose_results_are_an_error(settings: dict[str, Any], key: str) -> None:
    (error,) = findings(streams(settings=settings), "streams.acks", "error")
    assert error.fix.startswith(f"take {key} out of streams_app_settings")


def test_acks_of_all_replicas_and_loss_that_is_allowed_are_no_finding() -> None:
    assert findings(streams(settings={"acks": 1, "producer.acks": "all"}), "streams.acks") == []
    allowed = {"service_levels": {"delivery": {"lost": 5}}}
    assert findings(streams(common=allowed, settings={"acks": 1}), "streams.acks") == []
