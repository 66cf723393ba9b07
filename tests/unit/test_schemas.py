"""docs/schemas: of the models as they are, and true of the documents that are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from kedge.evidence.documents import Plan, Verdicts
from kedge.plan_command import main
from spark_checks.job import Audit
from spark_checks.report.documents import verdicts
from spark_checks.results import Anomaly, Figure, Recommendation, Result
from tests.schemas import FOLDER, schemas

INVENTORIES = sorted(path for path in (FOLDER.parents[1] / "inventories").iterdir() if path.is_dir())


def test_the_schemas_are_those_of_the_models() -> None:
    there = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert there == schemas(), "write them anew: .venv/bin/python -m tests.schemas"


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: path.name)
def test_a_plan_has_the_form_of_its_schema(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", str(inventory), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    plan = Plan.model_validate(document)
    # Nothing is written that the form does not name.
    assert json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True)) == document
    assert not plan.model_extra
    services = [one for host in plan.hosts.values() for one in host.services.values()]
    settings = [s for service in services for instance in service.instances for s in instance.settings]
    assert settings
    assert not any(one.model_extra for one in (*services, *settings))


def test_verdicts_have_the_form_of_their_schema() -> None:
    result = Result(
        name="delivery",
        verdict="fail",
        because="lost",
        slo={"lost": 0},
        measured={"sent": 5},
        anomalies={"lost": Anomaly(1, ({"partition": 0, "offset": 3},))},
        recommendations=(Recommendation("acks", "lost", "kafka_rest_settings", {"producer.acks": "all"}),),
        figures=(Figure("lost", 1, 0, key="delivery.lost"),),
    )
    audit = Audit("run", "fail", (result,), cast(Any, None), (), None, {"all": 1.5})
    document = json.loads(json.dumps(verdicts(audit)))
    found = Verdicts.model_validate(document)
    assert not found.model_extra
    assert not any(one.model_extra for check in found.checks for one in (check, *check.figures))
