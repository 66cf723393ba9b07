"""A variable by its former name: it works, the plan warns of it and names the successor."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import create_model

from kedge.plan.variables import Replaces
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from kedge.services.rest.variables import KafkaRest
from tests.unit.test_loads import inventory

#: The services, where kafka_rest_first_port was called kafka_rest_port until 0.2.0.
FIELD = KafkaRest.model_fields["first_port"]
RENAMED = create_model(
    "Renamed",
    __base__=KafkaRest,
    first_port=(Annotated[FIELD.annotation, *FIELD.metadata, Replaces("port", "0.2.0")], FIELD.default),
)
SERVICES_LATER = [replace(s, variables=RENAMED) if s.name == "kafka_rest" else s for s in SERVICES]


def test_the_former_name_works_and_its_successor_is_named() -> None:
    plan = make_plan(inventory(kafka_rest_port=9000), services=SERVICES_LATER)
    assert plan.services["rest1"]["kafka_rest"][0].port == 9000
    (warning,) = (f for f in plan.findings if f.rule == "inventory.deprecated")
    assert warning.severity == "warning"
    assert warning.line().startswith(
        "rest1: kafka_rest_port: kafka_rest_port is kafka_rest_first_port since 0.2.0"
    )
    assert warning.fix == "write kafka_rest_first_port"


def test_both_names_are_refused() -> None:
    plan = make_plan(inventory(kafka_rest_port=9000, kafka_rest_first_port=9001), services=SERVICES_LATER)
    assert any(
        f.severity == "error" and "kafka_rest_first_port, which is set too" in f.message
        for f in plan.findings
    )


def test_the_name_of_today_is_not_warned_of() -> None:
    plan = make_plan(inventory(kafka_rest_first_port=9001), services=SERVICES_LATER)
    assert not any(f.rule == "inventory.deprecated" for f in plan.findings)
