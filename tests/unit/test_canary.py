"""A canary without a broker: its plan, its windows and what makes them unknown, its alerts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from kedge.deploy.canary_spec import with_canary_loads
from kedge.deploy.watch_spec import watch_spec
from kedge.evidence.canary import (
    CanaryConfig,
    CanaryError,
    Window,
    WindowResult,
    announced,
    folders,
    read_config,
    read_result,
    read_window,
    seconds_of,
    write_result,
    write_window,
)
from kedge.evidence.load_options import LoadSpec
from kedge.evidence.writing import EvidenceWriter
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import clusters
from kedge.plan.inventory.secrets import seal
from kedge.plan.plan import Plan
from kedge.services.canary.loads import judged
from kedge.services.planning import make_plan
from kedge.services.rights import rights_of
from lab.services import prometheus
from plugins.module_utils import node_lock
from tests.planned import CLUSTERS, METRICS
from tests.rest_inventories import rest
from verify.canary import audit, pause, supervisor
from verify.canary import live as live_module
from verify.canary.audit import audit_windows, levels_of, result_of
from verify.canary.command import main
from verify.canary.live import Live, _OfWindow
from verify.canary.rules import CanaryOf, dashboard, rules
from verify.canary.supervisor import Supervisor
from verify.canary.windows import left_behind, note_hole, prune
from verify.load.actors import lanes, workers
from verify.load.board import Board
from verify.load.ledger import ACKED, FAILED, Ledger
from verify.watch.watchers import copied_reporter

PASSWORD = "a-long-password"
SECURITY = {
    "protocol": "SASL_PLAINTEXT",
    "mechanism": "SCRAM-SHA-512",
    "user": "kit",
    "password": "kit-password",
    "users": {"kit": "kit-password", "broker": "brokers-password", "canary": PASSWORD},
}
SECURED = {"leaf": {"version": "4.3.1", "brokers": "kafka_broker", "security": SECURITY}}
LEVELS = {"latency": {"kafka": {"ack_p99_ms": 100}}}


def inventory(hosts: dict[str, dict[str, Any]] | None = None, **variables: Any) -> Inventory:
    common = {"kafka_clusters": CLUSTERS, "host_cores": 2, "host_memory_mib": 8192, "canary_cluster": "leaf"}
    others = {host: {**common, **variables, **own} for host, own in (hosts or {}).items()}
    groups = {"kafka_broker": ("kafka1",)} if "kafka1" in others else {}
    return Inventory({"c1": {**common, **variables}, **others}, {"canary": ("c1",), **groups})


def said(plan: Plan, rule: str) -> list[str]:
    return [f.line() for f in plan.findings if f.rule == rule]


def test_each_turn_has_topics_of_its_own_with_a_partition_for_each_broker() -> None:
    plan = make_plan(inventory())
    assert not plan.has_errors
    topics = plan.topics["leaf"]
    assert list(topics) == ["kedge-canary-c1-kafka-0", "kedge-canary-c1-kafka-1"]
    values = {s.key: s.value for s in topics["kedge-canary-c1-kafka-0"]}
    assert values == {"partitions": "3", "replication.factor": "3", "retention.ms": "21600000"}


@pytest.mark.parametrize(
    ("window_s", "rate", "errors"),
    [(300, 10, 1), (1000, 10, 0), (300, 34, 0)],
)
def test_a_level_that_one_window_cannot_show_is_an_error(window_s: int, rate: float, errors: int) -> None:
    levels = {"latency": {"kafka": {"ack_p999_ms": 100, "ack_max_ms": 500}}}
    plan = make_plan(
        inventory(service_levels=levels, canary_window_s=window_s, canary_records_per_s=float(rate))
    )
    found = said(plan, "canary.judged")
    assert len(found) == errors
    assert all("set canary_window_s to 1000, or canary_records_per_s to 34" in one for one in found)


def test_levels_of_what_a_canary_does_not_do_are_none_of_its_own() -> None:
    latency = {"kafka": {"ack_max_ms": 500, "append_max_ms": 9}, "rest": {"ack_p999_ms": 100}}
    levels = {"latency": latency, "mirror": {"lag_p99_ms": 5}, "throughput": {"kafka": {"records_per_s": 9}}}
    found = judged(levels, rest=False, mirrored=False)
    assert found == {"latency": {"kafka": {"ack_max_ms": 500}}, "settings": {"different": None}}
    plan = make_plan(inventory(service_levels={"latency": latency}, canary_window_s=60))
    assert said(plan, "canary.judged") == []
    both = judged(levels, rest=True, mirrored=True)
    assert (both["latency"]["rest"], both["mirror"]) == (latency["rest"], levels["mirror"])


@pytest.mark.parametrize(
    ("values", "rule", "words"),
    [
        ({"canary_rest": True}, "canary.rest", "no balancer has REST proxies of leaf"),
        (
            {"canary_user": "app", "kafka_rest_user": "app"},
            "canary.login",
            "which kafka_rest_user is as well",
        ),
    ],
)
def test_what_a_canary_cannot_do_is_an_error_of_the_plan(
    values: dict[str, Any], rule: str, words: str
) -> None:
    assert any(words in one for one in said(make_plan(inventory(**values)), rule))


def test_proxies_that_ask_for_a_login_want_one_of_the_canary() -> None:
    groups = {"rest_balancer": ("lb1",), "canary": ("rest1",)}
    inventory = rest(2, groups=groups, common={"canary_cluster": "leaf"}, users={"a": "secret-a"})
    assert any("the canary has none" in one for one in said(make_plan(inventory), "canary.rest"))


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


def test_a_canary_that_is_more_than_a_percent_of_the_workload_is_named() -> None:
    topic = {"name": "orders", "cluster": "leaf", "partitions": 3, "target_mb_per_s": 0.05}
    assert "2.0 percent" in said(make_plan(inventory(kafka_topics=[topic])), "canary.share")[0]
    assert said(make_plan(inventory(kafka_topics=[topic | {"target_mb_per_s": 0.2}])), "canary.share") == []


@pytest.mark.parametrize(
    ("hosts", "rate", "fix"),
    [(2, 400, "set canary_records_per_s to 7"), (60, 10, "set canary_rest_instances to false: ")],
)
def test_what_instances_get_directly_counts_for_the_share(hosts: int, rate: int, fix: str) -> None:
    groups = {"rest_balancer": ("lb1",), "canary": ("c1",)}
    load = {"records_per_s": rate, "record_bytes": 100}
    plan = make_plan(rest(hosts, workload=load, groups=groups, common={"canary_cluster": "leaf"}))
    (line,) = said(plan, "canary.share")
    assert fix in line


def test_a_flow_that_leaves_the_topics_of_the_canary_out_is_named() -> None:
    mirror = {"mirror_maker_kind": "classic", "mirror_maker_version": "3.9.2"}

    def plan(topics: list[str]) -> Plan:
        flows = {"metrics": METRICS | {"topics": topics}}
        found = inventory({"mm1": {}}, mirror_maker_flows=flows, **mirror)
        return make_plan(Inventory(found.hosts, {**found.groups, "mirror_maker": ("mm1",)}))

    assert (
        "flow metrics does not copy kedge-canary-c1-kafka-0"
        in said(plan(["metrics[.].*"]), "canary.mirror")[0]
    )
    assert said(plan(["metrics[.].*", "kedge-canary-.*"]), "canary.mirror") == []


def secured() -> Inventory:
    login = {"canary_user": "canary", "canary_password": PASSWORD}
    return inventory({"kafka1": {}}, **{"kafka_clusters": SECURED, **login})


def test_its_login_may_use_the_topics_of_its_turns_and_no_other() -> None:
    found = rights_of(secured(), "leaf", clusters(secured())[0]["leaf"].security)["canary"]
    writes = {r["name"] for r in found if "WRITE" in r["operations"]}
    assert writes == {"kedge-canary-c1-kafka-0", "kedge-canary-c1-kafka-1"}


def test_its_password_stands_in_its_environment_alone() -> None:
    document, values = seal(make_plan(secured()).to_json())
    assert PASSWORD not in json.dumps(document)
    (held,) = [value for value in values.values() if PASSWORD in value]
    assert json.loads(held) == {"clusters": {"leaf": {"sasl.password": PASSWORD}}}


def test_its_host_gets_loads_with_its_login_and_without_clusters_that_ask_for_another() -> None:
    document = make_plan(secured()).to_json()
    kit = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "kit"}
    flow = {
        "source": "leaf",
        "group": None,
        "workers": None,
        "offsets_topic": None,
        "topics": [".*"],
        "prefix": "",
    }
    document |= {
        "clusters": {
            "leaf": {"bootstrap_servers": "kafka1:9092", "client": kit},
            "open": {"bootstrap_servers": "open:9092"},
            "closed": {"bootstrap_servers": "closed:9092", "client": kit},
        },
        "flows": {name: {**flow, "target": name} for name in ("open", "closed")},
    }
    (instance,) = with_canary_loads(document, "c1")
    loads = json.loads(instance["settings"][-1]["value"])["loads"]
    assert [load["kafka"]["topic"] for load in loads] == [
        "kedge-canary-c1-kafka-0",
        "kedge-canary-c1-kafka-1",
    ]
    assert {load["client"]["sasl.username"] for load in loads} == {"canary"}
    assert [mirror["flow"] for mirror in loads[0]["mirrors"]] == ["open"]


def test_a_watch_of_what_others_send_takes_it_for_kedges_own() -> None:
    document = make_plan(inventory()).to_json() | {"clusters": {"leaf": {"bootstrap_servers": "leaf:9092"}}}
    leaf = watch_spec({}, document, "r")["clusters"]["leaf"]
    assert leaf["own_topics"] == leaf["own_groups"] == leaf["topics"] == sorted(document["topics"]["leaf"])


def config(folder: Path, **values: Any) -> CanaryConfig:
    load = {"run_id": "r", "cluster": "leaf", "bootstrap_servers": "nowhere:9092"}
    loads = [
        {**load, "kafka": {"topic": f"t{turn}", "group": f"t{turn}", "records_per_s": 10}} for turn in (0, 1)
    ]
    numbers = {
        "name": "leaf",
        "window_s": 60,
        "keep_windows": 3,
        "keep_mib": 1,
        "scrape_address": "127.0.0.1",
    }
    folder.mkdir(exist_ok=True)
    (folder / "canary.yaml").write_text(yaml.safe_dump({**numbers, "scrape_port": 9464, **values}))
    (folder / "loads.json").write_text(json.dumps({"loads": loads, "levels": LEVELS, "steady": {}}))
    return read_config(folder)


def test_a_configuration_that_is_wrong_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(CanaryError, match=r"canary.yaml cannot be read: No such file.*deploy.yml writes it"):
        read_config(tmp_path)
    with pytest.raises(CanaryError, match="window_s: Input should be greater than 0"):
        config(tmp_path / "c", window_s=0)


def window(home: Path, name: str, kib: int = 1, **values: Any) -> Path:
    folder = home / "windows" / name
    (folder / "evidence").mkdir(parents=True)
    (folder / "evidence" / "rows.parquet").write_bytes(bytes(kib << 10))
    write_window(
        folder, Window(**{"run_id": name, "began_us": 1, "ended_us": 2, "state": "closed", **values})
    )
    return folder


def verdict(folder: Path, verdict: Any) -> None:
    own = read_window(folder)
    assert own is not None
    write_result(folder, WindowResult(window=own, verdict=verdict, audited_us=3))


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
    node_lock.take(run, ["announced 1.2.3"], root=tmp_path)
    now = int(time.time() * 1e6)
    assert list(announced(tmp_path / ".lease.json", tmp_path, now)) == ["rolling_restart.yml"]
    node_lock.give_back("1.2.3", tmp_path)
    assert list(announced(tmp_path / ".lease.json", tmp_path, now)) == []


def test_rest_goes_through_the_planned_balancer_where_it_writes_to_the_cluster_of_the_canary() -> None:
    groups = {"rest_balancer": ("lb1",), "canary": ("rest1",)}
    document = make_plan(rest(2, groups=groups, common={"canary_cluster": "leaf"})).to_json()
    document |= {"clusters": {"leaf": {"bootstrap_servers": "k:9092"}}, "flows": {}, "applications": {}}
    (instance,) = with_canary_loads(document, "rest1")
    (load, _) = json.loads(instance["settings"][-1]["value"])["loads"]
    assert load["rest"]["url"] == "http://lb1:8080"
    assert "kedge-canary-rest1-rest-0" in document["topics"]["leaf"]
    alone = make_plan(rest(2, groups={"canary": ("rest1",)}, common={"canary_cluster": "leaf"})).to_json()
    assert "kedge-canary-rest1-rest-0" not in alone["topics"]["leaf"]


def direct_to(**variables: Any) -> tuple[Plan, dict[str, Any]]:
    groups = {"rest_balancer": ("lb1",), "canary": ("rest1",)}
    common = {"canary_cluster": "leaf", **variables}
    plan = make_plan(rest(2, groups=groups, common=common))
    document = plan.to_json()
    document |= {"clusters": {"leaf": {"bootstrap_servers": "k:9092"}}, "flows": {}, "applications": {}}
    (instance,) = with_canary_loads(document, "rest1")
    return plan, json.loads(instance["settings"][-1]["value"])["loads"][0]


def test_each_rest_instance_is_sent_to_directly() -> None:
    _, load = direct_to()
    assert set(load["rest_instances"]) >= {"rest1:8082", "rest2:8082"}
    assert load["rest_instances"]["rest2:8082"] == "http://rest2:8082"
    assert "rest_instances_ca" not in load
    assert "rest_instances" not in direct_to(canary_rest_instances=False)[1]


@pytest.mark.parametrize(
    ("tls", "variables", "why"),
    [
        ({"clients": "none"}, {}, ""),
        ({"clients": "requested"}, {"canary_rest_user": "canary"}, ""),
        ({"clients": "required"}, {}, "they require a certificate"),
        (None, {"canary_rest_user": "canary"}, "its password would cross the network in the clear"),
    ],
)
def test_a_canary_shows_instances_no_certificate_and_no_password_in_the_clear(
    tls: dict[str, str] | None, variables: dict[str, Any], why: str
) -> None:
    files = {"certificate": "rest.pem", "key": "rest.key", "ca": "ca.pem"}
    plan, load = direct_to(kafka_rest_tls=tls and files | tls, **variables)
    assert load.get("rest_instances", {}).get("rest2:8082") == (None if why else "https://rest2:8082")
    placed = [s for s in plan.services["rest1"]["canary"][0].settings if s.file.endswith("/instances-ca.pem")]
    assert [s.value for s in placed] == [] if why else ["ca.pem"]
    assert [why in one for one in said(plan, "canary.rest")] == [True] * bool(why)


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
