"""What the state tests share: the plan, and the part of it that belongs to the host under test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Instances = list[dict[str, Any]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kedge-plan", required=True, type=Path, help="the plan that was deployed, as JSON")


@pytest.fixture(scope="session")
def plan(request: pytest.FixtureRequest) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(request.config.getoption("--kedge-plan").read_text())
    return document


@pytest.fixture
def planned(plan: dict[str, Any], host: Any) -> Callable[[str], Instances]:
    """The planned instances of a service on the host under test; one at least."""
    name = name_of(host)

    def of(service: str) -> Instances:
        instances: Instances = plan["hosts"][name]["services"][service]["instances"]
        assert instances, f"the plan has no instance of {service} on {name}"
        return instances

    return of


def name_of(host: Any) -> str:
    """The inventory's name of the host under test."""
    return str(host.backend.get_pytest_id().rpartition("://")[2])


def value(instance: dict[str, Any], key: str) -> str:
    """The planned value of a key."""
    return next(str(s["value"]) for s in instance["settings"] if s["key"] == key)
