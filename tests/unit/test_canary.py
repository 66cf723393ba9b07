"""A canary without a broker: its windows and what makes them unknown, its announcements and pauses."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.evidence.canary import (
    CanaryConfig,
    CanaryError,
    Window,
    announced,
    folders,
    read_config,
    read_result,
    read_window,
    seconds_of,
)
from plugins.module_utils import leases
from tests.canaries import LEVELS, config, verdict, window
from verify.canary import audit, pause, supervisor
from verify.canary.audit import audit_windows, levels_of, result_of
from verify.canary.command import main
from verify.canary.supervisor import Supervisor
from verify.canary.windows import left_behind, note_hole, prune


def test_a_window_whose_audit_was_killed_is_unknown_and_not_audited_for_ever(tmp_path: Path) -> None:
    folder = window(tmp_path, "one")
    (folder / "audit.begun").touch()
    audit_windows(config(tmp_path / "config"), tmp_path, "local[1]", None)
    result = read_result(folder)
    assert result is not None
    assert (result.verdict, "was killed" in result.because[0]) == ("unknown", True)


def test_a_window_that_failed_stays_so_where_another_try_breaks_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_us, statuses = 1_000_000, iter((1, 2))

    def conclude(_auditor: Any, _evidence: str, _slo: str, out: str, **_: Any) -> int:
        Path(out).mkdir(exist_ok=True)
        (Path(out) / "verdicts.json").write_text('{"verdict": "fail", "checks": []}')
        return next(statuses)

    monkeypatch.setattr(audit, "conclude", conclude)
    monkeypatch.setattr(audit, "now_us", lambda: at_us)
    own, folder = config(tmp_path / "c"), window(tmp_path, "a")
    for killed in (False, False, True):
        if killed:
            (folder / "audit.begun").touch()
        audit_windows(own, tmp_path, "local[1]", None)
        at_us += 3600_000_000
        result = read_result(folder)
        assert result is not None
        assert (result.verdict, result.again_us is None) == ("fail", killed)


def test_a_window_whose_topics_could_not_be_read_is_audited_again_within_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_us, tried, away = 1_000_000, [0], True
    verdicts = {"a": "unknown", "b": "unknown", "c": "fail"}  # of latency, which needs no topic

    def conclude(_auditor: Any, evidence: str, _slo: str, out: str, **_: Any) -> int:
        tried[0] += 1
        Path(out).mkdir(exist_ok=True)
        (Path(out) / "verdicts.json").write_text(
            json.dumps({"verdict": verdicts[Path(out).parent.name] if away else "pass", "checks": []})
        )
        if not away:
            (Path(evidence) / "records").mkdir()
            (Path(evidence) / "records" / "_ingest.files").touch()
        return 1

    monkeypatch.setattr(audit, "conclude", conclude)
    monkeypatch.setattr(audit, "now_us", lambda: at_us)
    own, first, second = config(tmp_path / "c"), window(tmp_path, "a"), window(tmp_path, "b")
    (tmp_path / "audit.log").write_text("an earlier session\n")
    for minutes in (0, 0.5, 0.6, 2.1):  # a minute after the first time, two after the second
        at_us += int(minutes * 60_000_000)
        audit_windows(own, tmp_path, "local[1]", None)
    assert tried[0] == 2 * 3
    assert (tmp_path / "audit.log.1").read_text() == "an earlier session\n"
    shutil.rmtree(first / "evidence")
    away = False
    at_us += 3600_000_000
    audit_windows(own, tmp_path, "local[1]", None)
    results = [read_result(folder) for folder in (first, second)]
    assert [result and (result.verdict, result.again_us) for result in results][1] == ("pass", None)
    assert results[0] is not None
    assert (results[0].verdict, tried[0]) == ("unknown", 7)

    away, third = True, window(tmp_path, "c")
    for _ in range(20):
        at_us += 24 * 3600_000_000
        audit_windows(own, tmp_path, "local[1]", None)
    assert tried[0] == 7 + 9
    assert (third / "evidence").exists()


def test_figures_of_the_last_runs_stay_in_the_history(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / "history" / f"run_id={number:03}").mkdir(parents=True)
    audit_windows(config(tmp_path / "c"), tmp_path, "local[1]", None)
    assert sorted(one.name for one in (tmp_path / "history").iterdir())[0] == "run_id=012"


def test_a_configuration_that_is_wrong_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(CanaryError, match=r"canary.yaml cannot be read: No such file.*deploy.yml writes it"):
        read_config(tmp_path)
    with pytest.raises(CanaryError, match="window_s: Input should be greater than 0"):
        config(tmp_path / "c", window_s=0)


def test_verdicts_are_kept_and_evidence_of_windows_that_did_not_pass(tmp_path: Path) -> None:
    passed, failed = window(tmp_path, "a"), window(tmp_path, "b")
    verdict(passed, "pass")
    verdict(failed, "fail")
    prune(tmp_path, config(tmp_path / "c"))
    assert [(passed / "evidence").exists(), (failed / "evidence").exists()] == [False, True]
    assert read_result(passed) is not None


def test_the_oldest_evidence_goes_first_and_a_window_that_nobody_audited_is_unknown(tmp_path: Path) -> None:
    old, new = window(tmp_path, "a", kib=700), window(tmp_path, "b", kib=700)
    prune(tmp_path, config(tmp_path / "c"))
    assert [(old / "evidence").exists(), (new / "evidence").exists()] == [False, True]
    result = read_result(old)
    assert result is not None
    assert (result.verdict, result.because) == ("unknown", ["its evidence had to go before it was audited"])


def test_windows_beyond_their_number_go_but_never_the_one_that_runs(tmp_path: Path) -> None:
    running = window(tmp_path, "a", state="running")
    others = [window(tmp_path, name) for name in "bcdef"]
    prune(tmp_path, config(tmp_path / "c"))
    assert folders(tmp_path) == [running, *others[-3:]]


def test_what_was_not_closed_and_what_was_not_sent_is_unknown(tmp_path: Path) -> None:
    window(tmp_path, "20261128T000000Z", state="running", ended_us=None)
    (tmp_path / "windows" / "20261128T000500Z").mkdir()  # killed before it said anything
    left_behind(tmp_path)
    note_hole(tmp_path, 1_000_000, 13_000_000)
    audit_windows(config(tmp_path / "c"), tmp_path, "no master", None)
    found = {folder.name: read_result(folder) for folder in folders(tmp_path)}
    assert {result.verdict for result in found.values() if result} == {"unknown"}
    assert found["20261128T000000Z"].because == ["the canary ended while this window ran"]  # type: ignore[union-attr]
    assert [r.because for n, r in found.items() if r and n.endswith("-hole")] == [
        ["nothing was sent for 12.0 s"]
    ]
    assert found["20261128T000500Z"] is not None


def test_a_window_with_a_planned_change_has_the_levels_of_a_restart(tmp_path: Path) -> None:
    own = config(tmp_path / "c").model_copy(update={"steady": {"latency": {"kafka": {"ack_max_ms": 500}}}})
    steady = Window(run_id="r", began_us=1)
    planned = steady.model_copy(update={"planned": ["rolling_restart.yml"]})
    none = {"rebalance": {"min_restarts": 0}}
    assert levels_of(own, steady) == {"latency": {"kafka": {"ack_p99_ms": 100, "ack_max_ms": 500}}, **none}
    assert levels_of(own, planned) == {**LEVELS, **none}


def test_a_result_says_which_check_is_no_pass_and_how_many_of_each_anomaly() -> None:
    checks = [
        {
            "name": "delivery",
            "verdict": "fail",
            "because": "2 lost",
            "anomalies": {"lost": {"count": 2}},
            "figures": [],
        },
        {"name": "latency", "verdict": "pass", "because": "", "anomalies": {}, "figures": []},
    ]
    result = result_of(Window(run_id="r", began_us=1), {"verdict": "fail", "checks": checks})
    assert (result.because, result.anomalies) == (["delivery is fail: 2 lost"], {"lost": 2})


def test_runs_of_playbooks_and_pauses_are_announced_until_they_end(tmp_path: Path) -> None:
    home, now = tmp_path / "leaf", 1_000_000_000
    leases = tmp_path / "leases.json"
    assert list(announced(leases, home, now)) == []
    run = {"id": "1", "who": "me", "playbook": "deploy.yml"}
    leases.write_text(json.dumps({"leases": {"announced 1": {"run": run, "until": 1001}}}))
    pauses = {"from_us": now - 1, "until_us": now + 2_000_000, "why": "new switch"}
    (tmp_path / "pause.json").write_text(json.dumps({"pauses": [pauses]}))
    assert list(announced(leases, home, now)) == ["deploy.yml", "pause: new switch"]
    assert list(announced(leases, home, now + 1_500_000)) == ["pause: new switch"]
    assert list(announced(leases, home, now + 2_000_000)) == []
    leases.write_text("{broken")
    assert list(announced(leases, home, now)) == ["pause: new switch"]


def test_what_a_run_holds_on_its_host_is_announced_until_it_gives_it_back(tmp_path: Path) -> None:
    run = {"id": "1.2.3", "who": "me@ctl", "playbook": "rolling_restart.yml"}
    leases.take(run, ["announced 1.2.3"], root=tmp_path)
    now = int(time.time() * 1e6)
    assert list(announced(tmp_path / ".lease.json", tmp_path, now)) == ["rolling_restart.yml"]
    leases.give_back("1.2.3", tmp_path)
    assert list(announced(tmp_path / ".lease.json", tmp_path, now)) == []


class Clock:
    """The clocks of a machine, as a test sets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall = self.steady = self.boot = 1000.0
        monkeypatch.setattr(supervisor.time, "time", lambda: self.wall)
        monkeypatch.setattr(supervisor.time, "monotonic", lambda: self.steady)
        monkeypatch.setattr(supervisor.time, "clock_gettime", lambda _: self.boot)

    def pass_s(self, wall: float, steady: float, boot: float) -> None:
        self.wall, self.steady, self.boot = self.wall + wall, self.steady + steady, self.boot + boot


@pytest.mark.parametrize(
    ("passed", "why"),
    [
        ((0.2, 0.2, 0.2), ""),
        ((0.3, 0.2, 0.2), ""),
        ((60.2, 0.2, 60.2), "the host slept for 60.0 s"),
        ((9.0, 9.0, 9.0), "the canary was stopped for 9.0 s"),
        ((-3.8, 0.2, 0.2), "the clock was set by -4.0 s"),
    ],
)
def test_sleep_a_stop_and_a_set_clock_are_seen(
    passed: tuple[float, float, float], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    clocks = supervisor._Clocks()
    clock.pass_s(*passed)
    assert clocks.wrong() == why


class FakeWindow:
    """A window whose load does as the test says."""

    made: list[FakeWindow]

    def __init__(self, _config: CanaryConfig, home: Path, turn: int) -> None:
        self.turn, self.home = turn, home
        self.run_id = f"window-{len(self.made)}"
        self.folder = home / "windows" / self.run_id
        self.process = self
        self.status: int | None = None
        self.sending = False
        self.sent = 0.0
        self.why = ""
        self.planned: set[str] = set()
        self.told_enough = False
        self.made.append(self)

    def poll(self) -> int | None:
        return self.status

    def sends(self) -> bool:
        return self.sending

    def sent_s(self) -> float:
        return self.sent

    def enough(self) -> None:
        self.told_enough = True

    def broken(self, why: str) -> None:
        self.why = self.why or why

    def forget(self) -> str:
        return "no broker"

    def close(self) -> None:
        if self.why == "full":
            raise OSError(28, "No space left on device", f"/home/windows/{self.run_id}/window.json")


@pytest.fixture
def led(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    FakeWindow.made = []
    monkeypatch.setattr(supervisor, "RunningWindow", FakeWindow)
    monkeypatch.setattr(supervisor, "_AGAIN_S", 0.0)
    (tmp_path / "home").mkdir()
    return Supervisor(config(tmp_path / "c"), tmp_path / "home", tmp_path / "leases.json")


def test_the_next_window_sends_before_the_one_before_it_is_told_to_stop(led: Supervisor) -> None:
    led._step()
    (first,) = FakeWindow.made
    first.sending, first.sent = True, 30.0
    led._step()
    assert len(FakeWindow.made) == 1
    first.sent = 46.0  # 15 s before its end
    led._step()
    assert [one.turn for one in FakeWindow.made] == [0, 1]
    first.sent = 70.0
    led._step()
    assert not first.told_enough
    FakeWindow.made[1].sending = True
    led._step()
    assert first.told_enough
    # Its topics are busy until it is read to its end.
    FakeWindow.made[1].sent = 50.0
    led._step()
    assert len(FakeWindow.made) == 2
    first.status = 0
    led._step()
    assert [one.turn for one in FakeWindow.made] == [0, 1, 0]


def test_a_load_that_died_is_followed_by_another_and_a_full_disk_ends_nothing(
    led: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    led._step()
    (first,) = FakeWindow.made
    first.sending = True
    led._step()
    assert "RUNNING" in (led._home / "state.json").read_text()
    first.why, first.status = "full", 1
    led._step()
    assert "No space left on device" in capsys.readouterr().err
    assert "STARTING" in (led._home / "state.json").read_text()
    first.why = ""
    led._step()
    assert len(FakeWindow.made) == 2


def test_a_load_that_sent_nothing_is_a_part_of_the_hole_and_no_window(
    led: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    led._sent_until_us = 1
    led._step()
    FakeWindow.made[0].status = 2
    led._step()
    assert "window-0 sent nothing: no broker" in capsys.readouterr().err
    led._step()
    FakeWindow.made[1].sending = True
    led._step()
    (hole,) = folders(led._home)
    found = read_window(hole)
    assert found is not None
    assert found.why.endswith(" s: no broker")


def test_a_canary_that_gets_no_processor_time_takes_that_for_no_hole(
    led: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    led._step()
    (first,) = FakeWindow.made
    first.sending = True
    led._step()
    at_us = time.time_ns() // 1000
    monkeypatch.setattr(supervisor, "now_us", lambda: at_us)
    at_us += 4_000_000  # its load has gone on
    led._step()
    first.sent = 70.0
    led._step()
    FakeWindow.made[1].sending = True
    at_us += 4_000_000
    led._step()
    led._step()
    assert folders(led._home) == []
    first.status, FakeWindow.made[1].status = 0, 1
    led._step()
    led._step()
    FakeWindow.made[2].sending = True
    at_us += 4_000_000
    led._step()
    assert [one.name.endswith("-hole") for one in folders(led._home)] == [True]


def test_a_set_clock_breaks_the_windows_that_it_was_set_in(
    led: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    led._step()
    monkeypatch.setattr(led._clocks, "wrong", lambda: "the clock was set by +9.0 s")
    led._step()
    assert FakeWindow.made[0].why == "the clock was set by +9.0 s"


def test_show_prints_verdicts_with_reasons_and_where_the_report_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = window(tmp_path, "a")
    verdict(folder, "fail")
    (folder / "report").mkdir()
    assert main(["show", "--home", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "fail" in said
    assert str(folder / "report" / "report.html") in said


@pytest.mark.parametrize(("span", "seconds"), [("90s", 90), ("20m", 1200), ("12h", 43200)])
def test_a_pause_has_an_end(span: str, seconds: int) -> None:
    assert seconds_of(span) == seconds


@pytest.mark.parametrize("span", ["", "20", "0m", "13h", "-5m", "1d", "20m; id"])
def test_a_pause_without_an_end_that_is_near_is_refused(span: str) -> None:
    with pytest.raises(CanaryError, match=r"write 90s, 20m or 2h, 12h at most. Nothing was announced"):
        seconds_of(span)


@pytest.mark.process
def test_a_pause_is_announced_on_each_canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_host = (sys.executable, "-m", "verify.canary.command", "announce", f"--folder={tmp_path}")
    monkeypatch.setattr(pause, "_ON_HOST", on_host)
    places = tmp_path / "hosts.yml"
    local = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
    }
    places.write_text(yaml.safe_dump({"all": {"children": {"canary": {"hosts": {"c1": local}}}}}))
    assert main(["pause", "-i", str(places), "--for", "20m", "--why", "new switch"]) == 0
    now = int(time.time() * 1e6)
    home, none = tmp_path / "leaf", tmp_path / "no leases"
    assert list(announced(none, home, now)) == ["pause: new switch"]
    assert list(announced(none, home, now + 1_201_000_000)) == []


def test_of_two_pauses_the_one_that_ends_later_counts_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(span: str, why: str) -> str:
        assert main(["announce", "--folder", str(tmp_path), "--for", span, "--why", why]) == 0
        return capsys.readouterr().out

    assert "announced before" not in said("2h", "switch")
    assert said("10m", "cable\x1b[2J").endswith("Z, as was announced before\n")
    now = int(time.time() * 1e6)
    home, none = tmp_path / "leaf", tmp_path / "no leases"
    assert list(announced(none, home, now)) == ["pause: switch", r"pause: cable\x1b[2J"]
    assert list(announced(none, home, now + 3600_000_000)) == ["pause: switch"]
    (tmp_path / "pause.json").write_text("{broken")
    assert "announced before" not in said("10m", "")
