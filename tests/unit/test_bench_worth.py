"""What the plan is worth: which classes are played, how turns are judged, and what the page says; no fleet here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kedge.plan.inventory.reading import read_inventory
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from kedge.trials.figures import collapsed, compare
from kedge.trials.table import as_json, from_json
from lab.bench.turns import Measured, TurnError, steady, take_turns
from lab.bench.worth.classes import CLASSES, variables
from lab.bench.worth.table import worse

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
