"""What the plan is worth: which classes are played, how turns are judged, and what the page says; no fleet here."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kedge.plan.inventory.reading import read_inventory
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from kedge.trials.figures import collapsed, compare
from kedge.trials.table import as_json, from_json
from lab.bench.rest.drive import ProxyRefusedError
from lab.bench.rest.fleet import FleetError, Proxies
from lab.bench.turns import Measured, TurnError, steady, take_turns
from lab.bench.worth import __main__ as worth
from lab.bench.worth import fleet as on_fleet
from lab.bench.worth.classes import CLASSES, variables
from lab.bench.worth.table import reports, tables, worse

ROOT = Path(__file__).resolve().parents[2]
LOCAL = ROOT / "inventories/local"
VARIANTS = ("stock", "documented", "planned")
RATE = "throughput.rest.mean_records_per_s"


def rate(value: float) -> Measured:
    return {"throughput": {"rest": {"mean_records_per_s": value}}}


class Turns:
    """Turns whose rate differs a little from one to the next, by the variant's own."""

    def __init__(self, rates: Mapping[str, float]) -> None:
        self.rates, self.taken = rates, list[str]()

    def __call__(self, variant: str) -> Measured:
        self.taken.append(variant)
        if not (own := self.rates[variant]):
            raise TurnError("no request was answered")
        return rate(own + len(self.taken) * 0.01)


def changes(found: Mapping[str, Any], variant: str) -> dict[str, str]:
    return {one["name"]: one["change"] for one in found["figures"][variant]}


def test_variants_take_turns_there_and_back_and_are_judged_against_the_first() -> None:
    turns = Turns({"stock": 100, "documented": 100, "planned": 80})
    found = take_turns(VARIANTS, 5, turns, lambda _: None)
    assert turns.taken[:6] == [*VARIANTS, *reversed(VARIANTS)]
    assert turns.taken[6:9] == [*reversed(VARIANTS)]
    assert changes(found, "planned") == {RATE: "worse"}
    assert changes(found, "documented") == {RATE: "same"}
    assert list(worse(found)) == [RATE]


def test_turns_that_collapse_are_counted_and_judged() -> None:
    found = take_turns(("stock", "planned"), 4, Turns({"stock": 100, "planned": 0}), lambda _: None)
    assert found["collapsed"] == {"stock": 0, "planned": 8}
    assert "load_tests.collapsed" in worse(found)
    nothing = take_turns(("stock", "planned"), 1, Turns({"stock": 0, "planned": 0}), lambda _: None)
    assert nothing["figures"] == {}


@pytest.mark.parametrize(
    ("rates", "rounds"),
    [
        ([50, 90, 91, 92], 4),
        ([50, 90, 60, 100, 101, 102], 6),
        ([2.0**n for n in range(20)], 10),
        ([0, 0, 0], 3),
    ],
)
def test_rounds_end_when_they_get_no_quicker_or_at_a_bound(rates: list[float], rounds: int) -> None:
    played = iter(rates)
    seen: list[float] = []

    def one() -> float:
        seen.append(next(played))
        return seen[-1]

    steady(one)
    assert len(seen) == rounds


@pytest.mark.parametrize("name", [name for name, work in CLASSES.items() if work.by == "compare"])
@pytest.mark.parametrize("advice", ["stock", "documented", "measured"])
def test_each_class_of_load_can_be_planned_and_is_part_of_the_plan(name: str, advice: str) -> None:
    work = CLASSES[name]
    given = variables(work, read_inventory(LOCAL, SERVICES))
    rest = given["verify"]["rest"]
    assert rest["records_per_s"] == 5200 * work.share
    assert rest["topic"] == "kedge-verify-rest"
    for key, value in work.load.items():
        assert rest[key] == given["kafka_rest_workload"][key] == value
    # Nobody's own words: what is the inventory's stays.
    assert "kafka_rest_workload" not in given or given["kafka_rest_workload"]["partitions"] == 6
    plan = make_plan(read_inventory(LOCAL, SERVICES, [json.dumps({**given, "advice": advice})]))
    assert [one.message for one in plan.findings if one.severity == "error"] == []


def test_an_inventory_without_load_through_proxies_is_refused() -> None:
    inventory = read_inventory(LOCAL, SERVICES, ['{"verify": {"kafka": {}}}'])
    with pytest.raises(ValueError, match=r"verify\.rest is missing"):
        variables(CLASSES["requests-1"], inventory)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["requests"], "no class requests; there are: requests-1,"),
        (["mirror", "--variants", "planned,stock"], "name planned after what it is compared with"),
        (["mirror", "--variants", "stock"], "name planned after what it is compared with"),
        (["mirror", "--variants", "stock,tuned,planned"], "name planned after what it is compared with"),
        (["mirror", "kill"], "--inventory is missing: kill are played on a fleet"),
    ],
)
def test_what_cannot_be_played_gets_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert worth.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_check_says_what_would_be_played_and_touches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert worth.main(["--check", "--blocks", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == list(CLASSES)
    # No document bounds the RocksDB of an application.
    assert lines[-1].endswith("stock, planned in 2 blocks, 8 turns")


class Fleet:
    """Stands in for hosts, playbooks and proxies: rates by variant, and what was played."""

    def __init__(self, rates: Mapping[str, float], monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.rates, self.played = rates, list[str]()
        self.connections: list[Any] = []
        self.variant = "planned"
        proxies = Proxies("sandbox", "1.0.0", (("h", "kafka-rest@1", "http://h:1"),), session_s=1)
        monkeypatch.setattr(worth, "proxies", lambda *_: proxies)
        monkeypatch.setattr(worth, "put_back", self.put_back)
        monkeypatch.setattr(on_fleet, "ROOT", folder)
        monkeypatch.setattr(on_fleet, "deployed", lambda _, extra: self.deploy(extra, proxies))
        monkeypatch.setattr(on_fleet, "play", self.play)
        monkeypatch.setattr(on_fleet, "produce", self.produce)

    @contextlib.contextmanager
    def put_back(self, _: Path) -> Iterator[None]:
        yield
        self.played.append("put back")

    def deploy(self, extra: Mapping[str, Any], proxies: Proxies) -> Proxies:
        self.variant = extra.get("advice", "planned")
        self.connections.append(extra.get("kafka_rest_workload", {}).get("connections"))
        self.played.append(self.variant)
        return proxies

    def play(self, _: Path, extra: Mapping[str, Any], *__: str, playbook: str = "deploy.yml") -> None:
        self.played.append(playbook)
        if playbook != "compare.yml":
            return
        if not self.rates:
            raise FleetError("compare.yml failed: unreachable")
        variants, blocks = extra["arms"], extra["trials_blocks"]
        found = take_turns(variants, blocks, Turns(self.rates), lambda _: None)
        report = Path(extra["kedge_runs_dir"]) / "latest" / "report"
        report.mkdir(parents=True)
        document = {**found, "run_id": "r", "failed": {}, "trials": []}
        (report / "comparison.json").write_text(json.dumps(document))

    def produce(self, *_: Any, **__: Any) -> dict[str, float]:
        if not (own := self.rates[self.variant]):
            raise ProxyRefusedError("no request was answered")
        return {"records_per_s": own + len(self.played) * 0.01, "p50_ms": 1.0, "p99_ms": 2.0}


def play(folder: Path, *words: str) -> int:
    return worth.main([*words, "-i", str(LOCAL), "--out", str(folder / "out"), "--variants", "stock,planned"])


def test_each_class_leaves_a_report_and_the_fleet_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet({"stock": 100, "planned": 120}, monkeypatch, tmp_path)
    assert play(tmp_path, "requests-1", "connections") == 0
    # compare.yml begins where the hosts run what is planned for the class.
    assert fleet.played[:2] == ["deploy.yml", "compare.yml"]
    assert set(fleet.connections) == {200}
    # Who follows himself is restarted: fresh processes in each turn.
    assert fleet.played[2:7] == ["stock", "planned", "planned", "rolling_restart.yml", "stock"]
    assert fleet.played[-1] == "put back"
    found = reports(tmp_path / "out")
    assert list(found) == [("sandbox", "connections"), ("sandbox", "requests-1")]
    text = tables(found)
    assert "| `requests-1` | requests of 1 record | not run | not run | 1 better, 0 worse of 1 |  |" in text
    assert "**`connections`, sandbox 1.0.0**" in text
    assert f"| planned | {RATE} | 100" in text


def test_a_plan_that_is_worse_somewhere_fails_and_so_does_a_class_without_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Fleet({"stock": 100, "planned": 80}, monkeypatch, tmp_path)
    assert play(tmp_path, "connections") == 1
    assert f"connections: planned is worse in {RATE}" in capsys.readouterr().err
    Fleet({}, monkeypatch, tmp_path)
    assert play(tmp_path, "requests-1") == 1
    assert "requests-1: no figures: compare.yml failed: unreachable" in capsys.readouterr().err


def test_a_figure_is_the_same_after_it_was_kept() -> None:
    def document(value: float) -> dict[str, Any]:
        check = {"name": "throughput", "verdict": "measured", "anomalies": {}}
        return {"run_id": "r", "checks": [{**check, "measured": rate(value)["throughput"]}]}

    # So few values leave the interval open; and one that collapsed.
    for blocks in (
        [([document(1), document(2)], [document(3), collapsed("r")])],
        [([document(1)], [document(2)])],
    ):
        for one in compare({"b": blocks})["b"]:
            kept = from_json(json.loads(json.dumps(as_json(one))))
            assert (kept.name, kept.before, kept.difference) == (one.name, one.before, one.difference)
            assert (kept.change, kept.chance) == (one.change, one.chance)
