"""A login that the brokers refuse is one clear line, whoever asks: modules, commands and the load."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kedge.deploy.kafka_admin import admin
from kedge.evidence.load_options import LoadError, LoadSpec
from tests.kafka.guarded import GuardedBroker
from tests.kafka.modules import run_module
from verify.addresses import ClusterAccess
from verify.limits import main as limits
from verify.load.cluster import connect as load_connect
from verify.measure.config import MeasureError
from verify.measure.topics import connect
from verify.watch.topic_growth import KafkaTopic, WatchError

pytestmark = pytest.mark.kafka
MODULES: dict[str, dict[str, Any]] = {
    "kafka_group_gate": {},
    "kafka_replicas_gate": {"brokers": 1, "seconds": 0},
    "kafka_rights_present": {"rights": {}},
    "kafka_topics_present": {"topics": {}},
    "kedge_changelogs": {
        "application": "app",
        "applications": {"app": {"changelogs": {"windowed_ms": 0, "window_ms": 0, "keyed": True}}},
    },
}


def message(module: str, arguments: dict[str, Any]) -> str:
    """What a module says when it fails."""
    told = run_module(module, arguments)
    assert told["failed"], told
    return str(told["msg"])


def raised(call: Any, *arguments: Any) -> str:
    with pytest.raises((LoadError, MeasureError, WatchError)) as caught:
        call(*arguments)
    return str(caught.value)


def test_a_refused_login_is_one_line_and_not_a_cluster_that_does_not_answer(
    guarded: GuardedBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    servers, client = guarded.asks_for_login, guarded.client("planted")
    admin(servers, guarded.client())  # the right password is taken
    where = {"bootstrap_servers": servers, "client": client}
    load = LoadSpec(run_id="r", cluster="leaf", **where)
    monkeypatch.setattr("verify.limits.chosen", lambda _: ClusterAccess("leaf", servers, client))
    with ThreadPoolExecutor() as pool:  # each takes the whole time that brokers have for an answer
        modules = {name: pool.submit(message, name, {**where, **own}) for name, own in MODULES.items()}
        others = {
            "measure": pool.submit(raised, connect, servers, client),
            "load": pool.submit(raised, load_connect, load, "leaf"),
            "watch": pool.submit(raised, KafkaTopic, servers, client, "t"),
        }
        status = limits([])
    said = {name: asked.result() for name, asked in (modules | others).items()}
    said["limits"] = capsys.readouterr().err.strip()
    assert status == 2
    for name, line in said.items():
        assert f"the brokers of {servers} refuse Kedge's client: " in line, name
        assert "Authentication failed" in line, name
        assert "\n" not in line, name
        assert "reachable" not in line, name
        assert "planted" not in line, name
