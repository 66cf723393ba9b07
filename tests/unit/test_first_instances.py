"""What instances that went first are held against, and how they go back."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import way_back

from plugins.modules import kedge_instance
from plugins.modules.haproxy_compare import count, worse
from tests.instance_units import instance_unit


def server(requests: int, failed: int = 0, answer_ms: int = 5) -> dict[str, int]:
    return {"requests": requests, "failed": failed, "answer_ms": answer_ms}


BEFORE = {"a:1": server(1000), "b:1": server(1000), "c:1": server(1000)}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"a:1": server(1500), "b:1": server(1500), "c:1": server(1500)}, None),
        # One percent of failures is no matter, two are.
        ({"a:1": server(1500, failed=5), "b:1": server(1500), "c:1": server(1500)}, None),
        (
            {"a:1": server(1500, failed=10), "b:1": server(1500), "c:1": server(1500)},
            "2.0 percent of its requests",
        ),
        # All are as bad: it is not the release.
        (
            {"a:1": server(1500, failed=50), "b:1": server(1500, failed=50), "c:1": server(1500, failed=40)},
            None,
        ),
        ({"a:1": server(1500, answer_ms=19), "b:1": server(1500), "c:1": server(1500)}, None),
        (
            {"a:1": server(1500, answer_ms=21), "b:1": server(1500), "c:1": server(1500)},
            "it answers in 21 ms",
        ),
        # Nobody asked it, and so nothing is known.
        ({"a:1": server(1000, answer_ms=99), "b:1": server(1500), "c:1": server(1500)}, None),
    ],
)
def test_who_went_first_is_held_against_those_not_yet_changed(now: Any, said: str | None) -> None:
    found = worse(["a:1"], BEFORE, now, 100)
    assert found is None if said is None else said in str(found)


def test_a_balancer_that_was_reloaded_meanwhile_counts_from_nothing() -> None:
    now = {"a:1": server(100, failed=50), "b:1": server(100), "c:1": server(100)}
    assert "50.0 percent" in str(worse(["a:1"], BEFORE, now, 100))


def test_failures_are_those_of_connections_and_of_answers() -> None:
    row = {"stot": "10", "rtime": "", "hrsp_5xx": "1", "econ": "2", "eresp": "3"}
    assert count({"a:1": row}) == {"a:1": {"requests": 10, "failed": 6, "answer_ms": 0}}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host without systemd, whose processes are always well."""
    done = subprocess.CompletedProcess((), 0, "", "")
    monkeypatch.setattr(kedge_instance, "act", lambda *_: done)
    monkeypatch.setattr(kedge_instance, "ROOT", tmp_path)
    for module in (kedge_instance, way_back):
        monkeypatch.setattr(module, "systemctl", lambda *_: done)
        monkeypatch.setattr(module, "SYSTEMD", tmp_path)
    monkeypatch.setattr(kedge_instance.InstanceUnit, "put_in_force", lambda *_: None)
    monkeypatch.setattr(kedge_instance.InstanceUnit, "current", lambda _: "new")
    for name in ("old", "new"):
        folder = tmp_path / "kafka-rest" / "8082" / "releases" / name
        folder.mkdir(parents=True)
        (folder / "unit.service").write_text(f"unit of {name}")
    return tmp_path


def instance(state: str, release: str | None) -> kedge_instance.InstanceUnit:
    return instance_unit("8082", release, state=state)


def test_an_instance_goes_back_with_the_unit_of_its_former_release(node: Path) -> None:
    back = instance("back", "old")
    assert back.run() is None
    assert (node / "kafka-rest@.service").read_text() == "unit of old"
    assert (node / "kafka-rest" / "8082" / "running").read_text() == "old\n"
    assert back.former == "new"


def test_a_former_release_that_is_gone_is_said(node: Path) -> None:
    assert "its former release older is no longer there, or has no unit. It keeps" in str(
        instance("back", "older").run()
    )


def test_a_restart_without_a_change_has_no_former_release(node: Path) -> None:
    again = instance("restarted", None)
    assert again.run() is None
    assert again.former is None


def test_an_instance_that_ended_since_it_was_started_does_not_hold(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert instance("held", None).hold() is None
    told = subprocess.CompletedProcess((), 0, "2\n", "")
    monkeypatch.setattr(kedge_instance, "systemctl", lambda *_: told)
    monkeypatch.setattr(kedge_instance.InstanceUnit, "journal", lambda _: "last words")
    assert "started again 2 times" in str(instance("held", None).hold())


def test_instances_start_in_groups_and_none_after_a_group_that_fails() -> None:
    began: list[str] = []
    together = threading.Barrier(2, timeout=10)

    def start(name: str) -> str | None:
        began.append(name)
        together.wait()  # two are under way at the same time
        return "not ready" if name == "8084" else None

    names = [str(port) for port in range(8082, 8090)]
    assert kedge_instance.in_groups(start, names, 2) == [None, None, "not ready", None]
    assert sorted(began) == names[:4]
