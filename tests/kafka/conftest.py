"""A real broker and runs of the load against it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.crashable import CrashableBroker, crashable_broker
from tests.kafka.guarded import GuardedBroker, guarded_broker
from tests.kafka.loads import LoadRun, kill_quietly


@pytest.fixture(scope="session")
def broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashableBroker]:
    with crashable_broker(jars, tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def guarded(jars: Path) -> Iterator[GuardedBroker]:
    with guarded_broker(jars) as running:
        yield running


@pytest.fixture
def topic(broker: CrashableBroker) -> str:
    name = f"t-{uuid.uuid4().hex}"
    broker.create_topic(name, 4)
    return name


@pytest.fixture
def load_run(broker: CrashableBroker, tmp_path: Path) -> Iterator[Callable[..., LoadRun]]:
    """Prepares a run with the given parts of load.json; ends what is left of it after the test."""
    runs: list[LoadRun] = []

    def prepare(**parts: Any) -> LoadRun:
        load = {
            "run_id": f"run-{uuid.uuid4().hex}",
            "cluster": "leaf",
            "bootstrap_servers": broker.bootstrap_servers,
            "warm_up_s": 0.5,
            "min_s": 1,
            "max_s": 60,
            "drain_s": 30,
            **parts,
        }
        runs.append(LoadRun(tmp_path, load))
        return runs[-1]

    yield prepare
    for run in runs:
        kill_quietly(run)
