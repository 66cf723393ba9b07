"""The whole plan: stable, complete, reproducible, readable; the command line; the inventories to copy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.plan.hosts import Inventory
from kedge.plan.jvm_flags import maximum_heap_mib
from kedge.plan.plan import Plan
from kedge.plan.settings import Setting
from kedge.plan.text import difference, text
from kedge.plan_command import main
from kedge.services.host.memory import needed_mib
from kedge.services.planning import make_plan
from tests.planned import JOINS, METRICS, mirrors, streams
from tests.rest_inventories import of_rule, planned, rest

REPOSITORY = Path(__file__).parents[2]

workloads = st.fixed_dictionaries(
    {},
    optional={
        "consumers": st.integers(0, 5000),
        "largest_group": st.integers(0, 500),
        "partitions": st.integers(1, 1000),
        "records_per_s": st.integers(1, 1_000_000),
        "records_per_request": st.sampled_from([1, 5, 10, 100, 5000]),
        "record_bytes": st.integers(1, 3_000_000),
        "connections": st.integers(1, 20_000),
        "delivery_latency_ms": st.integers(5, 60_000),
        "client_pause_ms": st.integers(100, 600_000),
    },
)
hosts = st.lists(st.from_regex(r"[a-z]{1,6}[0-9]{0,3}", fullmatch=True), min_size=1, max_size=4, unique=True)


def of_host(plan: Plan, host: str) -> Mapping[str, Any]:
    return dict(plan.services.get(host, {}))


def every(plan: Plan) -> list[Setting]:
    return [
        s
        for services in plan.services.values()
        for instances in services.values()
        for i in instances
        for s in i.settings
    ] + [s for topics in plan.topics.values() for of_topic in topics.values() for s in of_topic]


def test_taking_the_first_of_ten_hosts_out_changes_nothing_on_the_others() -> None:
    names = [f"rest{n}" for n in range(1, 11)]
    load = {"consumers": 300, "partitions": 6, "records_per_s": 5000, "largest_group": 60}
    before, after = (make_plan(rest(n, load)) for n in (names, names[1:]))
    assert list(after.services) == names[1:]
    for host in names[1:]:
        assert of_host(after, host) == of_host(before, host)


@settings(max_examples=20, deadline=None)
@given(hosts, workloads, st.sampled_from([2, 8, 32]), st.data())
def test_hosts_come_and_go_without_a_change_to_others(
    names: list[str], workload: dict[str, Any], cores: int, data: st.DataObject
) -> None:
    before = make_plan(rest(names, workload, cores=cores))
    gone = data.draw(st.sampled_from(names))
    after = make_plan(rest([n for n in names if n != gone], workload, cores=cores))
    for host in names:
        if host != gone:
            assert of_host(before, host) == of_host(after, host)


@settings(max_examples=20, deadline=None)
@given(hosts, workloads, st.sampled_from(["measured", "documented"]))
def test_ids_and_addresses_are_unique(names: list[str], workload: dict[str, Any], advice: str) -> None:
    plan = make_plan(rest(names, workload, {"advice": advice}))
    instances = [(h, i) for h, services in plan.services.items() for i in services["kafka_rest"]]
    assert len({i.value("id") for _, i in instances}) == len(instances)
    assert len({(h, i.port) for h, i in instances}) == len(instances)
    assert not of_rule(plan, "rest.identity", "error")


@settings(max_examples=50, deadline=None)
@given(workloads, st.sampled_from(["measured", "documented"]), st.integers(512, 262_144), st.integers(1, 128))
def test_memory_is_never_above_ram_without_an_error_and_a_heap_never_above_8_gib(
    workload: dict[str, Any], advice: str, memory_mib: int, cores: int
) -> None:
    plan = make_plan(rest(1, workload, {"advice": advice}, memory_mib=memory_mib, cores=cores))
    instances = plan.services["rest1"]["kafka_rest"]
    total = sum(map(needed_mib, instances))
    assert (total > memory_mib) == bool(of_rule(plan, "host.memory", "error"))
    for i in instances:
        heap = maximum_heap_mib(i.value("KAFKAREST_HEAP_OPTS"))
        assert heap is not None
        assert heap < needed_mib(i)
        assert heap <= 8192 or of_rule(plan, "rest.heap.split", "error")


@settings(max_examples=10, deadline=None)
@given(hosts, workloads)
def test_the_same_input_gives_the_same_plan(names: list[str], workload: dict[str, Any]) -> None:
    assert make_plan(rest(names, workload)).to_json() == make_plan(rest(names, workload)).to_json()


def all_kinds() -> list[Inventory]:
    kinds = [("confluent", "8.3.1"), ("confluent", "7.9.9"), ("strimzi", "1.1.0"), ("mapr", "5.1.2")]
    load = {"consumers": 100, "partitions": 12, "connections": 10}
    return [
        *(rest(2, load, distribution=d, version=v, groups={"rest_balancer": ("lb1",)}) for d, v in kinds),
        mirrors(2, METRICS | {"round_trip_ms": 60, "link_mbit_per_s": 1000}),
        streams(1, stores=[JOINS]),
    ]


@pytest.mark.parametrize("advice", ["measured", "documented"])
def test_every_setting_has_a_rule_a_reason_and_a_source(advice: Any) -> None:
    for inventory in all_kinds():
        for s in every(make_plan(inventory, advice)):
            assert all((s.key, s.rule, s.because, s.source)), s
            assert s.rule.count(".") >= 1
            assert " " in s.because, s


def test_every_finding_says_where_what_and_how_to_fix_it() -> None:
    for inventory in all_kinds():
        for f in make_plan(inventory).findings:
            assert all((f.rule, f.where, f.message)), f
            # A note may inform and ask for nothing.
            assert f.fix or f.severity == "note", f
            assert not f.fix.startswith("none"), f
            assert ("Fix: " in f.line()) == bool(f.fix)


def test_no_planned_key_is_one_that_the_version_does_not_read() -> None:
    for inventory in all_kinds()[:4]:
        for advice in ("measured", "documented"):
            plan = make_plan(inventory, advice)
            keys = {
                s.key: ""
                for s in every(plan)
                if s.file.endswith(("kafka-rest.properties", "application.properties"))
            } | {"streams.default.streams": "", "streams.buffer.max.time.ms": ""}
            role = next(iter(inventory.hosts.values()))
            taken = rest(
                1,
                distribution=role["kafka_rest_distribution"],
                version=role["kafka_rest_version"],
                settings={k: 1 for k in keys if not k.startswith("streams.")},
            )
            assert not of_rule(make_plan(taken), "rest.keys"), advice


def test_the_difference_between_two_forms_of_advice_is_said_once_for_all_places() -> None:
    inventory = rest(5, {"consumers": 10}, instances_per_host=2)
    said = difference(make_plan(inventory), make_plan(inventory, "documented"), "measured", "documented")
    assert said.count("consumer.receive.buffer.bytes") == 1
    assert "rest[1-5] kafka_rest@[8082-8083]\n    kafka-rest.properties  consumer.receive" in said
    assert "measured: is without -XX:G1HeapRegionSize=16M" in said
    assert "measured: http://HOST:INSTANCE" in said
    assert difference(make_plan(inventory), make_plan(inventory), "a", "b") == "a and b are the same plan"


def test_the_text_says_of_like_instances_that_they_are_alike() -> None:
    plan = make_plan(rest(3, {"consumers": 10}, instances_per_host=2))
    said = text(plan)
    assert "rest2  kafka_rest@[8082-8083]  as rest1 kafka_rest@8082" in said
    assert said.count("consumer.threads=50") == 1
    assert text(plan, full=True).count("consumer.threads=50") == 6
    assert max(len(line) for line in said.splitlines() if line.startswith("        ")) <= 110


def test_the_text_says_each_file_once_above_its_settings() -> None:
    lines = text(make_plan(rest(1, {"consumers": 10}, instances_per_host=1))).splitlines()
    (place,) = (at for at, line in enumerate(lines) if line == "  /etc/kafka-rest/8082/kafka-rest.properties")
    (own,) = (at for at, line in enumerate(lines) if line == "    consumer.threads=50")
    assert place < own
    assert not [line for line in lines[place + 1 : own] if line.startswith("  /")]


def test_the_text_says_a_reason_once_for_settings_in_a_row_that_share_it() -> None:
    said = text(make_plan(rest(1, {"consumers": 10})))
    assert (
        "    rootLogger.appenderRef.file.ref=file\n    rootLogger.appenderRef.stdout.ref=STDOUT\n    logger."
        in said
    )


@pytest.mark.parametrize("name", ["example", "mapr", "local"])
def test_an_inventory_of_the_kit_plans_without_error_or_warning(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = REPOSITORY / "inventories" / name
    assert main(["--inventory", str(path), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    # The example has a placeholder where a person's own hosts, archive and its checksum belong.
    others = [f for f in document["findings"] if f["rule"] not in ("inventory.archive", "inventory.example")]
    assert {f["severity"] for f in others} <= {"note"}
    rows = [
        s
        for host in document["hosts"].values()
        for service in host["services"].values()
        for i in service["instances"]
        for s in i["settings"]
    ]
    assert len(rows) > 50
    assert all(s["rule"] and s["because"] and s["source"] for s in rows)


def test_advice_can_be_overridden_for_one_plan() -> None:
    inventory = rest(1, common={"advice": "documented"})
    assert planned(inventory, "consumer.instance.timeout.ms") == "300000"
    measured = make_plan(inventory, "measured").services["rest1"]["kafka_rest"][0]
    assert measured.value("consumer.instance.timeout.ms") == "30000"


def test_findings_and_hosts_are_named_in_the_order_of_their_numbers() -> None:
    mixed = ["rest10", "rest2", "rest1"]
    plan = make_plan(rest(mixed, common={"host_tuning_settings": {"net.ipv4.tcp_fack": 1}}))
    assert list(plan.services) == ["rest1", "rest2", "rest10"]
    assert of_rule(plan, "host.dropped")[0].where.startswith("rest[1-2], rest10 ")
    many = make_plan(rest([f"rest{n}" for n in range(12, 0, -1)], cores=8))
    assert of_rule(many, "rest.cores")[0].where.startswith("rest[1-12] ")


def together(workload: dict[str, Any], partitions: int, memory_mib: int, cores: int) -> Inventory:
    """Return an inventory whose hosts a and b each run REST proxies, mirrors and a Streams application."""
    names = ["a", "b"]
    kinds = [
        rest(names, workload),
        mirrors(names, {"largest_topic_partitions": partitions}),
        streams(names),
    ]
    variables: dict[str, Any] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for kind in kinds:
        variables |= kind.hosts["a"]
        groups |= kind.groups
    # The article: as many processes as partitions, whatever the cores.
    variables |= {"advice": "documented", "host_memory_mib": memory_mib, "host_cores": cores}
    return Inventory(dict.fromkeys(names, variables), groups)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(workloads, st.integers(1, 40), st.integers(1024, 131_072), st.sampled_from([2, 16, 64]))
def test_several_roles_on_one_host_share_its_memory_and_ports_or_the_plan_says_no(
    workload: dict[str, Any], partitions: int, memory_mib: int, cores: int
) -> None:
    plan = make_plan(together(workload, partitions, memory_mib, cores))
    too_small = False
    for of_host in plan.services.values():
        assert of_host.keys() >= {"kafka_rest", "streams_app"}
        instances = [i for of_service in of_host.values() for i in of_service]
        too_small |= sum(map(needed_mib, instances)) > memory_mib
        ports = [i.port for i in instances if i.port]
        assert len(ports) == len(set(ports))
    assert too_small <= bool(of_rule(plan, "host.memory", "error"))
    placed = [i for of_host in plan.services.values() for i in of_host.get("mirror_maker", ())]
    assert len(placed) == len({i.name for i in placed}) == partitions
