"""What a rollout waits for is planned: stop, ready and the gate, each with its rule and reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kedge.deploy.rendering import render
from kedge.plan.document import planned_rollout
from kedge.plan.hosts import Inventory
from kedge.plan.settings import Setting
from kedge.services.planning import make_plan
from tests.planned import mirrors, of_topics, streams
from tests.rest_inventories import of_rule, planned, rest
from tests.unit.test_sizing_broker import brokers

ROOT = Path(__file__).resolve().parents[2]


def rollout(inventory: Inventory, service: str) -> dict[str, Setting]:
    plan = make_plan(inventory)
    (of_host,) = [of for of in plan.rollouts.values() if service in of][:1]
    return {s.key: s for s in of_host[service]}


@pytest.mark.parametrize(
    ("inventory", "service", "ready", "start"),
    [
        (rest(1), "kafka_rest", "150", "32"),
        (mirrors(1, cores=4), "mirror_maker", "120", "8"),
        (streams(1), "streams_app", "120", "4"),
    ],
)
def test_a_rollout_is_planned_with_its_reasons(
    inventory: Inventory, service: str, ready: str, start: str
) -> None:
    found = rollout(inventory, service)
    assert {key: s.value for key, s in found.items()} == {
        "ready_seconds": ready,
        "gate_seconds": "120",
        "gate_max_lag": "10000",
        "start_at_once": start,
    }
    assert all(s.rule.startswith("rollout.") and s.because and s.source for s in found.values())
    assert planned_rollout(make_plan(inventory).to_json(), next(iter(inventory.hosts)), service) == {
        "ready_seconds": int(ready),
        "gate_seconds": 120,
        "gate_max_lag": 10_000,
        "start_at_once": int(start),
    }


def test_a_persons_own_number_wins_and_is_marked() -> None:
    lag = rollout(rest(1, gate_max_lag=7), "kafka_rest")["gate_max_lag"]
    assert (lag.value, lag.by) == ("7", "person")
    assert "the plan would have said 10000" in lag.because


def test_a_host_without_a_service_has_no_rollout() -> None:
    assert make_plan(of_topics({"partitions": 1})).rollouts == {}


@pytest.mark.parametrize(
    ("service", "inventory", "seconds"),
    [
        ("kafka_rest", rest(1), "60"),
        ("kafka_rest", rest(1, stop_seconds=90), "90"),
        ("rest_balancer", rest(1, groups={"rest_balancer": ("lb1",)}), "65"),
        ("mirror_maker", mirrors(1), "120"),
        ("streams_app", streams(1), "120"),
        ("kafka_broker", brokers(["b1"]), "180"),
    ],
)
def test_how_long_an_instance_may_stop_is_planned_for_its_unit(
    service: str, inventory: Inventory, seconds: str
) -> None:
    (of_host,) = [of[service] for of in make_plan(inventory).services.values() if service in of]
    for one in of_host:
        (stop,) = [s for s in one.settings if s.key == "TimeoutStopSec"]
        assert (stop.value, stop.rule) == (seconds, "rollout.stop")
        unit = f"{service.replace('_', '-')}@{one.name}.service"
        assert stop.file == f"/etc/systemd/system/{unit}.d/10-kedge.conf"


def test_a_balancer_is_asked_to_let_requests_end_and_a_jvm_to_end() -> None:
    units = yaml.safe_load((ROOT / "roles/rest_balancer/vars/main.yml").read_text())
    own = render("service.j2", unit="rest-balancer", user="u", **units["_rest_balancer_unit"])
    assert re.findall(r"^Kill.*", own, re.M) == ["KillSignal=SIGUSR1", "KillMode=mixed"]
    jvm = render("service.j2", unit="u", user="u", description="d", exec_start="/bin/true")
    assert re.findall(r"^Kill.*|^SuccessExitStatus.*", jvm, re.M) == ["SuccessExitStatus=143"]
    others = {path.parts[-3] for path in ROOT.glob("roles/*/*/*.yml") if "kill_signal" in path.read_text()}
    assert others == {"canary", "rest_balancer"}, "a canary tells its loads itself that they may end"


def test_no_unit_template_or_role_holds_a_limit_of_its_own() -> None:
    assert not re.search(
        r"^(TimeoutStopSec|LimitNOFILE|MemoryMax)=", (ROOT / "templates/service.j2").read_text(), re.M
    )
    for path in sorted(ROOT.glob("roles/*/defaults/main.yml")):
        assert not re.search(r"_(ready|stop|gate)_(seconds|max_lag): \d", path.read_text()), path


@pytest.mark.parametrize(
    "settings",
    [{"JMX_PORT": 9999}, {"KAFKAREST_JMX_OPTS": "-Dcom.sun.management.jmxremote.port=9999"}],
)
def test_one_port_of_jmx_for_several_instances_of_a_host_is_an_error(settings: dict[str, object]) -> None:
    (error,) = of_rule(make_plan(rest(1, instances_per_host=2, settings=settings)), "inventory.jmx", "error")
    assert (
        "JMX on port 9999 of rest1 is wanted by kafka_rest@8082 of rest1 and kafka_rest@8083" in error.message
    )
    assert "take JMX_PORT out" in error.fix
    assert not of_rule(make_plan(rest(2, instances_per_host=1, settings=settings)), "inventory.jmx")


def test_one_port_of_jmx_for_several_mirror_processes_of_a_host_is_an_error() -> None:
    inventory = mirrors(1, flow={"environment": {"JMX_PORT": 9999}, "processes": 2})
    assert of_rule(make_plan(inventory), "inventory.jmx", "error")


def test_single_records_are_not_held_back_where_the_client_would() -> None:
    one = {"records_per_request": 1}
    assert planned(rest(1, workload=one), "producer.linger.ms") == "0"
    assert planned(rest(1), "producer.linger.ms") == ""
    assert (
        planned(rest(1, workload=one, version="7.9.1"), "producer.linger.ms") == ""
    )  # its client lingers not
    assert planned(rest(1, workload=one, common={"advice": "documented"}), "producer.linger.ms") == ""


@pytest.mark.parametrize(("partitions", "bounded"), [(1, False), (12, True)])
def test_buffers_outside_the_heap_are_bounded_where_readers_hold_many(partitions: int, bounded: bool) -> None:
    workload = {"consumers": 60, "partitions": partitions}
    flags = planned(rest(1, workload=workload), "KAFKAREST_JVM_PERFORMANCE_OPTS")
    assert ("-Djdk.nio.maxCachedBufferSize=262144" in flags) is bounded
    documented = rest(1, workload=workload, common={"advice": "documented"})
    assert "maxCachedBufferSize" not in planned(documented, "KAFKAREST_JVM_PERFORMANCE_OPTS")
