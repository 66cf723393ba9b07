"""What a search hands to the plan, and how the plan takes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from kedge.services.mirror.variables import MeasuredFlow
from kedge.services.rest.variables import MeasuredCapacity
from kedge.services.streams.variables import MeasuredApplication
from kedge.trials.search import CapacityEstimate
from tests.trials import LOAD, outcome, settings
from verify.trials.capacity import recommendation
from verify.trials.settings import of_load

PROXY = {"distribution": "strimzi", "version": "1.0.0"}


def subject_of(tmp_path: Path, service: str, told: dict[str, str], hosts: list[str]) -> None:
    """Leave what the first trial was of: a service on hosts with eight cores."""
    folder = tmp_path / "trials" / "001" / "evidence"
    folder.mkdir(parents=True)
    subject = {"services": [{"service": service, **told}], "machines": [{"hosts": hosts, "cores": 8}]}
    (folder / "run.json").write_text(json.dumps({"subject": subject}))


def test_the_plan_reads_what_a_search_recommends(tmp_path: Path) -> None:
    subject_of(tmp_path, "kafka_rest", PROXY, ["rest1", "rest2"])
    found = [
        CapacityEstimate("healthy", 84_000.0, 82_000.0, 88_000.0, 84_000.0, 89_000.0, closed=True),
        CapacityEstimate("away", 41_000.0, 40_000.0, 43_000.0, 41_000.0, 44_000.0, closed=True),
    ]
    text = recommendation(settings(), tmp_path, "rest", LOAD, found, [outcome(1)])
    value = yaml.safe_load(text)["recommended"]["kafka_rest_measured_capacity"]
    measured = MeasuredCapacity.model_validate(value)
    assert (measured.records_per_s, measured.one_away_records_per_s) == (84_000, 41_000)
    assert (measured.distribution, measured.cores, measured.hosts, measured.instances_per_host) == (
        "strimzi",
        8,
        2,
        2,
    )
    assert measured.records_per_request == 50
    assert "#   healthy: 84,000 records/s (limit 82,000 to 88,000; 84,000 passed; 89,000 failed)" in text


def measured_of(service: str, told: dict[str, str], instances: dict[str, list[str]], load: dict[str, Any],
                tmp_path: Path) -> str:  # fmt: skip
    subject_of(tmp_path, service, told, list(instances))
    found = [CapacityEstimate("healthy", 84_000.0, 82_000.0, 88_000.0, 84_000.0, 89_000.0, closed=True)]
    asked = of_load(settings(service=service, instances=instances, conditions=["healthy"]), load)
    return recommendation(asked, tmp_path, "kafka", LOAD | load, found, [outcome(1)])


def test_the_plan_reads_what_a_flow_was_measured_to_carry(tmp_path: Path) -> None:
    told = {"distribution": "classic", "version": "3.9.2"}
    hosts = {"mm1": ["metrics-1", "metrics-3", "logs-1"], "mm2": ["metrics-2", "logs-2"]}
    text = measured_of("mirror_maker", told, hosts, {"mirrors": [{"flow": "metrics"}]}, tmp_path)
    value = yaml.safe_load(text)["recommended"]["mirror_maker_measured_capacity"]
    measured = MeasuredFlow.model_validate(value)
    assert (measured.flow, measured.kind, measured.processes, measured.hosts) == ("metrics", "classic", 3, 2)
    assert (measured.records_per_s, measured.version, measured.cores) == (84_000, "3.9.2", 8)


def test_two_flows_that_copy_one_load_are_no_measurement_of_either(tmp_path: Path) -> None:
    flows = {"mirrors": [{"flow": "metrics"}, {"flow": "logs"}]}
    text = measured_of("mirror_maker", {}, {"mm1": ["metrics-1"], "mm2": ["logs-1"]}, flows, tmp_path)
    assert (
        "# Nothing for the plan: logs and metrics took the load, and a measurement is of one flow alone."
        in text
    )
    assert yaml.safe_load(text) == {"recommended": {}}


def test_the_plan_reads_what_an_application_was_measured_to_carry(tmp_path: Path) -> None:
    told = {"distribution": "joins", "version": "4.3.1"}
    fed = {"topic": "t", "cluster": "leaf"}
    joins = [{"host": host, "instance": "joins-0"} for host in ("st1", "st2")]
    other = [{"host": "st1", "instance": "other-0"}]
    applications = [
        {"name": "other", "instances": other},
        {"name": "joins", "instances": joins, "input": fed, "output": fed},
    ]
    hosts = {"st1": ["joins-0", "other-0"], "st2": ["joins-0"]}
    text = measured_of("streams_app", told, hosts, {"applications": applications}, tmp_path)
    measured = MeasuredApplication.model_validate(
        yaml.safe_load(text)["recommended"]["streams_app_measured_capacity"]
    )
    assert (measured.name, measured.version, measured.instances_per_host) == ("joins", "4.3.1", 1)
    assert measured.hosts == 2


def test_what_carries_nothing_with_a_host_away_is_told_to_the_plan(tmp_path: Path) -> None:
    subject_of(tmp_path, "kafka_rest", PROXY, ["rest1", "rest2"])
    found = [
        CapacityEstimate("healthy", 84_000.0, 82_000.0, 88_000.0, 84_000.0, 89_000.0, closed=True),
        CapacityEstimate(
            "away", None, None, 80.0, None, 80.0, because="no load passed, down to 80 records/s"
        ),
    ]
    text = recommendation(settings(), tmp_path, "rest", LOAD, found, [outcome(1)])
    value = yaml.safe_load(text)["recommended"]["kafka_rest_measured_capacity"]
    assert value["one_away_records_per_s"] == 0
    # Of hosts with different numbers of instances the plan could not tell what one carries.
    uneven = settings(instances={"rest1": ["8082", "8083"], "rest2": ["8082"]})
    text = recommendation(uneven, tmp_path, "rest", LOAD, found, [outcome(1)])
    assert "# Nothing for the plan: the hosts run different numbers of instances." in text
