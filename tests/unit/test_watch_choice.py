"""What a watch looks at: of the inventory, of what a cluster has, and what it leaves out."""

from __future__ import annotations

import json
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kedge.deploy.watch_spec import watch_seconds, watch_spec
from kedge.evidence.watch_options import WatchedCluster, WatchError, WatchOptions, WatchSpec, read_watch
from verify.process import SteadyClock
from verify.watch.choice import Choice, Described, choose
from verify.watch.traffic import choice_of, chosen_of

TOPICS = {"orders": 4, "clicks": 4, "app-store-changelog": 2, "other": 9, "__consumer_offsets": 50, "mine": 4}


def cluster(**more: Any) -> WatchedCluster:
    given = {
        "bootstrap_servers": "b:9092",
        "topics": ["orders"],
        "own_topics": ["mine"],
        "own_groups": ["own"],
    }
    return WatchedCluster.model_validate(given | more)


def group(*topics: str, at: str = "10.9.9.9") -> Described:
    return Described("classic", frozenset({at}), frozenset(topics))


def chosen(there: dict[str, Described], options: dict[str, Any] | None = None, **more: Any) -> Choice:
    members = {"kafka_rest": ["10.0.0.1"], "mirror_maker": ["10.0.0.2"]}
    return choose(cluster(**more), WatchOptions(**options or {}), members, TOPICS, there, {})


def test_topics_of_the_inventory_and_groups_that_read_them_are_watched() -> None:
    found = chosen({"billing": group("orders"), "unrelated": group("other"), "own": group("mine", "orders")})
    assert found.groups == {"billing": (["orders"], "classic", [])}
    assert found.topics == {"orders": 4}


def test_groups_with_members_on_hosts_of_a_service_are_watched_with_their_topics() -> None:
    found = chosen({"by-rest": group("clicks", at="10.0.0.1"), "elsewhere": group("clicks")})
    assert found.groups == {"by-rest": (["clicks"], "classic", ["kafka_rest"])}
    assert found.topics == {"clicks": 4, "orders": 4}


def test_flows_and_applications_have_their_groups_and_internal_topics_watched() -> None:
    groups = {
        "app": group("app-store-changelog"),
        "flow": group("orders", at="10.0.0.2"),
        "gone": group(),
        "mm2": group("far"),
    }
    found = chosen(groups, groups=["app", "flow"], applications=["app"])
    assert found.groups["app"] == (["app-store-changelog"], "classic", [])
    assert found.groups["flow"][2] == ["mirror_maker"]
    assert found.topics == {"orders": 4, "app-store-changelog": 2}


def test_group_of_which_no_topic_is_watched_is_left_out_and_named() -> None:
    groups = {"named": group(), "fed": group("mine"), "beyond": group("other")}
    found = chosen(groups, {"groups": list(groups), "most_partitions": 8})
    assert found.groups == {}
    assert {one.name: one.why for one in found.left} == {
        "other": "more than 8 partitions (verify.watch.most_partitions)",
        "named": "it has no members and no commits",
        "fed": "none of its topics is watched",
        "beyond": "none of its topics is watched",
    }


def test_what_is_named_comes_first_and_what_is_over_a_bound_is_named() -> None:
    groups = {name: group("orders") for name in ("a", "b", "z")}
    options = {"groups": ["z"], "most_groups": 2, "topics": ["other"], "most_partitions": 13}
    found = chosen(groups, options, topics=["orders", "clicks"])
    assert list(found.groups) == ["z", "a"]
    assert found.topics == {"other": 9, "orders": 4}
    assert [(one.kind, one.name) for one in found.left] == [("group", "b"), ("topic", "clicks")]


def test_kedges_own_load_is_watched_where_it_is_named() -> None:
    found = chosen({"own": group("mine")}, {"groups": ["own"], "topics": ["mine"]})
    assert found.groups == {"own": (["mine"], "classic", [])}
    assert found.topics == {"mine": 4, "orders": 4}


def test_group_that_cannot_be_described_is_named_with_its_reason() -> None:
    why = {"secret": "it cannot be described: Group authorization failed"}
    found = choose(cluster(), WatchOptions(), {}, TOPICS, {}, why)
    assert [tuple(one) for one in found.left] == [("group", "secret", why["secret"])]


def test_spec_has_what_is_planned_and_none_of_the_kits_own_load() -> None:
    plan = {
        "clusters": {"leaf": {"bootstrap_servers": "l:9092"}, "core": {"bootstrap_servers": "c:9092"}},
        "topics": {"leaf": {"orders": {}, "verify": {}}},
        "flows": {"up": {"source": "leaf", "target": "core", "group": "mirror-maker-up"}},
        "applications": {"joins": {"cluster": "core"}},
        "draining": [{"host": "lb1"}],
        "deployed": {"rest1": {"address": "10.0.0.1", "services": ["kafka_rest"]}},
    }
    verify = {
        "cluster": "leaf",
        "kafka": {"topic": "verify"},
        "client": {"client.rack": "r1", "sasl.password": "planted"},
        "watch": {"for_s": 9},
    }
    found = watch_spec(verify, plan, "r")
    assert "planted" not in json.dumps(found)
    leaf, core = found["clusters"]["leaf"], found["clusters"]["core"]
    assert leaf["topics"] == ["orders", "verify"]
    assert (leaf["own_topics"], leaf["own_groups"]) == (["verify"], ["kedge-kafka"])
    assert (leaf["groups"], core["groups"]) == (["mirror-maker-up"], ["joins"])
    assert (leaf["client"], "client" in core) == ({"client.rack": "r1"}, False)
    assert found["members"] == {"kafka_rest": ["10.0.0.1"]}
    assert found["balancers"] == ["lb1"]
    assert watch_seconds(verify, "beyond") == 0
    assert watch_seconds({}, "beyond") == 120


def test_logins_come_by_the_environment_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {
        "run_id": "r",
        "clusters": {"leaf": {"bootstrap_servers": "l:9092", "client": {"sasl.username": "u"}}},
    }
    (tmp_path / "watch.json").write_text(json.dumps(spec))
    monkeypatch.setenv("KEDGE_SECRETS", json.dumps({"clusters": {"leaf": {"sasl.password": "p"}}}))
    assert read_watch(tmp_path).clusters["leaf"].client == {"sasl.username": "u", "sasl.password": "p"}


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "cannot be read"), ("[]", "is no watch.json"), ('{"clusters": {}}', "Field required")],
)
def test_spec_that_is_none_is_one_line(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "watch.json").write_text(text)
    with pytest.raises(WatchError, match=said):
        read_watch(tmp_path)


def test_clock_that_is_set_moves_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock()
    before = clock.now_us()
    real = time.time_ns()
    monkeypatch.setattr("time.time_ns", lambda: real + 3_600_000_000_000)
    assert 0 <= clock.now_us() - before < 60_000_000


class Brokers:
    """Stands in for brokers that refuse to describe one of two groups."""

    def list_topics(self, **_: Any) -> Any:
        return SimpleNamespace(topics={"orders": SimpleNamespace(error=None, partitions={0: None})})

    def list_consumer_groups(self, **_: Any) -> Future[Any]:
        names = [SimpleNamespace(group_id=name) for name in ("open", "secret", "shared", "idle")]
        return answered(SimpleNamespace(valid=names, errors=[]))

    def list_consumer_group_offsets(self, asked: list[Any], **_: Any) -> dict[str, Future[Any]]:
        place = SimpleNamespace(topic="orders", error=None)
        return {one.group_id: answered(SimpleNamespace(topic_partitions=[place])) for one in asked}

    def describe_consumer_groups(self, names: list[str], **_: Any) -> dict[str, Future[Any]]:
        return {name: answered(self.about(name)) for name in names}

    def about(self, name: str) -> Any:
        if name == "secret":
            return KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
        if name == "idle":
            kind, state = SimpleNamespace(name="CLASSIC"), SimpleNamespace(name="EMPTY")
            return SimpleNamespace(state=state, type=kind, members=[])
        place = SimpleNamespace(topic_partitions=[SimpleNamespace(topic="orders")])
        member = SimpleNamespace(host="/10.9.9.9", assignment=place)
        state = SimpleNamespace(name="DEAD" if name == "shared" else "STABLE")
        return SimpleNamespace(state=state, type=SimpleNamespace(name="CONSUMER"), members=[member])


def answered(answer: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
    return future


def test_group_that_may_not_be_described_is_named_and_the_rest_goes_on() -> None:
    spec = WatchSpec(run_id="r", clusters={"leaf": cluster()})
    found = choice_of(spec, cluster(), Brokers(), {})  # type: ignore[arg-type]
    # Who has no members is known by what it committed.
    assert found.groups == {"open": (["orders"], "consumer", []), "idle": (["orders"], "classic", [])}
    whys = {one.name: one.why for one in found.left}
    assert "authorization failed" in whys["secret"].lower()
    assert "share group" in whys["shared"]


def test_what_a_person_named_and_is_not_watched_comes_first_and_of_no_cluster() -> None:
    options = WatchOptions(groups=["secret", "nowhere"], topics=["orders"])
    spec = WatchSpec(run_id="r", options=options, clusters={"leaf": cluster()})
    found = chosen_of(spec, {"leaf": Brokers()})  # type: ignore[dict-item]
    told = [(one["cluster"], one["name"]) for one in found["not_watched"]]
    assert told == [("", "secret"), ("", "nowhere"), ("leaf", "shared")]
    assert {*found["groups"]} == {"open", "idle"}
