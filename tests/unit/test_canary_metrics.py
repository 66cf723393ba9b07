"""The metrics of a canary, its alerts and its dashboard."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from kedge.evidence.load_options import LoadSpec
from kedge.evidence.writing import EvidenceWriter
from lab.services import prometheus
from tests.canaries import LEVELS, config, verdict, window
from verify.canary import live as live_module
from verify.canary.live import Live, _OfWindow
from verify.canary.rules import CanaryOf, dashboard, rules
from verify.load.actors import lanes, workers
from verify.load.board import Board
from verify.load.ledger import ACKED, FAILED, Ledger
from verify.watch.watchers import copied_reporter


def test_metrics_have_the_verdict_of_the_newest_window_and_whether_a_change_is_announced(
    tmp_path: Path,
) -> None:
    for name, came_to, ended_us in (
        ("a", "pass", 2_000_000),
        ("b", "fail", 5_000_000),
        ("c", "pass", 3_000_000),
    ):
        verdict(window(tmp_path, name, ended_us=ended_us), came_to)
    live = Live(config(tmp_path / "c"), tmp_path)
    live.look([], {"deploy.yml"})

    def of(name: str, **labels: str) -> float | None:
        return live.registry.get_sample_value(f"kedge_canary_{name}", {"cluster": "leaf", **labels})

    assert [of("window_verdict", verdict=one) for one in ("pass", "fail", "unknown")] == [0, 1, 0]
    assert [of("windows", verdict=one) for one in ("pass", "fail")] == [2, 1]
    assert (of("window_end_timestamp_seconds"), of("planned"), of("sending")) == (5, 1, 0)


def test_what_was_delivered_last_is_in_the_histograms_once_the_load_has_merged_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, load = _OfWindow(tmp_path), config(tmp_path / "c").loads[0]
    monkeypatch.setattr(one, "_open", lambda: load)
    writer = EvidenceWriter(tmp_path / "evidence", "deliveries", "w", rotate_s=0)

    def deliver(seconds: int) -> None:
        row = {"group": "g", "consumer": "c", "topic": "t0", "via": "kafka", "partition": 0, "offset": 0}
        writer.append({**row, "producer": 0, "intended_us": [0], "received_us": [seconds * 1_000_000]})
        writer.flush()

    def took(**options: bool) -> list[float]:
        return [s for took in one.took("delivery", **options) for s in took.seconds]

    deliver(1)
    deliver(2)
    assert took() == [1, 2]
    deliver(3)
    writer.close()
    assert took() == []
    assert took(ended=True) == [3]
    assert took(ended=True) == []


MIRRORED = LoadSpec.model_validate({
    "run_id": "r",
    "cluster": "leaf",
    "bootstrap_servers": "nowhere:9092",
    "kafka": {"topic": "t", "records_per_s": 10},
    "mirrors": [
        {"flow": "up", "source": {"cluster": "leaf", "topic": "t"}, "target": {"cluster": "hub", "topic": "up.t"}}
    ],
    "clusters": {"hub": {"bootstrap_servers": "nowhere:9093"}},
})  # fmt: skip


def test_a_mirror_that_stands_still_has_an_age_and_so_an_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "load.json").write_text(json.dumps(MIRRORED.model_dump(mode="json")))
    board = Board(tmp_path, [actor for part in workers(MIRRORED).values() for actor in part], create=True)
    report = copied_reporter(MIRRORED, board, "hub")
    running: Any = SimpleNamespace(run_id="r", folder=tmp_path, sends=lambda: True, process=None)
    live = Live(config(tmp_path / "c"), tmp_path)
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(live_module, "sending", lambda _: True)

    def sample_after(seconds: float, end: int) -> tuple[float | None, float | None]:
        nonlocal now
        now += seconds
        report({("up.t", 0): end, ("up.t", 1): 5, ("other", 0): 7 * end})
        live.look([running], set())
        of = {"cluster": "leaf", "path": "mirror-hub-kafka"}
        value = live.registry.get_sample_value
        return (
            value("kedge_canary_delivered_total", {**of, "topic": "up.t"}),
            value("kedge_canary_last_delivery_age_seconds", of),
        )

    assert sample_after(0, 100) == (0, 0)
    assert sample_after(1, 110) == (10, 0)
    assert sample_after(30, 110) == (10, 30)
    # Another watcher, which takes the place of one that librdkafka aborted.
    report = copied_reporter(MIRRORED, board, "hub")
    assert sample_after(1, 115) == (10, 31)
    assert sample_after(1, 116) == (11, 0)
    # The topic was made anew.
    assert sample_after(1, 3) == (14, 0)


def test_an_instance_that_is_sent_to_directly_is_a_path_of_the_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = {"topic": "t", "url": "http://lb:8080", "records_per_s": 10, "group": "g"}
    direct = {"rest_instances": {"r1:8082": "http://r1:8082", "r2:8082": "http://r2:8082"}}
    spec = {"run_id": "r", "cluster": "leaf", "bootstrap_servers": "nowhere:9092", "rest": part}
    load = LoadSpec.model_validate(spec | direct)
    (tmp_path / "load.json").write_text(json.dumps(load.model_dump(mode="json")))
    board = Board(tmp_path, [actor for part in workers(load).values() for actor in part], create=True)
    by_rest, to_each = lanes(load)
    running: Any = SimpleNamespace(run_id="r", folder=tmp_path, sends=lambda: True, process=None)
    live = Live(config(tmp_path / "c"), tmp_path)
    monkeypatch.setattr(live_module, "sending", lambda _: True)
    monkeypatch.setattr(live_module, "_FILES_S", 0)

    def of(name: str, path: str, **labels: str) -> float | None:
        live.look([running], set())
        has = {"cluster": "leaf", "topic": "t", "path": path, **labels}
        return live.registry.get_sample_value(f"kedge_canary_{name}", has)

    assert of("records_total", "rest-r2:8082", outcome="failed") == 0, "else a first failure is no increase"
    every, to_r1, to_r2 = np.arange(6), np.array([0, 2, 4]), np.array([1, 3])
    for lane, acked, failed in ((by_rest, every, []), (to_each, to_r1, to_r2)):
        writer = EvidenceWriter(tmp_path / "evidence", "ledger", lane.actor, rotate_s=0)
        ledger = Ledger(writer, lane, board.cells(lane.actor), 6)
        ledger.add(0, every, every)
        ledger.sent(0, 6, 5)
        ledger.settle(acked, ACKED, acked.astype(np.int32), acked, 2_000_000)
        ledger.settle(np.array(failed, np.int64), FAILED, at_us=2_000_000)
        # The ledger has no instance of what got no answer.
        ledger.close(6)
        writer.flush()
    got = EvidenceWriter(tmp_path / "evidence", "deliveries", "w", rotate_s=0)
    read = {"group": "g", "consumer": "c", "topic": "t", "via": "rest", "partition": 0, "offset": 0}
    both = np.array([by_rest.producer, to_each.producer])
    got.append({**read, "producer": both, "intended_us": [0, 0], "received_us": [1_000_000, 30_000_000]})
    got.flush()

    outcomes = ("acked", "failed", "unknown")
    assert [of("records_total", "rest-r1:8082", outcome=one) for one in outcomes] == [3, 0, 0]
    assert [of("records_total", "rest-r2:8082", outcome=one) for one in outcomes] == [0, 2, 1]
    assert of("records_total", "rest", outcome="acked") == 6
    assert of("sent_total", "rest-r2:8082") == 3
    assert (of("ack_seconds_count", "rest-r1:8082"), of("ack_seconds_count", "rest")) == (3, 6)
    assert (of("delivery_seconds_count", "rest"), of("delivery_seconds_sum", "rest")) == (1, 1)
    ages = {"cluster": "leaf", "path": "rest-r2:8082"}
    assert live.registry.get_sample_value("kedge_canary_last_ack_age_seconds", ages) is not None


CANARY = CanaryOf("c1", "leaf", 300, LEVELS)


def promtool(*words: object) -> None:
    command = [prometheus.program("promtool"), *map(str, words)]  # make test-fast brings it
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump(rules([CANARY])))
    return path


@pytest.mark.process
def test_prometheus_takes_the_rules(written: Path) -> None:
    promtool("check", "rules", written)


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    has = {"cluster": "leaf", **labels}
    inside = ",".join(f'{key}="{value}"' for key, value in has.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


AGE, VERDICT = "kedge_canary_last_ack_age_seconds", "kedge_canary_window_verdict"


PLANNED = series("kedge_canary_planned", "1x20")


TOPIC = {"path": "kafka", "topic": "t"}


ALERTS = {
    "silence": ([series(AGE, "0 15 30 45 60", path="kafka")], "1m", "NoAck"),
    "silence in a planned change": ([series(AGE, "0 15 30 45 60", path="kafka"), PLANNED], "1m", ""),
    "silence beyond a planned change": ([series(AGE, "0+15x20", path="kafka"), PLANNED], "4m", "NoAck"),
    "records that failed": ([series("kedge_canary_records_total", "0x4 3x10", outcome="failed", **TOPIC)], "90s", "Errors"),
    "an instance that takes none": ([series(AGE, "0 15 30 45 60", path="rest-r1:8082")], "1m", "Instance"),
    "one that is down on purpose": ([series(AGE, "0+15x20", path="rest-r1:8082"), PLANNED], "4m", ""),
    "an instance that fails records": ([series("kedge_canary_records_total", "0x4 3x10", outcome="failed", cluster="leaf", topic="t", path="rest-r1:8082")], "90s", "Instance"),
    "a window that failed": ([series(VERDICT, "1x10", verdict="fail")], "1m", "WindowFailed"),
    "one unknown window": ([series(VERDICT, "1x20 0x60", verdict="unknown")], "8m", ""),
    "nothing but unknown windows": ([series(VERDICT, "1x60", verdict="unknown")], "12m", "WindowUnknown"),
    "a canary that is gone": ([series(AGE, "0x60", path="kafka")], "2m", "Silent"),
}  # fmt: skip


def play(rules_file: Path, rows: list[dict[str, str]], at: str, raised: dict[str, int]) -> None:
    """Have promtool play series, and hold how many alerts fire then against what is due."""
    count = 'count(ALERTS{{alertstate="firing",{0}}}) or vector(0)'.format
    asked = [
        {"expr": count(which), "eval_time": at, "exp_samples": [{"labels": "{}", "value": due}]}
        for which, due in raised.items()
    ]
    test = {"interval": "15s", "input_series": rows, "promql_expr_test": asked}
    test_file = rules_file.with_name("test.yml")
    test_file.write_text(
        yaml.safe_dump({"rule_files": [str(rules_file)], "evaluation_interval": "15s", "tests": [test]})
    )
    promtool("test", "rules", test_file)


@pytest.mark.process
@pytest.mark.parametrize("case", ALERTS)
def test_alerts_are_raised_by_faults_and_not_by_planned_changes(case: str, written: Path) -> None:
    rows, at, name = ALERTS[case]
    sending = [] if name == "Silent" else [series("kedge_canary_sending", "1x100")]
    alerts = ("NoAck", "Errors", "Instance", "WindowFailed", "WindowUnknown", "Silent")
    play(
        written, [*rows, *sending], at, {f'alertname="KedgeCanary{one}"': int(one == name) for one in alerts}
    )


@pytest.mark.process
@pytest.mark.parametrize(("slow", "raised"), [(0, 0), (30, 1)])
def test_a_level_that_is_missed_burns_its_budget(slow: int, raised: int, written: Path) -> None:
    rows = [
        series("kedge_canary_ack_seconds_count", "0+150x500", **TOPIC),
        series("kedge_canary_ack_seconds_bucket", f"0+{150 - slow}x500", le="0.1", **TOPIC),
        series("kedge_canary_records_total", "0x500", outcome="failed", **TOPIC),
    ]
    play(written, rows, "70m", {'alertname="KedgeCanaryBurn",within="1h"': raised})


@pytest.mark.process
def test_prometheus_takes_each_query_of_the_dashboard(tmp_path: Path) -> None:
    made = dashboard([CANARY])
    queries = [target["expr"] for panel in made["panels"] for target in panel["targets"]]
    queries += [one["expr"] for one in made["annotations"]["list"]]
    recorded = [
        {"record": f"kedge:query{n}", "expr": q.replace("$cluster", "leaf")} for n, q in enumerate(queries)
    ]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    assert len(queries) > 10
    promtool("check", "rules", path)


def test_an_alert_says_which_command_shows_what_the_audit_knows() -> None:
    alerts = [rule for group in rules([CANARY])["groups"] for rule in group["rules"] if "alert" in rule]
    commands = {rule["annotations"]["command"] for rule in alerts}
    assert commands == {"ssh c1 sudo -u canary /opt/kedge/canary show --home /var/lib/canary/leaf"}
