"""Whose drain it is: nobody puts back what somebody else took out. Each on a real HAProxy."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from kedge.deploy.playbook_run import VARIABLE, ended, run_id
from plugins.module_utils import haproxy, service_control
from plugins.module_utils.drain_record import read
from plugins.module_utils.haproxy import ask, taken_out
from plugins.modules import haproxy_drain
from tests.awaiting import await_that
from tests.kafka.modules import run_module
from tests.unit.test_runbook import Balancer, balancer

pytestmark = pytest.mark.process

__all__ = ["balancer"]  # the fixture
FIRST, SECOND = "rest/rest1:8082", "rest/rest1:8083"
MINE, OTHER = (
    {"id": run_id(pid), "who": who, "playbook": "deploy.yml"}
    for pid, who in ((os.getpid(), "ann@ctl"), (os.getppid(), "ben@ctl"))
)
OVER = [OTHER["id"]]
HAND: dict[str, str] = {}
Drains = Callable[..., dict[str, Any]]


class AnsweredError(Exception):
    """What a module answers, which ends it."""


def gone_run() -> str:
    """Return the id of a run of this machine whose process has ended."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        return run_id(process.pid)


def is_stopped(pid: int) -> bool:
    """Return whether a stop has reached all threads of a process: until then one may still answer."""
    threads = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(thread.rpartition(")")[2].split()[0] == "T" for thread in threads)


@pytest.fixture
def does(balancer: Balancer, tmp_path: Path) -> Drains:
    """Return what calls the module for a run, with its record in the test's folder."""

    def call(run: dict[str, str], server: str, state: str, **more: Any) -> dict[str, Any]:
        wanted = {
            "socket": balancer.socket,
            "server": server,
            "state": state,
            "root": str(tmp_path),
            "run": run,
        }
        defaults = {name: has.get("default") for name, has in haproxy_drain.ARGUMENTS.items()}
        warnings: list[str] = []

        def answered(**said: Any) -> NoReturn:
            raise AnsweredError({"failed": False, "warnings": warnings, **said})

        module = SimpleNamespace(
            params=defaults | {"seconds": 5} | wanted | more, check_mode=False, warn=warnings.append,
            exit_json=answered, fail_json=functools.partial(answered, failed=True),
        )  # fmt: skip
        with pytest.raises(AnsweredError) as found:
            haproxy_drain.play(module)
        return dict(found.value.args[0])

    return call


def test_a_second_run_leaves_what_a_first_one_drained_and_says_who(balancer: Balancer, does: Drains) -> None:
    assert not does(MINE, FIRST, "drain")["failed"]
    put_back = does(OTHER, "rest/*", "ready")
    assert put_back["servers"] == []
    assert list(put_back["left"]) == ["rest1:8082"]
    (warning,) = put_back["warnings"]
    assert warning.startswith(
        "rest1:8082 stays out at the balancer: taken out by ann@ctl (deploy.yml, since "
    )
    refused = does(OTHER, SECOND, "drain")
    assert refused["failed"]
    assert (
        "Refusing to drain rest1:8083: rest1:8082 was taken out by ann@ctl (deploy.yml, since"
        in refused["msg"]
    )
    assert (
        "UTC, still running). Nothing was stopped, and rest1:8083 serves. Wait until that one has ended"
        in refused["msg"]
    )
    # The same server is not drained twice either, and not put back after a refusal.
    assert "it was taken out by ann@ctl" in does(OTHER, FIRST, "drain")["msg"]
    assert not does(OTHER, FIRST, "ready")["changed"]
    assert balancer.status("rest1:8082") == "MAINT"
    assert does(MINE, FIRST, "ready")["changed"]
    assert balancer.status("rest1:8082") == "UP"


def test_of_two_drains_together_one_is_refused(balancer: Balancer, does: Drains) -> None:
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda server: does(MINE, server, "drain"), (FIRST, SECOND)))
    assert sorted(answer["failed"] for answer in answers) == [False, True], answers
    statuses = [balancer.status(name) for name in ("rest1:8082", "rest1:8083")]
    assert sorted(statuses) == ["MAINT", "UP"]


def test_what_a_killed_run_left_is_put_back_and_its_drain_taken_over(
    balancer: Balancer, does: Drains
) -> None:
    does(OTHER, FIRST, "drain")
    assert not does(MINE, FIRST, "drain", ended=OVER)["failed"]
    assert does(MINE, FIRST, "ready")["changed"]
    does(OTHER, FIRST, "drain", ended=[MINE["id"]])
    refused = does(MINE, SECOND, "drain", ended=OVER)
    assert "rest1:8082 was taken out by ben@ctl (deploy.yml, since" in refused["msg"]
    assert "which has ended). Nothing was stopped, and rest1:8083 serves. Run deploy.yml" in refused["msg"]
    assert does(MINE, "rest/*", "ready", ended=OVER)["servers"] == ["rest1:8082"]
    await_that(lambda: balancer.status("rest1:8082").startswith("UP"), "it serves again")


def test_a_task_knows_that_a_run_of_its_machine_has_ended(
    balancer: Balancer, does: Drains, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Runs the module as a playbook does, through its action."""
    does({**OTHER, "id": gone_run()}, FIRST, "drain")
    monkeypatch.setenv(VARIABLE, json.dumps(MINE))
    wanted = {"socket": balancer.socket, "server": "rest/*", "state": "ready", "root": str(tmp_path)}
    answer = run_module("haproxy_drain", wanted)
    assert (answer["changed"], answer["servers"], answer["left"]) == (True, ["rest1:8082"], {}), answer
    assert taken_out(balancer.socket, "rest") == {}


@pytest.mark.parametrize("state", ["maint", "drain"])
def test_what_somebody_drained_by_hand_is_out_as_before_when_a_deploy_has_restarted_it(
    balancer: Balancer, does: Drains, state: str
) -> None:
    ask(balancer.socket, f"set server {FIRST} state {state}")
    assert does(OTHER, "rest/*", "ready")["servers"] == []
    assert not does(OTHER, FIRST, "drain")["failed"]
    assert taken_out(balancer.socket, "rest") == {"rest1:8082": "maint"}
    # Killed here: the next one restores what somebody wanted.
    does(MINE, "rest/*", "ready", ended=OVER)
    assert taken_out(balancer.socket, "rest") == {"rest1:8082": state}
    assert not does(MINE, FIRST, "drain", ended=OVER)["failed"]
    assert not does(MINE, FIRST, "ready")["failed"]
    assert taken_out(balancer.socket, "rest") == {"rest1:8082": state}
    refused = does(MINE, SECOND, "drain")
    assert "rest1:8082 was taken out by hand, not by Kedge. Nothing was stopped" in refused["msg"]
    # By hand, one is put back that is named.
    assert does(HAND, "rest/*", "ready")["servers"] == []
    assert does(HAND, FIRST, "ready")["changed"]
    assert taken_out(balancer.socket, "rest") == {}


def test_a_server_that_is_drained_and_down_is_left_out_too(balancer: Balancer, does: Drains) -> None:
    balancer.proxies[0].well = False
    ask(balancer.socket, f"set server {FIRST} state drain")
    await_that(lambda: balancer.status("rest1:8082").startswith("DOWN"), "its check has failed")
    assert does(MINE, "rest/*", "ready")["left"] == {"rest1:8082": "taken out by hand, not by Kedge"}


def test_a_record_is_dropped_when_its_server_is_in_rotation_again(
    balancer: Balancer, does: Drains, tmp_path: Path
) -> None:
    record = tmp_path / "rest-balancer" / "drained.json"
    does(MINE, FIRST, "drain")
    assert record.stat().st_mode & 0o022 == 0
    assert list(read(record)) == [FIRST]
    ask(balancer.socket, f"set server {FIRST} state ready")
    await_that(lambda: balancer.status("rest1:8082") == "UP", "somebody put it back")
    does(MINE, SECOND, "drain")
    assert list(read(record)) == [SECOND]


def test_nobody_by_hand_puts_back_what_a_run_has_out(balancer: Balancer, does: Drains) -> None:
    does(MINE, FIRST, "drain")
    refused = does(HAND, FIRST, "ready")
    assert refused["failed"]
    assert "Refusing to put back rest1:8082: it was taken out by ann@ctl" in refused["msg"]
    assert balancer.status("rest1:8082") == "MAINT"


def test_a_balancer_that_another_run_holds_is_not_drained_though_all_its_servers_are_up(
    balancer: Balancer, does: Drains
) -> None:
    does(OTHER, FIRST, "drain")
    does(OTHER, FIRST, "ready")
    refused = does(MINE, SECOND, "drain")
    assert (
        "Refusing to drain rest1:8083: rest_balancer is held by ben@ctl (deploy.yml, since" in refused["msg"]
    )
    assert balancer.status("rest1:8083") == "UP"


@pytest.mark.parametrize("state", ["drain", "ready"])
def test_a_balancer_that_hangs_ends_the_task_with_what_to_do(
    balancer: Balancer, does: Drains, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr("ansible.module_utils.haproxy.ANSWER_SECONDS", 1)
    does(MINE, FIRST, "drain")
    os.kill(balancer.pid, signal.SIGSTOP)
    try:
        await_that(lambda: is_stopped(balancer.pid), "the balancer has stopped")
        hangs = does(MINE, FIRST, state)
    finally:
        os.kill(balancer.pid, signal.SIGCONT)
    assert hangs["failed"]
    assert "no answer within 1 s: HAProxy does not answer. rest/rest1:8082 was not stopped" in hangs["msg"]
    assert "restart it if it hangs, then run deploy.yml, which puts back what was drained" in hangs["msg"]
    # The lock is free again, and what was drained is known.
    assert does(MINE, "rest/*", "ready")["servers"] == ["rest1:8082"]


def test_a_balancer_that_answers_without_end_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(haproxy, "ANSWER_SECONDS", 1)
    with (
        socket.create_server(str(tmp_path / "s"), family=socket.AF_UNIX) as server,
        ThreadPoolExecutor() as pool,
    ):

        def answers() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                while True:
                    connection.sendall(b"x" * 1000)

        talking = pool.submit(answers)
        with pytest.raises(OSError, match=r"no answer within 1 s|answers with more than"):
            ask(str(tmp_path / "s"), "show stat")
        talking.result()


def test_a_program_of_the_host_that_hangs_is_named() -> None:
    with pytest.raises(
        TimeoutError, match=r"^`sleep 60` did not end within 0.1 s on this host, and nothing was done"
    ):
        service_control.run("sleep", "60", seconds=0.1)


def test_a_run_is_over_when_its_process_is_and_of_another_machine_nobody_knows() -> None:
    assert ended(gone_run())
    assert not ended(run_id(os.getpid()))
    assert not ended("0123456789ab.1.1")
    assert not ended("; rm")
