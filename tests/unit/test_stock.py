"""``advice: stock`` leaves out what only tunes a component, and nothing that it cannot start without."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.plan.inventory.reading import read_inventory
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from tests.rest_inventories import rest

ROOT = Path(__file__).resolve().parents[2]


def keys(settings: dict[str, object] | None = None) -> dict[str, str]:
    plan = make_plan(rest(1, {"consumers": 10}, settings=settings or {}), "stock")
    return {one.key: one.value for one in plan.services["rest1"]["kafka_rest"][0].settings}


def test_a_stock_proxy_has_its_place_and_its_cluster_and_no_tuning() -> None:
    found = keys()
    assert {"id", "listeners", "bootstrap.servers", "LOG_DIR"} <= found.keys()
    left = {
        "KAFKAREST_HEAP_OPTS",
        "KAFKAREST_JVM_PERFORMANCE_OPTS",
        "consumer.threads",
        "thread.pool.max",
        "MemoryMax",
    }
    assert not left & found.keys()


def test_a_persons_own_values_stay_in_a_stock_plan() -> None:
    assert keys({"consumer.threads": 70})["consumer.threads"] == "70"


@pytest.mark.parametrize("inventory", ["local", "local-mirror", "local-streams"])
def test_a_stock_plan_is_a_part_of_the_documented_one(inventory: str) -> None:
    """Of its keys: values of a service that is stock may follow from another that is not there."""
    read = read_inventory(ROOT / "inventories" / inventory, SERVICES)
    stock, documented = (make_plan(read, form) for form in ("stock", "documented"))
    tuned = [service.name for service in SERVICES if service.tuning]
    fewer = 0
    for host, services in stock.services.items():
        for name, instances in services.items():
            for mine, theirs in zip(instances, documented.services[host][name], strict=True):
                assert {s.key for s in mine.settings} <= {s.key for s in theirs.settings}
                fewer += name in tuned and len(mine.settings) < len(theirs.settings)
    assert fewer
