"""The decisions of the Ansible modules, without any host."""

from __future__ import annotations

import http.server
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils import journal, releases, way_back

from kedge.plan.document import planned_value
from kedge.services.rest.notices import turning_tls
from plugins.callback import kedge_events
from plugins.filter.kedge import topics_that_may_grow
from plugins.module_utils import haproxy, probes, rest_members
from plugins.module_utils.node_lock import held
from plugins.modules import haproxy_drain, kedge_instance
from tests.answering import JsonHandler, Server
from tests.instance_units import instance_unit


@pytest.fixture
def answering() -> Iterator[dict[str, Any]]:
    """A double of a proxy that answers every produce with what the test puts in ``body`` and ``status``."""
    answer: dict[str, Any] = {"status": 200, "body": {"offsets": [{"partition": 0, "offset": 7}]}}

    class Handler(JsonHandler, http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.asked()
            self.answer(answer["status"], answer["body"])

    with Server(Handler) as server:
        answer["probe"] = {"url": server.url, "topic": "kedge-ready"}
        yield answer


def test_an_instance_that_answers_with_an_offset_is_ready(answering: dict[str, Any]) -> None:
    assert probes.http_produce(answering["probe"]) is None


def test_a_200_with_an_error_inside_is_not_ready(answering: dict[str, Any]) -> None:
    answering["body"] = {"offsets": [{"partition": None, "offset": None, "error_code": 50003, "error": "x"}]}
    assert "50003" in str(probes.http_produce(answering["probe"]))


def test_an_answer_without_offsets_is_not_ready(answering: dict[str, Any]) -> None:
    answering["body"] = {}
    assert probes.http_produce(answering["probe"]) is not None


def test_an_error_status_is_not_ready(answering: dict[str, Any]) -> None:
    answering["status"] = 503
    assert "503" in str(probes.http_produce(answering["probe"]))


class FakeSystemd:
    """A double of systemctl: a unit whose process ends when it is killed and that starts another, or not."""

    def __init__(self, comes_back: bool) -> None:
        self._later = iter(["10", "0", "11"] if comes_back else ["10"])
        self.pid, self._last, self.killed = "10", "11" if comes_back else "0", False

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        if arguments[0] == "is-active":
            self.pid = next(self._later, self._last)
            return subprocess.CompletedProcess(arguments, int(self.pid == "0"), "", "")
        self.killed = self.killed or arguments[0] == "kill"
        return subprocess.CompletedProcess(arguments, 0, f"{self.pid}\n", "")


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_killed_instance_is_ready_when_another_process_is(
    monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    systemd = FakeSystemd(comes_back)
    monkeypatch.setattr(kedge_instance, "systemctl", systemd)
    monkeypatch.setattr("ansible.module_utils.probes.systemctl", systemd)
    monkeypatch.setattr(kedge_instance.InstanceUnit, "journal", lambda _: "last words")
    seen: list[str] = []
    monkeypatch.setitem(kedge_instance.PROBES, "none", lambda _: seen.append(systemd.pid))
    instance = instance_unit("one", None, ready_seconds=5 if comes_back else 0.3)
    wrong = instance.kill()
    assert systemd.killed
    assert [(a["action"], a["ok"]) for a in instance.actions] == [("kill", True), ("ready", comes_back)]
    if comes_back:
        # The old process is no sign of life, however active its unit still looks.
        assert (wrong, seen) == (None, ["11"])
    else:
        assert str(wrong).startswith("killed, and not ready after 0.3 s: its process ended")
        assert "last words" in str(wrong)


def unit_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> kedge_instance.InstanceUnit:
    """A unit whose process runs with the limits of a release, and another release of it."""
    monkeypatch.setattr(kedge_instance, "systemctl", lambda *_: SimpleNamespace(returncode=0))
    for module in (kedge_instance, releases):
        monkeypatch.setattr(module, "ROOT", folder)
    for release, text in (("old", old), ("new", new)):
        path = folder / "u" / "one" / "releases" / release / "systemd" / "10-kedge.conf"
        path.parent.mkdir(parents=True)
        path.write_text(f"[Service]\n{text}\n")
    (folder / "u" / "one" / "started").write_text("old\n")
    return instance_unit("one", "new", unit="u")


@pytest.mark.parametrize(
    ("old", "new", "takes"),
    [
        ("# Why\nMemoryMax=900M", "# Another reason\nMemoryMax=900M", True),
        ("MemoryMax=900M\nTimeoutStopSec=65", "MemoryMax=2G\nTimeoutStopSec=95", True),
        ("User=a", "User=b", False),
        ("LimitNOFILE=100", "LimitNOFILE=infinity", False),
    ],
)
def test_a_process_takes_other_limits_and_reasons_by_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, takes: bool
) -> None:
    monkeypatch.setattr(kedge_instance, "main_pid", lambda _: "1")
    assert unit_with(tmp_path, monkeypatch, old, new).takes("new") is takes


@pytest.mark.parametrize("refused", [False, True])
def test_a_running_process_may_open_more_files_unless_the_host_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    raised: list[tuple[int, int]] = []

    def prlimit(pid: int, _: int, limits: tuple[int, int] | None = None) -> tuple[int, int]:
        assert pid == 4711
        if limits is None:
            return 50, 50
        if refused:
            raise PermissionError
        raised.append(limits)
        return limits

    monkeypatch.setattr(kedge_instance, "main_pid", lambda _: "4711")
    monkeypatch.setattr(kedge_instance.reload.resource, "prlimit", prlimit)
    unit = unit_with(tmp_path, monkeypatch, "LimitNOFILE=50", "LimitNOFILE=80")
    assert unit.takes("new")
    assert raised == []  # asking changes nothing
    assert unit.raise_limits("new") is not refused
    assert raised == ([] if refused else [(80, 80)])


@pytest.mark.parametrize(
    ("running", "changed", "holds"),
    [
        (0, "haproxy.cfg", True),
        (0, "unit.service", False),
        (0, "systemd/10-kedge.conf", False),
        (3, "", False),
    ],
)
def test_a_process_takes_a_release_by_reload_unless_its_unit_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: int, changed: str, holds: bool
) -> None:
    monkeypatch.setattr(kedge_instance, "systemctl", lambda *_: SimpleNamespace(returncode=running))
    for module in (kedge_instance, releases):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    home = tmp_path / "u" / "one"
    for release in ("old", "new"):
        for name in ("haproxy.cfg", "unit.service", "systemd/10-kedge.conf"):
            path = home / "releases" / release / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(release if name == changed else "same")
    (home / "started").write_text("old\n")
    assert instance_unit("one", "new", unit="u").takes("new") is holds


def test_a_release_that_is_put_back_is_asked_as_it_was_when_it_became_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (kedge_instance, releases):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    asked: list[str] = []
    monkeypatch.setitem(kedge_instance.PROBES, "none", lambda probe: asked.append(probe["login"]))
    monkeypatch.setattr(way_back, "SYSTEMD", tmp_path)
    monkeypatch.setattr(kedge_instance.InstanceUnit, "put_in_force", lambda *_: None)
    for module in (kedge_instance, way_back):
        monkeypatch.setattr(module, "systemctl", lambda *a: subprocess.CompletedProcess(a, 0, "", ""))
        monkeypatch.setattr(module, "act", lambda *a: subprocess.CompletedProcess(a, 0, "", ""))

    def instance(login: str) -> Any:
        ready = {"one": {"kind": "none", "login": "mark"}}
        return instance_unit("one", None, unit="u", service="s", ready=ready, secrets={"mark": login})

    for release in ("old", "new"):
        (tmp_path / "u" / "one" / "releases" / release).mkdir(parents=True)
        (tmp_path / "u" / "one" / "releases" / release / "unit.service").write_text("[Service]\n")
    instance("old-login").mark("old")
    assert "is back and running" in way_back.go_back(instance("new-login"), "new", gently=False)
    assert asked == ["old-login"]
    kept = tmp_path / "u" / "one" / "releases" / "old" / kedge_instance.PROBE
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("complaint", "printed_s_ago", "gets_more"),
    [
        (kedge_instance.Starting("nothing listens"), 1, True),
        (kedge_instance.Starting("nothing listens"), kedge_instance.SILENCE_SECONDS + 1, False),
        ("it answers with an error", 1, False),
    ],
)
def test_a_process_that_still_starts_is_not_one_that_failed(
    monkeypatch: pytest.MonkeyPatch, complaint: str, printed_s_ago: int, gets_more: bool
) -> None:
    printed_us = kedge_instance.now_us() - printed_s_ago * 1_000_000
    said = f'{{"__REALTIME_TIMESTAMP": "{printed_us}"}}'
    journals: list[Any] = []

    def printed(*asked: str) -> str:
        journals.append(asked)
        return said

    monkeypatch.setattr(journal, "_journalctl", printed)
    monkeypatch.setattr(kedge_instance, "MOST_TIMES", 10_000)
    monkeypatch.setattr(kedge_instance, "systemctl", lambda *_: SimpleNamespace(returncode=0))
    instance = instance_unit("one", None, ready_seconds=0.2)
    # It becomes ready when its time was up once.
    monkeypatch.setitem(kedge_instance.PROBES, "none", lambda _: None if journals else complaint)
    wrong = instance.wait_ready()
    assert wrong is None if gets_more else wrong == f"not ready after 0.2 s: {complaint}"


def test_a_process_that_starts_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kedge_instance.InstanceUnit, "is_starting", lambda *_: True)
    monkeypatch.setattr(kedge_instance, "systemctl", lambda *_: SimpleNamespace(returncode=0))
    monkeypatch.setitem(kedge_instance.PROBES, "none", lambda _: kedge_instance.Starting("nothing listens"))
    instance = instance_unit("one", None, ready_seconds=0.02)
    assert "nothing listens" in str(instance.wait_ready())


def test_a_port_at_which_nothing_listens_is_a_start_that_goes_on() -> None:
    probe = {"url": "http://127.0.0.1:1", "topic": "t"}
    assert isinstance(probes.http_produce(probe), probes.Starting)
    assert isinstance(probes.kafka({"host": "127.0.0.1", "port": 1}), probes.Starting)


class Consumers(JsonHandler, http.server.BaseHTTPRequestHandler):
    """A double of a proxy that has one consumer, and notes who asked for a deletion."""

    asked_for: list[tuple[str, str | None]]

    def do_DELETE(self) -> None:
        self.asked_for.append((self.path, self.headers["Authorization"]))
        status = 204 if self.path.endswith("/mine") else 404
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_the_members_that_a_proxy_has_are_deleted_and_others_passed_over() -> None:
    Consumers.asked_for = []
    members = [{"group": "g/1", "name": "theirs"}, {"group": "g/1", "name": "mine"}]
    with Server(Consumers) as server:
        probe = {"url": server.url, "user": "kit", "login": "word,role"}
        assert rest_members.delete_members(probe, members) == 1
    paths, logins = zip(*Consumers.asked_for, strict=True)
    assert paths == ("/consumers/g%2F1/instances/theirs", "/consumers/g%2F1/instances/mine")
    assert set(logins) == {"Basic a2l0OndvcmQ="}


def test_a_proxy_that_does_not_answer_is_stopped_all_the_same() -> None:
    assert rest_members.delete_members({"url": "http://127.0.0.1:1"}, [{"group": "g", "name": "n"}]) == 0


def test_members_are_deleted_before_their_clients_are_told_that_the_server_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    did: list[str] = []
    monkeypatch.setattr(haproxy_drain, "change", lambda _, state: did.append(state))
    monkeypatch.setattr(haproxy_drain, "in_flight", lambda *_: 0)
    monkeypatch.setattr(haproxy_drain, "delete_members", lambda probe, _: did.append(probe["url"]))
    members = [{"group": "g", "name": "n"}]
    params = {"socket": "s", "drain_seconds": 1, "seconds": 1, "members": members, "proxy": "http://r:1"}
    haproxy_drain.drain(SimpleNamespace(params=params), "rest1:8082")
    assert did == ["http://r:1", "maint"]


def test_how_long_an_instance_took_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    callback, said = kedge_events.CallbackModule(), list[str]()
    monkeypatch.setattr(callback._display, "display", said.append)
    ready = {"service": "kafka_rest", "instance": "8082", "action": "ready", "ok": True}
    rows = [
        ready | {"started_us": 1_000_000, "ended_us": 13_300_000},
        ready | {"ok": False, "action": "stop", "started_us": 1, "ended_us": 2},
    ]
    host = SimpleNamespace(get_name=lambda: "rest1")
    task = SimpleNamespace(action="kedge_instance")
    callback.v2_runner_on_ok(SimpleNamespace(_result={"kedge_actions": rows}, _host=host, _task=task))
    assert said == ["  kafka_rest 8082 of rest1 ready after 12.3 s"]


def test_a_closed_port_is_no_broker() -> None:
    assert probes.kafka({"host": "127.0.0.1", "port": 1}) is not None


def test_requests_in_flight_are_those_of_all_backends_that_know_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "# pxname,svname,qcur,scur\nrest,a,0,1\nrest,b,0,7\nrest_consumers,a,1,2\nrest,BACKEND,0,9\n"
    monkeypatch.setattr(haproxy, "ask", lambda *_: text)
    assert haproxy.in_flight("socket", "a") == 4


def test_a_process_that_still_learns_could_not_hand_its_table_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, holds in (("0x11", False), ("0x33", True), ("0x1103", True), ("0x0", False)):
        monkeypatch.setattr(haproxy, "ask", lambda *_, f=flags: f"0x55: id=balancer disabled=0 flags={f} x=1")
        assert haproxy.has_learned("socket") is holds


def test_a_value_that_the_plan_lacks_is_named() -> None:
    with pytest.raises(KeyError, match=r"8082 has no bootstrap\.servers"):
        planned_value({"name": "8082", "settings": []}, "bootstrap.servers")


def test_only_topics_whose_keys_may_move_and_those_without_keys_may_grow() -> None:
    leaf = [{"name": "a"}, {"name": "b", "keys_may_move": True}, {"name": "c", "keyed": False}]
    other = {"name": "a", "keys_may_move": True, "cluster": "agg"}
    declared = [*({**topic, "cluster": "leaf"} for topic in leaf), other]
    assert topics_that_may_grow(declared, "leaf") == ["b", "c"]
    assert topics_that_may_grow(declared, "agg") == ["a"]


def test_a_running_instance_whose_tls_would_turn_at_its_port_is_named() -> None:
    plain, closed = {"software": {"tls": False}}, {"software": {"tls": True}}
    runs_plain = {"name": "8082", "active": True, "in_force": ["kafka-rest.properties"]}
    runs_closed = {**runs_plain, "in_force": ["kafka-rest.properties", "listener.pem"]}
    for running, planned, turning in (
        (runs_plain, plain, []),
        (runs_plain, closed, ["8082"]),
        (runs_closed, plain, ["8082"]),
        (runs_closed, closed, []),
        ({**runs_plain, "active": False}, closed, []),
    ):
        assert turning_tls({"instances": [running]}, [{"name": "8082", **planned}]) == turning


UP = {"status": "UP", "scur": "0", "qcur": "0"}


def test_an_instance_is_not_drained_while_another_is_down() -> None:
    servers = {"a:8082": UP, "b:8082": {**UP, "status": "DOWN"}}
    said = str(haproxy_drain.refusal("drain", "a:8082", servers))
    assert "b:8082 is DOWN. Nothing was stopped, and a:8082 serves." in said
    assert "`systemctl status kafka-rest@8082` on b" in said
    assert haproxy_drain.refusal("ready", "a:8082", servers) is None
    assert haproxy_drain.refusal("drain", "a:8082", {"a:8082": UP, "b:8082": UP}) is None


def test_all_servers_of_a_host_are_drained_while_those_of_another_are_up() -> None:
    servers = {"a:8082": UP, "a:8083": {**UP, "status": "MAINT"}, "b:8082": UP}
    assert haproxy_drain.refusal("drain", "a:8082", servers, whole=True) is None
    assert "a:8083 is MAINT" in str(haproxy_drain.refusal("drain", "a:8082", servers))
    down = {**servers, "b:8083": {**UP, "status": "DOWN"}}
    assert "b:8083 is DOWN" in str(haproxy_drain.refusal("drain", "a:8082", down, whole=True))
    alone = {"a:8082": UP, "a:8083": UP, "b:8082": {**UP, "status": "MAINT"}}
    said = str(haproxy_drain.refusal("drain", "a:8082", alone, whole=True))
    assert "no instance of another host is up. Nothing was stopped, and a:8082 serves." in said


def test_a_server_that_is_down_for_long_may_be_drained_as_the_way_out() -> None:
    long = {**UP, "status": "DOWN", "lastchg": "30"}
    brief = {**long, "lastchg": "3"}
    assert haproxy_drain.refusal("drain", "a:8082", {"a:8082": long, "b:8082": long}) is None
    # What has just failed a check may carry requests in a moment, which the other does not.
    assert "b:8082 is DOWN" in str(
        haproxy_drain.refusal("drain", "a:8082", {"a:8082": brief, "b:8082": long})
    )
    assert haproxy_drain.may_come_back("a:8082", {"a:8082": brief, "b:8082": long})
    assert not haproxy_drain.may_come_back("a:8082", {"a:8082": UP, "b:8082": long})


@pytest.mark.parametrize(
    ("status", "seconds", "waited_for"),
    [("DOWN", "3", True), ("DOWN 1/2", "29", True), ("DOWN", "30", False), ("MAINT", "3", False)],
)
def test_only_a_server_that_has_just_failed_its_check_is_waited_for(
    status: str, seconds: str, waited_for: bool
) -> None:
    other = {**UP, "status": status, "lastchg": seconds}
    assert haproxy_drain.may_come_back("a:8082", {"a:8082": UP, "b:8082": other}) is waited_for


def test_a_server_that_the_balancer_does_not_know_is_told() -> None:
    assert "no such server" in str(haproxy_drain.refusal("drain", "c:8082", {"a:8082": UP}))


def test_a_server_that_goes_for_good_needs_no_others() -> None:
    servers = {"a:8082": UP, "b:8082": {**UP, "status": "DOWN"}}
    assert haproxy_drain.refusal("gone", "a:8082", servers) is None
    assert haproxy_drain.refusal("gone", "c:8082", servers) is None


def test_a_server_goes_for_good_only_where_one_that_stays_takes_its_requests() -> None:
    servers = {"a:8082": UP, "a:8083": UP, "b:8082": {**UP, "status": "DOWN"}}
    assert haproxy_drain.carried(servers, ["a:8083", "a:8084"])
    assert not haproxy_drain.carried(servers, ["b:8082"])
    assert not haproxy_drain.carried(servers, ["a:8182"])


def test_a_second_hand_on_the_same_service_waits_and_gives_up_with_the_locks_name(tmp_path: Path) -> None:
    with (
        held("kafka-rest", 0, tmp_path),
        pytest.raises(TimeoutError, match=r"is held by another run.*touched no instance.*lslocks"),
        held("kafka-rest", 0, tmp_path),
    ):
        pytest.fail("two had it at once")
    with held("kafka-rest", 0, tmp_path):
        pass
