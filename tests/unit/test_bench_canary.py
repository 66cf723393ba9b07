"""The bench of a canary's alerts, without a fleet: what it notes of those that Prometheus has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kedge.setup.problem import Problem
from lab.bench.canary import __main__ as bench
from lab.bench.canary.__main__ import Action, Alerts, measured, table
from tests.awaiting import await_that


class Answers:
    """Answers as Prometheus does, with the alerts that a test gives it; None where it does not answer."""

    found: list[str] | None = None
    times = 0
    resolves_at = 0

    def firing(self) -> list[dict[str, Any]]:
        self.times += 1
        if self.times == self.resolves_at:
            self.found = []
        if self.found is None:
            raise Problem("it does not answer")
        return [{"labels": {"alertname": name, "path": "kafka"}} for name in self.found]


@pytest.fixture
def prometheus(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(bench, "_POLL_S", 0.01)
    monkeypatch.setattr(bench, "_QUIET_S", 1)
    return Answers()


@pytest.fixture
def alerts(prometheus: Any) -> Iterator[Alerts]:
    found = Alerts(prometheus)
    yield found
    found.close()


def test_an_alert_counts_from_when_it_fires_until_it_is_resolved(prometheus: Any, alerts: Alerts) -> None:
    prometheus.found = ["NoAck"]
    await_that(lambda: [one["alert"] for one in alerts.now()] == ["NoAck"], "it fires", 10)
    prometheus.found, before = None, prometheus.times
    await_that(lambda: prometheus.times > before + 1, "it was asked and did not answer", 10)
    assert alerts.now(), "an answer that is missing resolves no alert"
    prometheus.found = []
    await_that(lambda: not alerts.now(), "it is resolved", 10)
    assert [one["alert"] for one in alerts.fired] == ["NoAck"]


def test_a_prometheus_that_is_silent_is_no_quiet_one(
    prometheus: Any, alerts: Alerts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_SILENT_S", 0.05)
    monkeypatch.setattr(bench, "_QUIET_S", 10)
    with pytest.raises(Problem, match=r"did not say for 0\.05 s which alerts fire"):
        next(measured(alerts, [Action("a restart", lambda: None, planned=True)]))


def test_an_alert_that_comes_after_what_raised_it_is_of_its_row(prometheus: Any, alerts: Alerts) -> None:
    prometheus.found = []

    def act() -> None:
        prometheus.found, prometheus.resolves_at = ["WindowFailed"], prometheus.times + 3

    rows = measured(
        alerts, [Action("a deploy", act, planned=True), Action("another", lambda: None, planned=True)]
    )
    assert [[one["alert"] for one in row["alerts"]] for row in rows] == [["WindowFailed"], []]


def test_a_fault_is_as_expected_only_with_its_own_alert(
    prometheus: Any, alerts: Alerts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_AUDITED_S", 1)
    prometheus.found = []

    def act() -> None:
        prometheus.found, prometheus.resolves_at = ["NoAck"], prometheus.times + 3

    wanted = [
        Action("torn", act, alert="WindowFailed"),
        Action("torn", act, alert="NoAck"),
        Action("killed", act),
    ]
    assert [row["as_expected"] for row in measured(alerts, wanted)] == [False, True, True]


def test_the_table_says_which_alerts_came_and_when() -> None:
    alert = {"alert": "KedgeCanaryInstance", "path": "rest-rest1:8082", "at_s": 33.4, "resolved_s": 80.0}
    rows = [
        {"what": "rolling restart", "planned": True, "took_s": 45.2, "alerts": []},
        {"what": "stopped", "planned": False, "took_s": 60.0, "alerts": [alert]},
    ]
    quiet, stopped = table(rows).splitlines()[2:]
    assert quiet == "| rolling restart | 45 s | none |"
    assert stopped == "| stopped | 60 s | `KedgeCanaryInstance` rest-rest1:8082 33 to 80 |"
