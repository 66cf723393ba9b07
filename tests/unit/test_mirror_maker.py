"""When a mirror counts as ready, what its restart waits for, and how far MirrorMaker 2 has come."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils import releases, way_back
from confluent_kafka.admin import OffsetSpec

from kedge.deploy.mirror_positions import mirror_lag, parse_position
from kedge.plan.hosts import Inventory
from kedge.services.mirror.probe import mirror_gate, mirror_probe
from kedge.services.mirror.topics_and_groups import flow_facts
from kedge.services.planning import make_plan
from plugins.module_utils.journal import missing_step
from plugins.modules import kedge_instance
from tests.instance_units import instance_unit
from tests.planned import instances, mirrors

MM2 = {"kind": "mirror_maker_2", "version": "4.3.1"}
LOGINS = {name: {"sasl.password": f"planted-{name}"} for name in ("leaf", "agg")}
ASSIGNED = "INFO ConsumerRebalanceListenerInvoker: Adding newly assigned partitions: metrics-0"
COMMITTED = "TRACE MirrorMaker$: Committing offsets."


def first_process(inventory: Inventory) -> dict[str, Any]:
    instance = instances(make_plan(inventory), "mirror_maker")["mm1"][0]
    return {"name": instance.name, "settings": [asdict(s) for s in instance.settings]}


def plan_of(inventory: Inventory) -> dict[str, Any]:
    flows = {name: asdict(facts) for name, facts in flow_facts(inventory).items()}
    clusters = {
        name: {"bootstrap_servers": f"{name}:9092", "client": {"client.id": f"to {name}"}}
        for name in ("leaf", "agg")
    }
    return {"flows": flows, "clusters": clusters}


@pytest.mark.parametrize(
    ("printed", "missing"),
    [
        ([], "has partitions assigned"),
        ([COMMITTED], "has partitions assigned"),
        ([COMMITTED, ASSIGNED], "commits what the target has acknowledged"),
        ([ASSIGNED, COMMITTED], None),
    ],
)
def test_a_classic_process_is_ready_when_it_commits_after_it_has_partitions(
    printed: list[str], missing: str | None
) -> None:
    steps = mirror_probe(first_process(mirrors(1)))["steps"]
    found = missing_step("\n".join(printed), steps)
    assert found == (missing and f"nothing in the journal says that it {missing}")


@pytest.mark.parametrize(
    ("committed", "ready"),
    [
        ("Committing offsets for 0 acknowledged messages", False),
        ("Committing offsets for 12 acknowledged messages", True),
        ("Either no records were produced by the task since the last offset commit", True),
    ],
)
def test_a_worker_of_mirror_maker_2_whose_target_does_not_answer_is_not_ready(
    committed: str, ready: bool
) -> None:
    task = "WorkerSourceTask{id=MirrorSourceConnector-3} "
    printed = f"{task}Source task finished initialization and start\n{task}{committed}"
    assert (missing_step(printed, mirror_probe(first_process(mirrors(1, **MM2)))["steps"]) is None) == ready


def test_a_classic_restart_waits_for_the_flows_group_on_the_source_from_commit_to_commit() -> None:
    inventory = mirrors(1, {"latency_budget_ms": 5000}, common={"advice": "measured"})
    assert mirror_gate(first_process(inventory), plan_of(inventory), LOGINS) == {
        "bootstrap_servers": "leaf:9092",
        "client": {"client.id": "to leaf"},
        "secrets": LOGINS["leaf"],
        "groups": ["mirror-maker-metrics"],
        "commit_ms": 5000,
    }


def test_a_restart_of_mirror_maker_2_waits_for_the_offsets_that_it_keeps_on_the_target() -> None:
    inventory = mirrors(1, **MM2)
    gate = mirror_gate(first_process(inventory), plan_of(inventory), LOGINS)
    assert gate["bootstrap_servers"] == "leaf:9092"
    assert gate["positions"] == {
        "flow": "metrics",
        "topic": "mm2-offsets.metrics.internal",
        "topics": ("metrics[.].*",),
        "bootstrap_servers": "agg:9092",
        "client": {"client.id": "to agg"},
    }
    # Each cluster is asked with its own login, and a module prints neither.
    assert (gate["secrets"], gate["positions_secrets"]) == (LOGINS["leaf"], LOGINS["agg"])


CLASSIC_UNIT = "ExecStart=/usr/bin/java -cp /etc/mirror-maker/%i/dist/* kafka.tools.MirrorMaker"


@pytest.mark.parametrize(
    ("foreign", "said", "is_back"),
    [
        ("", "the previous release old is back and running", True),
        ("org.apache.kafka.connect.mirror.MirrorMaker", "the previous release old is back", True),
        ("kafka.tools.MirrorMaker", "runs kafka.tools.MirrorMaker, which must not run beside this", False),
    ],
)
def test_a_failed_move_does_not_bring_the_other_kind_back_beside_those_that_have_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, foreign: str, said: str, is_back: bool
) -> None:
    done = SimpleNamespace(returncode=0, stdout="", stderr="")
    for module in (kedge_instance, way_back):
        monkeypatch.setattr(module, "systemctl", lambda *_: done)
        monkeypatch.setattr(module, "act", lambda *_: done)
    for module in (kedge_instance, releases):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(way_back, "SYSTEMD", tmp_path / "systemd")
    home = tmp_path / "mirror-maker" / "metrics-0"
    (home / "releases" / "old").mkdir(parents=True)
    (tmp_path / "systemd").mkdir()
    (home / "releases" / "old" / "unit.service").write_text(CLASSIC_UNIT)
    (home / "good").write_text("old\n")
    instance = instance_unit("metrics-0", "new", unit="mirror-maker", service="mirror_maker", foreign=foreign)
    monkeypatch.setattr(instance, "put_in_force", lambda _: None)
    assert said in way_back.go_back(instance, "new", gently=False)
    assert (tmp_path / "systemd" / "mirror-maker@.service").exists() == is_back


def offset_record(connector: str, offset: object) -> tuple[bytes, bytes]:
    where = {"cluster": "leaf", "topic": "metrics.a", "partition": 4}
    return json.dumps([connector, where]).encode(), json.dumps(offset).encode()


def test_a_position_is_the_record_after_the_last_that_was_copied() -> None:
    assert parse_position(*offset_record("MirrorSourceConnector", {"offset": 41})) == {("metrics.a", 4): 42}


def test_other_connectors_and_tombstones_are_no_positions() -> None:
    key, value = offset_record("MirrorHeartbeatConnector", {"offset": 41})
    assert parse_position(key, value) == {}
    assert parse_position(key, None) == {}
    assert parse_position(*offset_record("MirrorSourceConnector", None)) == {}


class SourceDouble:
    """Stands in for an admin client: two partitions of metrics.a hold 10 to 100, one of logs.a as well."""

    def list_topics(self, timeout: float) -> Any:
        partitions = {"metrics.a": {0: None, 1: None}, "logs.a": {0: None}}
        return SimpleNamespace(topics={n: SimpleNamespace(partitions=p) for n, p in partitions.items()})

    def list_offsets(self, asked: dict[Any, Any]) -> dict[Any, Future[Any]]:
        answers = {}
        for partition, spec in asked.items():
            answers[partition] = Future[Any]()
            latest = isinstance(spec, type(OffsetSpec.latest()))
            answers[partition].set_result(SimpleNamespace(offset=100 if latest else 10))
        return answers


def test_lag_is_what_the_flows_topics_have_behind_their_positions() -> None:
    assert mirror_lag(SourceDouble(), {("metrics.a", 0): 70}, ["metrics[.].*"], 1) == 30 + 90
    assert (
        mirror_lag(SourceDouble(), {("metrics.a", 0): 100, ("metrics.a", 1): 100}, ["metrics[.].*"], 1) == 0
    )


def test_records_that_retention_took_are_no_lag() -> None:
    assert mirror_lag(SourceDouble(), {("logs.a", 0): 3}, ["logs[.].*"], 1) == 90


def test_a_flow_without_topics_has_no_lag() -> None:
    assert mirror_lag(SourceDouble(), {}, ["none"], 1) == 0
