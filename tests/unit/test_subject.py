"""What a run tested, from its plan, its load and its hosts, for the head of the report."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kedge.evidence.release import VERSION
from kedge.evidence.run import parse_run
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.versions import versions
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from spark_checks.report.subject import head
from verify.collect.subject import MACHINE, fingerprint, machine, subject

ROOT = Path(__file__).resolve().parents[2]
LOAD = {
    "cluster": "leaf",
    "client": {"sasl.password": "hunter2"},
    "kafka": {"topic": "kedge-verify-kafka", "records_per_s": 52000, "record_bytes": 100, "producers": 1},
    "rest": {
        "topic": "kedge-verify-rest",
        "records_per_s": 5200,
        "url": "http://me:hunter2@lb",
        "password": "hunter2",
    },
}
SHARED = {"boot_id": "one", "cores": 2, "memory_mib": 24105, "system": "Debian GNU/Linux 12"}
RUN = {
    "run_id": "r", "started_us": 1_795_334_931_000_000, "ended_us": 1_795_335_145_000_000, "measured_until_us": None,
    "topics": [{"cluster": "leaf", "topic": "t", "partitions": 6, "start_offsets": {}}],
    "producers": {"0": {"via": "rest", "topic": "t", "records_per_s": 100}, "1": {"via": "rest", "topic": "t", "records_per_s": 50}},
}  # fmt: skip


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    inventory = read_inventory(ROOT / "inventories/local", SERVICES)
    planned = make_plan(inventory)
    document: dict[str, Any] = json.loads(json.dumps(planned.to_json()))
    return document | {
        "versions": versions(inventory, planned.services, SERVICES),
        "archive_files": {"a": "/here/a"},
    }


def lines(run: dict[str, Any]) -> dict[str, list[str]]:
    return dict(head(parse_run(json.dumps(run), "run.json")))


def test_the_head_names_software_hosts_topics_load_and_machines(plan: dict[str, Any]) -> None:
    hosts = dict.fromkeys(plan["hosts"], SHARED) | {"lb1": SHARED | {"haproxy": "2.6.12"}}
    found = lines(RUN | {"subject": subject(plan, LOAD, hosts, SHARED)})
    assert "kafka_rest: sandbox 1.0.0, 4 instances on rest1, rest2" in found["Services"]
    assert "kafka_broker: 4.3.1, 1 instance on leaf1" in found["Services"]
    assert "rest_balancer: HAProxy 2.6.12, 1 instance on lb1" in found["Services"]
    assert found["Topics"][0] == "kedge-verify-kafka on leaf: partitions 6, replication 1"
    assert found["Load as intended"][0] == (
        "kafka to kedge-verify-kafka: 52,000 records/s, 100 bytes each, 1 producer"
    )
    assert found["Machines"] == [
        "lb1, leaf1, rest1, rest2, the load and the audit: one machine with 2 cores, 23.5 GiB, Debian GNU/Linux 12"
    ]
    assert found["Kedge"] == [f"run by {VERSION}, audited by {VERSION}"]
    assert found["Plan"] == [f"fingerprint {fingerprint(plan)}"]
    assert found["Run"] == ["r, 2026-11-22 08:08:51 to 08:12:25 UTC"]


@pytest.mark.parametrize(
    ("name", "host", "service", "said"),
    [
        ("local-mirror", "mirror1", "mirror_maker", {"distribution": "classic", "version": "3.9.2"}),
        ("local-streams", "streams1", "streams_app", {"distribution": "joins", "version": "4.3.1"}),
        ("local-streams", "leaf1", "kafka_broker", {"version": "4.3.1"}),
    ],
)
def test_each_service_has_its_kind_and_its_version(
    name: str, host: str, service: str, said: dict[str, str]
) -> None:
    inventory = read_inventory(ROOT / "inventories" / name, SERVICES)
    found = versions(inventory, make_plan(inventory).services, SERVICES)
    assert found[host][service] == said
    assert "host_tuning" not in found[host]


def test_machines_of_their_own_stand_apart_from_that_of_the_load(plan: dict[str, Any]) -> None:
    hosts = {"rest1": SHARED | {"boot_id": "a"}, "rest2": SHARED | {"boot_id": "b"}}
    found = lines(RUN | {"subject": subject(plan, LOAD, hosts, SHARED | {"boot_id": "c", "cores": 8})})
    assert found["Machines"] == [
        "rest1: 2 cores, 23.5 GiB, Debian GNU/Linux 12",
        "rest2: 2 cores, 23.5 GiB, Debian GNU/Linux 12",
        "the load and the audit: 8 cores, 23.5 GiB, Debian GNU/Linux 12",
    ]


def test_evidence_from_before_it_was_recorded_says_so_and_what_it_knows() -> None:
    assert lines(RUN) == {
        "Run": ["r, 2026-11-22 08:08:51 to 08:12:25 UTC"],
        "Services": ["not recorded"],
        "Topics": ["t on leaf: partitions 6, replication not recorded"],
        "Load as intended": ["rest to t: 150 records/s, size not recorded, 2 producers"],
        "Machines": ["not recorded"],
        "Plan": ["fingerprint not recorded"],
        "Evidence": ["how many rows each table was to hold: not recorded"],
        "Kedge": [f"run by not recorded, audited by {VERSION}"],
    }


def test_no_address_and_no_secret_is_recorded(plan: dict[str, Any]) -> None:
    document = json.dumps(subject(plan, LOAD, {"rest1": SHARED}, SHARED))
    assert "hunter2" not in document
    assert "http" not in document
    assert "10.77." not in document


def test_the_fingerprint_is_that_of_what_is_planned(plan: dict[str, Any]) -> None:
    other = copy.deepcopy(plan)
    other["archive_files"] = {"a": "/elsewhere/a"}
    other["findings"] = [{"message": "a certificate ends in 29 days"}]
    other["hosts"] = dict(reversed(other["hosts"].items()))
    assert fingerprint(other) == fingerprint(plan)
    rest = other["hosts"]["rest1"]["services"]["kafka_rest"]["instances"][0]
    rest["settings"][0]["value"] = "another"
    assert fingerprint(other) != fingerprint(plan)
    assert fingerprint(plan | {"versions": {}}) != fingerprint(plan)


@pytest.mark.process
def test_a_machine_tells_its_cores_and_memory_and_what_it_lacks_is_left_out() -> None:
    done = subprocess.run(["sh", "-c", MACHINE], capture_output=True, text=True, check=True)
    here = machine(done.stdout.splitlines())
    assert here["cores"] >= 1
    assert here["memory_mib"] > 100
    assert machine(["boot_id=id", "cores=", "memory_kib=2048", "haproxy="]) == {
        "boot_id": "id",
        "memory_mib": 2,
    }
    assert machine([]) == {}


def test_the_version_is_one_everywhere() -> None:
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text()
    number, dev, _ = VERSION.partition(".dev")
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert (f"## {number} (unreleased)" in changelog) == bool(dev)
    last = re.findall(r"^## ([0-9.]+) \([0-9-]+\)$", changelog, re.MULTILINE)[0]
    assert last == number or dev
    assert f"The last release is {last}." in (ROOT / "docs" / "releases.md").read_text()
