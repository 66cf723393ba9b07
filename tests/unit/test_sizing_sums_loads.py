"""Sums of loads, sizes and links that several rules share: what one kind of a service asks, every kind does."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from kedge.plan.hosts import Inventory
from kedge.plan.plan import PlannedInstance
from kedge.services.planning import make_plan
from tests.planned import (
    CLUSTERS,
    JOINS,
    findings,
    instances,
    mirrors,
    of_topics,
    streams,
    value,
    without_none,
)
from tests.rest_inventories import rest

LINK = {"host_link_mbit_per_s": 1000}

# REST proxies


def test_bytes_that_readers_fetch_are_held_against_the_link() -> None:
    workload = {"consumers": 1_500, "record_bytes": 100_000, "delivery_latency_ms": 500}
    (found,) = findings(rest(workload=workload, cores=1_000, common=LINK), "rest.link", "warning")
    assert "1500 readers of 100 records/s each (assumed) take 15000.0 MB/s" in found.message
    assert "say in kafka_rest_workload.reader_records_per_s what one reads" in found.fix
    assert "160 times as many hosts" in found.fix
    said = workload | {"reader_records_per_s": 100}
    assert findings(rest(workload=said, cores=1_000, common=LINK), "rest.link", "error")
    slow = workload | {"consumers": 900, "reader_records_per_s": 1}
    assert findings(rest(workload=slow, cores=1_000, common=LINK), "rest.link") == []
    # Produced and read together they are more: 90 and 40 MB/s.
    both = slow | {"consumers": 400, "records_per_s": 900}
    assert findings(rest(workload=both, cores=1_000, common=LINK), "rest.link", "error")


# Mirrors


@pytest.mark.parametrize("processes", [None, 1], ids=str)
def test_a_worker_that_its_cores_do_not_sustain_is_found(processes: int | None) -> None:
    flow = {"mb_per_s": 280, "processes": processes}
    kind = {"kind": "mirror_maker_2", "version": "4.3.1"}
    (found,) = findings(mirrors(1, cores=2, flow=flow, **kind), "mirror.cores", "warning")
    assert "about 12 cores at 22.8 MB/s each; its hosts have 2" in found.message
    assert findings(mirrors(2, cores=16, flow=flow, **kind), "mirror.cores") == []


@pytest.mark.parametrize("kind", ["classic", "mirror_maker_2"])
def test_flows_are_held_against_the_links_of_their_hosts(kind: str) -> None:
    role = {"kind": kind, "version": "3.9.2" if kind == "classic" else "4.3.1", "common": LINK}
    none = {"mb_per_s": 500, "producer_settings": {"compression.type": "none"}}
    (whole,) = findings(mirrors(2, flow=none, **role), "mirror.link", "error")
    assert "flow metrics carry 250.0 MB/s before compression through the host" in whole.message
    assert whole.where == "mm[1-2] mirror_maker"
    assert "use 2 times as many hosts, or a link of 2000 Mbit/s" in whole.fix
    assert findings(mirrors(4, flow=none, **role), "mirror.link") == []
    (packed,) = findings(mirrors(1, flow={"mb_per_s": 500}, **role), "mirror.link", "warning")
    assert "it fits where batches compress to 25% of their size" in packed.message


# Sizes of records and batches


def taking(message_bytes: int | None) -> dict[str, Any]:
    return {"kafka_clusters": {"leaf": without_none(CLUSTERS["leaf"] | {"message_max_bytes": message_bytes})}}


def test_a_record_that_brokers_refuse_is_found_whatever_the_producer_takes() -> None:
    own = {"producer.max.request.size": 4_000_000}
    large = {"record_bytes": 1_500_000}
    (found,) = findings(rest(workload=large, settings=own), "rest.record_bytes", "error")
    assert (
        "cluster leaf takes messages of 1048588 bytes by default, and records have 1500000" in found.message
    )
    wide = rest(workload=large, settings=own, common=taking(3_000_000))
    assert findings(wide, "rest.record_bytes", "error") == []
    topic = {"name": "t", "cluster": "leaf", "partitions": 1, "settings": {"max.message.bytes": 3_000_000}}
    declared = rest(workload=large, settings=own, common={"kafka_topics": [topic]})
    assert findings(declared, "rest.record_bytes", "error") == []
    packed = rest(workload=large, settings=own | {"producer.compression.type": "gzip"})
    assert findings(packed, "rest.record_bytes", "error") == []
    assert len(findings(packed, "rest.record_bytes", "warning")) == 1


def test_the_producer_of_a_bridge_is_asked_by_its_own_key() -> None:
    bridge = {"distribution": "strimzi", "version": "1.1.0", "common": taking(10_000_000)}
    (found,) = findings(rest(workload={"record_bytes": 2_000_000}, **bridge), "rest.record_bytes", "error")
    assert found.fix.startswith("set kafka.producer.max.request.size to 4000000")
    own = {"kafka.producer.max.request.size": 4_000_000}
    assert (
        findings(rest(workload={"record_bytes": 2_000_000}, settings=own, **bridge), "rest.record", "error")
        == []
    )


def test_a_record_that_an_application_cannot_write_is_found() -> None:
    request, topic = findings(streams(record_bytes=3_000_000), "streams.record_bytes", "error")
    assert "producer refuses more than 1048576" in request.message
    assert "cluster leaf takes messages of 1048588 bytes by default" in topic.message
    own = {"producer.max.request.size": 6_000_000, "topic.max.message.bytes": 6_000_000}
    assert findings(streams(record_bytes=3_000_000, settings=own), "streams.record_bytes") == []
    counted = [JOINS | {"record_bytes": 100}]
    assert findings(streams(record_bytes=3_000_000, stores=counted), "streams.record_bytes") == []


@pytest.mark.parametrize("advice", ["measured", "documented"])
def test_a_batch_of_an_application_is_one_that_its_cluster_takes(advice: str) -> None:
    common = taking(1_000_000) | {"advice": advice}
    planned = instances(make_plan(streams(common=common)), "streams_app")["st1"][0]
    assert value(planned, "producer.batch.size") == "1000000"
    assert findings(streams(common=common), "streams.batch", "warning") == []
    own = {"producer.batch.size": 4_194_304}
    (found,) = findings(streams(common=common, settings=own), "streams.batch", "warning")
    assert found.fix.startswith("set producer.batch.size to 1000000 or less")


def test_a_batch_of_a_client_is_one_that_its_topics_take() -> None:
    def app(**own: Any) -> dict[str, Any]:
        client = {
            "name": "app",
            "cluster": "leaf",
            "library": "java",
            "version": "4.3.1",
            "topics": ["t0", "t1"],
        }
        return client | {"profile": "throughput", "producer_settings": own}

    topics = ({"partitions": 3}, {"partitions": 3, "settings": {"max.message.bytes": 10_000}})
    plan = make_plan(of_topics(*topics, kafka_clients=[app()]))
    (batch,) = [s for s in plan.clients["app"] if s.key == "batch.size"]
    assert batch.value == "10000"
    assert "the most that topic t1 takes; else 131072" in batch.because
    (found,) = findings(of_topics(*topics, kafka_clients=[app(**{"batch.size": 131_072})]), "clients.batch")
    assert found.fix.startswith("set batch.size to 10000 or less")


# Topics


def test_a_topic_from_which_nothing_is_deleted_is_found_with_what_grows_how_fast() -> None:
    rates = {"target_mb_per_s": 77, "production_mb_per_s": 10, "consumption_mb_per_s": 10}
    (found,) = findings(of_topics(rates | {"settings": {"retention.ms": -1}}), "topics.retention", "warning")
    # 77 MB/s in three copies for a day, in segments of 1 GiB.
    a_day = 3 * 77e6 * 86_400
    assert f"its 3 copies grow by {a_day / 1e9:.0f} GB" in found.message
    assert f"and {math.ceil(2 * a_day / 2**30)} files a day" in found.message
    assert "set retention.ms to 604800000 in the settings of topic t0" in found.fix
    for ends in ({"retention.bytes": 10**12}, {"cleanup.policy": "compact"}, {"retention.ms": 1_000}):
        settings = {"retention.ms": -1} | ends
        assert findings(of_topics(rates | {"settings": settings}), "topics.retention") == []
    assert findings(of_topics({"partitions": 3, "settings": {"retention.ms": -1}}), "topics.retention") == []


# What mirrors write to


@pytest.mark.parametrize(
    ("pattern", "asked"),
    [("metrics[.].*", True), ("metrics.a", False), (r"metrics\.a", False), ("metrics[.]a", False)],
)
def test_a_mirror_whose_pattern_may_match_more_than_is_declared_asks(pattern: str, asked: bool) -> None:
    topic = {"name": "metrics.a", "partitions": 20}
    declared = {"kafka_topics": [topic | {"cluster": "leaf"}, topic | {"cluster": "agg"}]}
    flow = {"topics": [pattern], "largest_topic_partitions": None}
    found = findings(mirrors(flow=flow, common=declared), "mirror.target_partitions", "note")
    assert ["1 declared topics match" in f.message for f in found] == ([True] if asked else [])
    agg = {"kafka_clusters": {**CLUSTERS, "agg": CLUSTERS["agg"] | {"other_partitions": 400}}}
    assert findings(mirrors(flow=flow, common=declared | agg), "mirror.target_partitions") == []


# Windows that share one value

MINUTE = {
    "name": "minute",
    "partitions": 54,
    "window_ms": 60_000,
    "records_per_s": 5_400,
    "record_bytes": 1_000,
}
WEEK = {"name": "week", "partitions": 54, "window_ms": 604_800_000, "records_per_s": 1, "record_bytes": 100}


def app_of(*stores: dict[str, Any]) -> PlannedInstance:
    return instances(make_plan(streams(stores=list(stores))), "streams_app")["st1"][0]


def test_a_short_window_beside_a_long_one_is_restored_as_fast_as_alone() -> None:
    both = app_of(MINUTE, WEEK)
    assert value(both, "windowstore.changelog.additional.retention.ms") == "600000"
    assert "topic.segment.ms" not in {s.key for s in both.settings}
    (segment,) = [s for s in both.settings if s.key == "topic.segment.bytes"]
    kept = 5.4e6 * 660 + 100 * (604_800 + 600)
    assert int(segment.value) == int(kept / 108 / 2)
    said = re.search(r"up to (\d+) MB instead of (\d+) MB", segment.because)
    assert said is not None
    # 54 open segments of up to 1 GiB by default; 7 GB are 350 s.
    assert int(said[1]) > 60_000
    assert int(said[2]) < 8_000


def test_keys_beside_a_window_are_not_cut_by_its_time() -> None:
    keys = {"name": "keys", "kind": "key_value", "partitions": 400, "keys": 1_000_000, "record_bytes": 100}
    assert "topic.segment.ms" not in {s.key for s in app_of(MINUTE, keys).settings}
    assert findings(streams(stores=[MINUTE, keys]), "streams.changelog.files") == []
    own = {"topic.segment.ms": 300_000}
    (found,) = findings(streams(stores=[WEEK, keys], settings=own), "streams.changelog.files", "warning")
    assert "above the 30000 seen in production" in found.message


def test_windows_of_which_nobody_says_the_rates_are_asked_for_them() -> None:
    silent = [{k: v for k, v in store.items() if k != "records_per_s"} for store in (MINUTE, WEEK)]
    (found,) = findings(streams(stores=silent), "streams.changelog.segment", "note")
    assert "windows that are kept for 60000 to 604800000 ms share one topic.segment.ms" in found.message
    assert findings(streams(stores=[MINUTE, WEEK]), "streams.changelog.segment", "note") == []


# Links of balancers and brokers


def behind_a_balancer(**workload: Any) -> Inventory:
    inventory = rest(2, workload=workload, consumers_via="balancer", groups={"rest_balancer": ("lb1",)})
    inventory.hosts["lb1"]["host_link_mbit_per_s"] = 1000  # type: ignore[index]
    return inventory


@pytest.mark.parametrize(
    ("workload", "severity"),
    [
        ({"records_per_s": 2_000}, "error"),
        ({"records_per_s": 1_000}, "warning"),
        ({"records_per_s": 900}, None),
        ({"consumers": 100}, "warning"),
        ({"consumers": 100, "reader_records_per_s": 100}, "error"),
    ],
    ids=str,
)
def test_what_passes_through_a_balancer_is_held_against_its_link(
    workload: dict[str, int], severity: str | None
) -> None:
    # Half of what two hosts carry, as one may be away: records of 100 kB.
    found = findings(behind_a_balancer(record_bytes=100_000, **workload), "balancer.link")
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_readers_that_a_balancer_sends_on_do_not_pass_through_it() -> None:
    inventory = rest(
        2,
        workload={"consumers": 100, "record_bytes": 100_000},
        groups={"rest_balancer": ("lb1",)},
        common=LINK,
        consumers_via="instance",
    )
    assert findings(inventory, "balancer.link") == []


def test_what_reads_from_brokers_is_held_against_their_links() -> None:
    names = ("kafka1", "kafka2", "kafka3")
    inventory = mirrors(1, flow={"mb_per_s": 600})
    leaf = {"leaf": {"version": "4.3.1", "brokers": "kafka_leaf"}, "agg": CLUSTERS["agg"]}
    variables = {"kafka_clusters": leaf, "host_cores": 8, "host_memory_mib": 65_536, **LINK}
    hosts = {h: dict(v) | {"kafka_clusters": leaf} for h, v in inventory.hosts.items()}
    groups = dict(inventory.groups) | {"kafka_leaf": names, "kafka_broker": names}
    brokers = Inventory(hosts | dict.fromkeys(names, variables), groups)
    (found,) = findings(brokers, "topics.link", "warning")
    assert "takes 200.0 MB/s out of each of 3 brokers (mirrors 600.0 MB/s in all" in found.message
    assert "use 5 brokers or more, or links of 1600 Mbit/s" in found.fix
    hosts["mm1"]["mirror_maker_flows"]["metrics"]["mb_per_s"] = 300
    assert findings(brokers, "topics.link") == []


def test_a_link_below_the_guides_is_a_note() -> None:
    (found,) = findings(rest(common={"host_link_mbit_per_s": 100}), "rest.network", "note")
    assert "1 GbE and 10 GbE are sufficient for most applications" in found.message
    assert findings(rest(common=LINK), "rest.network") == []


def test_a_build_that_speaks_v1_alone_is_refused_and_its_command_speaks_it() -> None:
    old, new = (rest(distribution="mapr", version=v, default_stream="/s") for v in ("2.0.1", "4.1.0"))
    (found,) = findings(old, "rest.mapr.api", "error")
    assert "no instance would ever become ready" in found.message
    assert findings(new, "rest.mapr.api") == []
    for inventory, api in ((old, "v1"), (new, "v2")):
        (commands,) = make_plan(inventory).services["rest1"]["mapr_streams"]
        assert f"application/vnd.kafka.json.{api}+json" in commands.value("produce")


def test_brokers_have_the_racks_of_their_hosts_where_all_of_them_have_one() -> None:
    names = ("kafka1", "kafka2")
    variables = {
        "kafka_topics": [{"name": "t", "cluster": "leaf", "partitions": 1}],
        "kafka_clusters": {"leaf": {"version": "4.3.1", "brokers": "kafka_leaf"}},
        "host_cores": 8,
        "host_memory_mib": 65_536,
    }
    groups = {"kafka_leaf": names, "kafka_broker": names}
    racks = Inventory({h: variables | {"rack": f"r{h[-1]}"} for h in names}, groups)
    of = instances(make_plan(racks), "kafka_broker")
    assert [value(of[h][0], "broker.rack") for h in names] == ["r1", "r2"]
    one = Inventory({"kafka1": variables | {"rack": "r1"}, "kafka2": variables}, groups)
    assert "broker.rack" not in {
        s.key for s in instances(make_plan(one), "kafka_broker")["kafka1"][0].settings
    }
    (found,) = findings(one, "broker.rack", "warning")
    assert "kafka1 has a rack, and kafka2 of its cluster has none" in found.message
