"""Which instances restart together: as many as the plan allows, and never two of what fails together."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from heapq import heappop as pop
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy.restarts import (
    former_releases,
    reboot_hosts,
    reboot_refusal,
    rollout_ahead,
    rollout_batches,
    rollout_down,
    rollout_refusal,
    rounds,
)
from kedge.plan.hosts import Inventory
from kedge.plan.plan import RestartBatches
from kedge.plan.text import text
from kedge.services.balancer.service import REST_BALANCER
from kedge.services.broker.service import KAFKA_BROKER
from kedge.services.planning import make_plan
from kedge.services.rollout import batches
from plugins.modules.haproxy_drain import refusal
from tests.planned import mirrors, streams
from tests.rest_inventories import of_rule, rest

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")


def restart_batches(inventory: Inventory, service: str = "kafka_rest") -> RestartBatches:
    return make_plan(inventory).restart_batches[service]


def number(found: RestartBatches, key: str) -> int:
    return next(int(s.value) for s in found.settings if s.key == key)


def asked(hosts: int = 8, instances: int = 5, **rollout: Any) -> Inventory:
    return rest(hosts, instances_per_host=instances, common={"rollout": rollout})


def racked(inventory: Inventory, racks: dict[str, str]) -> Inventory:
    hosts = {h: {**of, **({"rack": racks[h]} if h in racks else {})} for h, of in inventory.hosts.items()}
    return replace(inventory, hosts=hosts)


def test_one_instance_restarts_at_a_time_unless_more_are_asked_for() -> None:
    found = restart_batches(rest(4, instances_per_host=10))
    assert number(found, "at_once") == 1
    assert found.batches == (("rest1",), ("rest2",), ("rest3",), ("rest4",))
    assert not found.ahead


@pytest.mark.parametrize(("at_once", "comes_to"), [(2, 2), ("10%", 4), ("auto", 8), ("1%", 1)])
def test_as_many_are_away_as_are_asked_for(at_once: int | str, comes_to: int) -> None:
    found = restart_batches(asked(at_once=at_once, first=0))
    assert number(found, "at_once") == comes_to
    assert Counter(host for batch in found.batches for host in batch) == Counter(
        f"rest{n}" for n in range(1, 9)
    )
    assert max(map(len, found.batches)) == comes_to


def test_no_more_are_away_than_the_others_carry() -> None:
    # 40 instances: 32 carry a quarter more each.
    plan = make_plan(asked(hosts=20, instances=2, at_once=20))
    assert number(plan.restart_batches["kafka_rest"], "at_once") == 8
    (warning,) = of_rule(plan, "rollout.at_once", "warning")
    assert "20 are wanted together, and at most 8 may be unavailable: 32 of 40 instances" in warning.message
    # 8 of 8 hosts are needed for what is produced: one goes all the same, and no second one.
    busy = rest(
        8,
        workload={"records_per_s": 96_000},
        instances_per_host=1,
        cores=2,
        common={"rollout": {"at_once": "auto"}},
    )
    assert number(restart_batches(busy), "at_once") == 1
    half = rest(
        8,
        workload={"records_per_s": 48_000},
        instances_per_host=1,
        cores=2,
        common={"rollout": {"at_once": "auto"}},
    )
    assert number(restart_batches(half), "at_once") == 1  # room for a quarter more: 7 of 8


@pytest.mark.parametrize(("record_bytes", "most"), [(100, 4), (2_500, 2)])
def test_fewer_are_away_the_more_bytes_the_others_carry(record_bytes: int, most: int) -> None:
    busy = rest(
        20,
        workload={"records_per_s": 35_000, "record_bytes": record_bytes},
        instances_per_host=1,
        cores=2,
        common={"rollout": {"at_once": "auto"}},
    )
    assert number(restart_batches(busy), "at_once") == most


def test_who_knows_how_much_more_an_instance_carries_says_so() -> None:
    found = restart_batches(asked(hosts=4, instances=1, at_once="auto", room_percent=100))
    assert number(found, "at_once") == 2
    assert "as the inventory has it" in found.settings[0].because


def test_two_of_a_rack_are_never_away_together() -> None:
    inventory = racked(asked(at_once="auto"), {f"rest{n}": "ab"[n % 2] for n in range(1, 9)})
    found = restart_batches(inventory)
    assert number(found, "at_once") == 2
    for batch in found.batches:
        assert len({found.racks[host] for host in batch}) == len(batch)
    # A rack that is larger than the others does not come last, alone.
    assert batches(dict.fromkeys("abcd", 1), {}, {"b": "x", "c": "x", "d": "x"}, 2) == (
        ("b", "a"),
        ("c",),
        ("d",),
    )


def test_brokers_and_balancers_go_one_at_a_time_whatever_is_asked_for() -> None:
    for service in (KAFKA_BROKER, REST_BALANCER):
        found = service.away(rest(1), {}, 25)
        assert found.most == 1
        assert found.always


def test_no_more_of_an_application_go_than_a_store_has_standbys() -> None:
    inventory = streams(4, common={"rollout": {"at_once": 3}})
    found = restart_batches(inventory, "streams_app")
    assert number(found, "at_once") == 1  # no standby has a copy of a store
    found = restart_batches(streams(8, standbys=2, common={"rollout": {"at_once": 3}}), "streams_app")
    assert number(found, "at_once") <= 2


def test_the_first_instances_go_alone_and_the_others_of_their_host_with_the_rest() -> None:
    found = restart_batches(asked(hosts=4, at_once=2))
    assert dict(found.ahead) == {"rest1": 1}
    assert found.batches == (("rest1", "rest2"), ("rest3", "rest4"))
    assert dict(restart_batches(asked(hosts=4, at_once=2, first=7)).ahead) == {"rest1": 5, "rest2": 2}
    assert restart_batches(rest(3, instances_per_host=1, common={"rollout": {"first": 1}})).batches == (
        ("rest2",),
        ("rest3",),
    )


@pytest.mark.parametrize(
    ("rollout", "said"),
    [
        ({"at_once": 0}, "rollout.at_once"),
        ({"at_once": "many"}, "rollout.at_once"),
        ({"at_once": "0%"}, "rollout.at_once"),
        ({"at_onse": 2}, "rollout.at_onse"),
        ("auto", "rollout"),
    ],
)
def test_a_rollout_that_says_nothing_is_an_error_with_its_place(rollout: Any, said: str) -> None:
    errors = [f for f in make_plan(rest(2, common={"rollout": rollout})).findings if f.severity == "error"]
    assert errors
    assert all(said in f.where for f in errors), errors


def test_a_rollout_that_differs_between_hosts_is_an_error() -> None:
    inventory = asked(hosts=2, at_once=2)
    hosts = {**inventory.hosts, "rest2": {**inventory.hosts["rest2"], "rollout": {"at_once": 1}}}
    errors = [f for f in make_plan(replace(inventory, hosts=hosts)).findings if f.severity == "error"]
    assert [f.where for f in errors] == ["rest2: rollout"]


def test_the_plan_shows_its_batches_and_why() -> None:
    shown = text(make_plan(asked(at_once=4)))
    assert "first   rest1: 8082, before all others" in shown
    assert "batch 2  rest[5-8]: [8082-8086] one after the other" in shown
    found = make_plan(asked(at_once=4)).to_json()["waves"]["kafka_rest"]
    assert found["batches"] == [["rest1", "rest2", "rest3", "rest4"], ["rest5", "rest6", "rest7", "rest8"]]
    assert found["ahead"] == {"rest1": 1}


def test_hosts_that_have_nothing_to_restart_leave_no_gap() -> None:
    plan = make_plan(asked(at_once=2)).to_json()
    due = ["rest3", "rest8", "rest5", "unplanned"]
    assert rollout_ahead(plan, "kafka_rest", due) == {"rest3": 1}
    assert rollout_batches(plan, "kafka_rest", due) == [["rest3", "rest5"], ["rest8"]]
    assert rollout_batches(plan, "kafka_rest", []) == []
    assert rollout_batches(plan, "kafka_broker", due) == []


def test_hosts_that_a_limit_mixed_do_not_restart_together() -> None:
    plan = make_plan(racked(asked(at_once=2), {"rest1": "a", "rest2": "a"})).to_json()
    assert rollout_refusal(plan, "kafka_rest", ["rest1", "rest3"]) == ""
    assert "rack a" in rollout_refusal(plan, "kafka_rest", ["rest1", "rest2"])
    assert "allows 2 at once" in rollout_refusal(plan, "kafka_rest", ["rest1", "rest3", "rest4"])
    assert rollout_refusal(plan, "kafka_rest", ["rest3"], ["rest1"]) == "rest1 stopped answering"


def test_what_a_balancer_has_down_restarts_before_the_batches() -> None:
    plan = make_plan(asked(hosts=3, instances=2)).to_json()
    port = plan["hosts"]["rest2"]["services"]["kafka_rest"]["instances"][1]["port"]
    seen = [{"down": [f"rest2:{port}", "rest9:1"]}, {"down": []}, {"skipped": True}]
    assert rollout_down(plan, "kafka_rest", ["rest1", "rest2", "rest9"], seen) == {"rest2": [str(port)]}
    assert rollout_down(plan, "kafka_rest", ["rest1"], seen) == {}
    assert rollout_down(plan, "mirror_maker", ["rest2"], seen) == {}


NAMES = ["8082", "8083", "8084"]


def rounded(part: str, **more: Any) -> list[dict[str, Any]]:
    given: dict[str, Any] = {"due": None, "gate": {"bootstrap_servers": "k"}, "gates": {}, "staged": {}}
    return rounds([{"name": name, "port": int(name)} for name in NAMES], part, **(given | more))


@pytest.mark.parametrize(
    ("part", "more", "restarted"),
    [
        ("down", {"down": ["8083"]}, ["8083"]),
        ("behind", {"down": ["8083"], "revived": ["8083"]}, ["8082", "8084"]),
        ("all", {"down": ["8083"]}, NAMES),
        ("ahead", {"ahead": 2}, ["8082", "8083"]),
        ("behind", {"ahead": 2}, ["8084"]),
        ("ahead", {"ahead": 1, "due": ["8084"]}, ["8084"]),
        ("behind", {"killed": True}, ["8082"]),
        ("all", {"due": []}, []),
        ("gates", {}, ["8082"]),
        ("gates", {"gates": {"8083": {"groups": ["g"]}}}, NAMES),
        ("ahead", {"ahead": 2, "former": {"8083": "old"}}, ["8083"]),
    ],
)
def test_instances_of_a_host_restart_in_rounds(part: str, more: dict[str, Any], restarted: list[str]) -> None:
    assert [one["name"] for one in rounded(part, **more)] == restarted


def test_a_round_has_the_release_that_was_staged_and_a_gate_of_its_own() -> None:
    staged = {"instances": [{"name": "8082", "release": "new"}]}
    first, second, _ = rounded("all", staged=staged, gates={"8083": {"groups": ["g"]}})
    assert first == {"name": "8082", "port": 8082, "gate": {"bootstrap_servers": "k"}, "release": "new"}
    assert (second["gate"], second["release"]) == ({"groups": ["g"]}, None)
    assert former_releases({"kedge_former_a_8082": "old", "kedge_former_ab_1": "x"}, "a") == {"8082": "old"}
    assert [one["release"] for one in rounded("all", staged=staged, former={"8082": "old"})] == ["old"]


UP, DOWN = {"status": "UP"}, {"status": "MAINT"}


def test_a_balancer_lets_go_of_a_server_of_each_host_that_restarts_and_of_no_other() -> None:
    found = {"a:1": UP, "a:2": UP, "b:1": DOWN, "b:2": UP, "c:1": UP}
    assert refusal("drain", "a:1", found, ["b"]) is None
    assert "b:1 is MAINT" in str(refusal("drain", "a:1", found))
    assert "b:1 is MAINT" in str(refusal("drain", "a:1", found, ["c"]))
    assert "b:2 is MAINT" in str(refusal("drain", "a:1", {**found, "b:2": DOWN}, ["b"]))
    assert "a:2 is MAINT" in str(refusal("drain", "a:1", {**found, "a:2": DOWN}, ["b"]))


def test_batches_take_time_in_proportion_to_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = Counter[int]()
    for hosts in (100, 1000):
        names = [f"h{n}" for n in range(hosts)]
        racks = {name: f"r{n % 20}" for n, name in enumerate(names)}

        def counted(heap: list[Any], hosts: int = hosts) -> Any:
            moves[hosts] += 1
            return pop(heap)

        monkeypatch.setattr("kedge.services.rollout.heapq.heappop", counted)
        found = batches(dict.fromkeys(names, 1), {}, racks, 10)
        monkeypatch.undo()
        assert sum(map(len, found)) == hosts
    assert moves[1000] == 10 * moves[100]


def test_mirrors_restart_together_where_the_others_carry_their_partitions() -> None:
    inventory = mirrors(10, flow={"processes": 20}, common={"rollout": {"at_once": "auto"}})
    assert number(restart_batches(inventory, "mirror_maker"), "at_once") == 4


def hosting(**services: tuple[str, ...]) -> dict[str, Any]:
    """Return a plan of one host, with the names of the instances of each service."""
    of_host = {s: {"instances": [{"name": n} for n in names]} for s, names in services.items()}
    return {"hosts": {"host1": {"services": of_host}}}


def test_a_host_with_a_balancer_and_the_only_broker_is_rebooted_where_both_are_named() -> None:
    plan = hosting(rest_balancer=("haproxy",), kafka_broker=("leaf",))
    for short in ("", "rest_balancer", "kafka_broker", "kafka_rest,kafka_broker"):
        assert "(-e service=rest_balancer,kafka_broker)" in reboot_refusal(plan, "host1", short), short
    assert reboot_refusal(plan, "host1", "rest_balancer,kafka_broker") == ""
    assert reboot_refusal(plan, "host1", "kafka_broker, rest_balancer") == ""


def test_a_host_is_rebooted_where_what_its_clients_miss_is_named() -> None:
    only = hosting(kafka_broker=("leaf",), kafka_rest=("8082",))
    assert "the one broker of leaf (-e service=kafka_broker)" in reboot_refusal(only, "host1", "kafka_rest")
    assert reboot_refusal(only, "host1", "kafka_broker") == ""
    assert reboot_refusal(hosting(kafka_rest=("8082",)), "host1", "") == ""


def test_the_hosts_of_all_named_groups_are_rebooted_once_each() -> None:
    plan = hosting(kafka_rest=("8082",))
    plan["hosts"]["host2"] = plan["hosts"]["host1"]
    plan["hosts"]["idle"] = {"services": {}}
    groups = {"all": ["idle", "host2", "host1"], "a": ["host2", "idle"], "b": ["host1", "host2"]}
    assert reboot_hosts(plan, groups, "all") == ["host1", "host2"]
    assert reboot_hosts(plan, groups, "a") == ["host2"]
    assert reboot_hosts(plan, groups, "a, b") == ["host1", "host2"]
    assert reboot_hosts(plan, groups, "unknown") == []
