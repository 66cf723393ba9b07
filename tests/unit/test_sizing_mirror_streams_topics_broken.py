"""Broken inventories: each is refused with the variable's full name, what is wrong and how to mend it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kedge.plan.hosts import Inventory
from kedge.services.planning import make_plan
from tests.planned import CLUSTERS, JOINS, METRICS, mirrors, of_topics, streams


class Broken(NamedTuple):
    """An inventory with one mistake; the words that its complaint and its mending must have."""

    name: str
    inventory: Inventory
    words: str
    mend: str


def _flow(without: str = "", **flow: Any) -> Inventory:
    whole = {k: v for k, v in (METRICS | flow).items() if k != without}
    return mirrors(2, flows={"metrics": whole})


def _store(without: str = "", **store: Any) -> Inventory:
    return streams(stores=[{k: v for k, v in (JOINS | store).items() if k != without}])


def _client(**client: Any) -> Inventory:
    whole = {"name": "app", "cluster": "leaf", "library": "java", "version": "4.3.1", "profile": "balanced"}
    return of_topics({}, kafka_clients=[whole | client])


def _two_hosts(service: str, first: Inventory, second: Inventory) -> Inventory:
    hosts = {"a": next(iter(first.hosts.values())), "b": next(iter(second.hosts.values()))}
    return Inventory(hosts, {service: ("a", "b")})


def _declared(*topics: dict[str, Any], **clusters: Any) -> Inventory:
    """Return a flow whose topics and clusters are declared."""
    flow = {k: v for k, v in METRICS.items() if k not in ("largest_topic_partitions", "max_message_bytes")}
    common = {"kafka_topics": list(topics), "kafka_clusters": CLUSTERS | clusters}
    return mirrors(1, flows={"metrics": flow}, common=common)


CPU = {"name": "metrics.cpu", "cluster": "leaf", "partitions": 20}
BACK = METRICS | {"source": "agg", "target": "leaf"}
SMALL_AGG = {"version": "4.3.1", "bootstrap_servers": "agg:9092", "message_max_bytes": 500_000}
OURS = {"version": "4.3.1", "brokers": "kafka_agg"}

FLOW = "mirror_maker_flows.metrics"
TOPIC = "kafka_topics[t0]"
STORE = "streams_app_stores[0]"
CLIENT = "kafka_clients[app]"

CASES = [
    # mirrors: kinds, units, ranges
    Broken("flows missing", mirrors(2, common={"mirror_maker_flows": None}), "mirror_maker_flows", ""),
    Broken("no flow", mirrors(2, common={"mirror_maker_flows": {}}), "mirror_maker_flows", ""),
    Broken("kind unknown", mirrors(2, kind="mm3"), "mirror_maker_kind", "classic"),
    Broken("version no version", mirrors(2, version="three"), "mirror_maker_version", ""),
    Broken("source missing", _flow("source"), f"{FLOW}.source", "add it"),
    Broken("budget missing", _flow("latency_budget_ms"), f"{FLOW}.latency_budget_ms", "add it"),
    Broken(
        "budget with a unit",
        _flow(latency_budget_ms="60s"),
        f"{FLOW}.latency_budget_ms",
        "write 60000: the unit is ms",
    ),
    Broken("budget negative", _flow(latency_budget_ms=-1), f"{FLOW}.latency_budget_ms", ""),
    Broken(
        "round trip with a unit",
        _flow(round_trip_ms="60 ms"),
        f"{FLOW}.round_trip_ms",
        "write 60: the unit is ms",
    ),
    Broken(
        "round trip in microseconds", _flow(round_trip_ms=60_000), f"{FLOW}.round_trip_ms", "10000 or less"
    ),
    Broken(
        "zero partitions", _flow(largest_topic_partitions=0), f"{FLOW}.largest_topic_partitions", "above 0"
    ),
    Broken("half a process", _flow(processes=2.5), f"{FLOW}.processes", ""),
    Broken("ratio above one", _flow(max_compression_ratio=20), f"{FLOW}.max_compression_ratio", "1 or less"),
    Broken("topics not a list", _flow(topics="metrics[.].*"), f"{FLOW}.topics", ""),
    Broken("no pattern", _flow(topics=[]), f"{FLOW}.topics", ""),
    Broken("pattern that is none", _flow(topics=["metrics[.*"]), f"{FLOW}.topics[0]", ""),
    Broken("patterns in one", _flow(topics=["a.*, b.*"]), f"{FLOW}.topics[0]", ""),
    Broken("misspelt", _flow(latency_budget=1), f"{FLOW}.latency_budget", "latency_budget_ms"),
    Broken("direction unknown", _flow(direction="sideways"), f"{FLOW}.direction", "push"),
    Broken("flow's name no unit name", mirrors(1, flows={"My Flow": METRICS}), "mirror_maker_flows", ""),
    # mirrors: contradictions
    Broken("source not declared", _flow(source="leaf9"), f"{FLOW}.source is leaf9", "agg, leaf"),
    Broken("to itself", _flow(target="leaf"), f"{FLOW}.source and .target", "two clusters"),
    Broken(
        "budget under the trip", _flow(latency_budget_ms=400), f"{FLOW}.latency_budget_ms is 400", "above 500"
    ),
    Broken("classic of 4.x", mirrors(1, version="4.3.1"), "mirror_maker_version is 4.3.1", "3.9.2"),
    Broken(
        "second of 2.0",
        mirrors(1, kind="mirror_maker_2", version="2.0"),
        "mirror_maker_version is 2.0",
        "4.3.1",
    ),
    Broken(
        "version of a vendor",
        mirrors(1, kind="mirror_maker_2", version="7.9.0"),
        "mirror_maker_version is 7.9.0",
        "has Kafka 3.9",
    ),
    Broken("classic exactly once", _flow(exactly_once=True), f"{FLOW}.exactly_once", "mirror_maker_2"),
    Broken("heap under buffer", _flow(heap_mib=100), f"{FLOW}.heap_mib is 100", "set heap_mib to 384"),
    Broken("drops", _flow(environment={"MIRROR_ABORT_ON_SEND_FAILURE": False}), "MIRROR_ABORT", "true"),
    Broken("acks 1", _flow(producer_settings={"acks": 1}), "acks of flow metrics is 1", "take acks out"),
    Broken(
        "commits early",
        _flow(consumer_settings={"enable.auto.commit": True}),
        "enable.auto.commit",
        "take enable.auto.commit out",
    ),
    Broken("request small", _flow(producer_settings={"max.request.size": 9}), "max.request.size", "1000000"),
    Broken(
        "loop", mirrors(1, flows={"metrics": METRICS, "back": BACK}), "mirror_maker_flows.back", "one way"
    ),
    Broken(
        "topics unknown", _flow("largest_topic_partitions"), f"{FLOW}.largest_topic_partitions", "declare"
    ),
    Broken(
        "fewer partitions than declared",
        mirrors(1, common={"kafka_topics": [CPU | {"partitions": 30}]}),
        f"{FLOW}.largest_topic_partitions is 20, and topic metrics.cpu has 30",
        "correct it",
    ),
    Broken(
        "target takes less", _declared(CPU, agg=SMALL_AGG), "message.max.bytes of cluster agg", "raise it"
    ),
    Broken(
        "target topic takes less",
        _declared(CPU, CPU | {"cluster": "agg", "settings": {"max.message.bytes": 9000}}),
        "topic metrics.cpu on agg refuses messages above 9000",
        "set max.message.bytes of topic metrics.cpu on agg to 1048588",
    ),
    Broken(
        "source topic takes more",
        mirrors(1, common={"kafka_topics": [CPU | {"settings": {"max.message.bytes": 5_000_000}}]}),
        "takes messages of 5000000 bytes",
        "max_message_bytes",
    ),
    Broken(
        "no target topic", _declared(CPU, agg=OURS), "metrics.cpu on leaf has no topic on agg", "kafka_topics"
    ),
    Broken(
        "flow of two minds",
        _two_hosts("mirror_maker", mirrors(1), mirrors(1, {"round_trip_ms": 9})),
        f"{FLOW} is not what it is on a",
        "once",
    ),
    Broken(
        "two versions",
        _two_hosts("mirror_maker", mirrors(1), mirrors(1, version="3.9.1")),
        "mirror_maker_kind and mirror_maker_version",
        "one kind and version",
    ),
    # Streams
    Broken("name missing", streams(common={"streams_app_name": None}), "streams_app_name", "add it"),
    Broken("name no unit name", streams(name="My App"), "streams_app_name", ""),
    Broken("cluster not declared", streams(cluster="nowhere"), "streams_app_cluster is nowhere", "agg, leaf"),
    Broken(
        "memory with a unit",
        streams(rocksdb_mib="4 GB"),
        "streams_app_rocksdb_mib",
        "write 4096: the unit is MiB",
    ),
    Broken("no instances", streams(instances_per_host=0), "streams_app_instances_per_host", ""),
    Broken("negative standbys", streams(standbys=-1), "streams_app_standbys", ""),
    Broken("relative state_dir", streams(state_dir="state"), "streams_app_state_dir", ""),
    Broken("store without partitions", _store("partitions"), f"{STORE}.partitions", "add it"),
    Broken("store of zero partitions", _store(partitions=0), f"{STORE}.partitions", ""),
    Broken("store without window", _store("window_ms"), f"{STORE}.window_ms", "how long a window"),
    Broken("window of a table", _store(kind="key_value"), f"{STORE}.window_ms", "take it out"),
    Broken("kind of store unknown", _store(kind="table"), f"{STORE}.kind", ""),
    Broken("store twice", streams(stores=[JOINS, JOINS]), "streams_app_stores holds joins twice", "once"),
    Broken("heap too small", streams(heap_mib=200), "streams_app_heap_mib is 200", "set it to 704"),
    Broken("no room", streams(rocksdb_mib=16_000), "host_memory_mib is 16384", "streams_app_rocksdb_mib"),
    Broken("library of a vendor", streams(version="8.0.1"), "streams_app_version is 8.0.1", "8.0 has 4.0"),
    Broken("starved", streams(rocksdb_mib=256), "1.0 MiB of memtables", "streams_app_rocksdb_mib to 2048"),
    Broken(
        "protocol too new",
        streams(version="4.1.1", group_protocol="streams"),
        "streams_app_group_protocol",
        "classic",
    ),
    Broken(
        "application of two minds",
        _two_hosts("streams_app", streams(), streams(version="4.3.0")),
        "streams_app_version of joins differ between a and b",
        "once",
    ),
    # topics
    Broken("topics not a list", of_topics(kafka_topics="t"), "kafka_topics is 't'", "write a list"),
    Broken("topic zero partitions", of_topics({"partitions": 0}), f"{TOPIC}.partitions", ""),
    Broken("topic's name", of_topics({"name": "a b"}), "kafka_topics[0].name", ""),
    Broken(
        "rate with a unit",
        of_topics({"target_mb_per_s": "50 MB/s"}),
        f"{TOPIC}.target_mb_per_s",
        "write 50: the unit is MB/s",
    ),
    Broken(
        "rate alone", of_topics({"target_mb_per_s": 50}), f"{TOPIC}.production_mb_per_s is missing", "measure"
    ),
    Broken("shrinking growth", of_topics({"growth": 0.5}), f"{TOPIC}.growth", ""),
    Broken("misspelt partitions", of_topics({"partition": 3}), f"{TOPIC}.partition", f"{TOPIC}.partitions"),
    Broken(
        "topic twice",
        of_topics({"name": "t"}, {"name": "t"}),
        "kafka_topics[1].name is 't'",
        "once",
    ),
    Broken("topic nowhere", of_topics({"cluster": "x"}), "cluster x of topic t0", "agg, leaf"),
    Broken("too many copies", of_topics({"replication": 4}), "replication of topic t0 is 4", "to 3 or less"),
    Broken(
        "copies in sync",
        of_topics({"settings": {"min.insync.replicas": 4}}),
        "min.insync.replicas",
        "set it to 2",
    ),
    Broken(
        "fewer than live",
        of_topics({"partitions": 3, "live_partitions": 6}),
        "cannot remove",
        "set partitions to 6",
    ),
    Broken(
        "keys",
        of_topics({"partitions": 6, "live_partitions": 3}),
        "a key's new records",
        "keys_may_move: true",
    ),
    # clients
    Broken("profile unknown", _client(profile="fast"), f"{CLIENT}.profile", "balanced"),
    Broken("library unknown", _client(library="ruby"), f"{CLIENT}.library", ""),
    Broken("client nowhere", _client(cluster="x"), "cluster x of client app", "agg, leaf"),
    Broken("client's topic", _client(topics=["nope"]), "topic nope of client app", "declare it"),
    Broken("loses", _client(profile="throughput"), "service_levels.delivery.lost is 0", "profile balanced"),
    Broken(
        "refused",
        _client(library="spark", version="4.0.0", consumer_settings={"group.id": "g"}),
        "group.id",
        "out",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_a_broken_inventory_is_refused_by_name(case: Broken) -> None:
    plan = make_plan(case.inventory)
    assert plan.has_errors
    errors = [f for f in plan.findings if f.severity == "error"]
    about = [f for f in errors if case.words in f.message]
    assert about, [f.message for f in errors]
    assert about[0].where
    assert case.mend in about[0].fix
    assert about[0].fix
    assert "\n" not in about[0].message + about[0].fix


def test_the_unbroken_ones_are_clean() -> None:
    for inventory in (mirrors(2), streams(), of_topics({"partitions": 3}), _client(), _declared(CPU)):
        assert not make_plan(inventory).has_errors
