"""Changes by search on the fleet, under load: what a deploy changes is drawn, a fifth is killed, the audit judges.

    KEDGE_SEED=7 KEDGE_LOAD_S=1800 python -m pytest -m long tests/e2e/test_changes_search.py

The load goes on for ``KEDGE_LOAD_S`` (300); changes are drawn until it ends. Each is printed, so that a failure's
seed and place can be played again. With ``KEDGE_REST_ARCHIVES`` the same is done to each vendor's proxies.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from kedge.evidence.load_state import reached
from kedge.setup.paths import GENERATED
from lab.demo.archive import checksum
from lab.demo.inventory import derive
from lab.demo.options import Vendor
from lab.services.rest_proxies import VendorArchive
from tests.awaiting import await_that
from tests.contract.answers import ANSWERS
from tests.e2e.playing import ROOT, begin, deployed_fleet, load_alone, play

LOAD_S = int(os.environ.get("KEDGE_LOAD_S", "300"))
#: Printed, so that a run can be repeated; another one on each day.
SEED = int(os.environ.get("KEDGE_SEED", time.strftime("%Y%m%d")))
#: A task of a deploy at which it is killed.
TASKS = range(40, 150)
#: A load that the changes do not disturb.
VERIFY: Final = {"min_s": LOAD_S, "max_s": LOAD_S + 300, "min_records": 1}

Variables = dict[str, Any]


class Subject(NamedTuple):
    """A fleet, what of its inventory is drawn, and what its check may never find."""

    inventory: str
    verify: Variables
    drawn: Callable[[random.Random], Variables]
    check: str
    never: frozenset[str]


def of_proxies(chance: random.Random) -> Variables:
    variables: Variables = {
        "advice": chance.choice(["measured", "measured", "documented"]),
        "kafka_rest_instances_per_host": chance.choice([1, 2, 2, 3]),
    }
    if chance.random() < 0.5:
        variables["kafka_rest_heap_mib"] = chance.choice([512, 640, 768])
    if chance.random() < 0.5:
        variables["kafka_rest_settings"] = {"producer.linger.ms": chance.choice(["1", "10"])}
    return variables


def of_mirrors(chance: random.Random) -> Variables:
    role = yaml.safe_load((ROOT / "inventories/local-mirror/group_vars/mirror_maker/main.yml").read_text())
    (flow,) = role["mirror_maker_flows"].values()
    flow |= {"processes": chance.choice([2, 3, 4, 6]), "latency_budget_ms": chance.choice([3000, 5000])}
    if chance.random() < 0.5:
        flow["consumer_settings"] = {"fetch.max.wait.ms": chance.choice(["100", "500"])}
    return {"mirror_maker_flows": role["mirror_maker_flows"]}


def of_applications(chance: random.Random) -> Variables:
    variables: Variables = {"streams_app_threads": chance.choice([1, 2])}
    if chance.random() < 0.5:
        variables["streams_app_settings"] = {"commit.interval.ms": chance.choice(["5000", "10000"])}
    return variables


#: At-least-once allows a record twice, and out of order, where its answer was lost. It allows nothing of these.
SUBJECTS = {
    "proxies": Subject(
        "inventories/local",
        {
            "kafka": {"records_per_s": 2000},
            "rest": {"records_per_s": 500, "records_per_request": 10},
        },
        of_proxies,
        "delivery",
        frozenset({"lost", "corrupted", "misplaced", "unexpected", "undelivered"}),
    ),
    "mirrors": Subject(
        "inventories/local-mirror",
        {"kafka": {"records_per_s": 3000}},
        of_mirrors,
        "mirror",
        frozenset({"missing", "unexpected", "altered_key", "altered_value", "altered_headers"}),
    ),
    "applications": Subject(
        "inventories/local-streams",
        {},
        of_applications,
        "outputs",
        frozenset({"missing", "unexpected"}),
    ),
}

pytestmark = [pytest.mark.fleet, pytest.mark.long, pytest.mark.timeout(2 * LOAD_S + 1200)]


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """A fleet, deployed; it is removed at the end."""
    found = SUBJECTS[request.param]
    with deployed_fleet(found.inventory):
        yield found


@pytest.fixture
def vendors(vendor: VendorArchive) -> Iterator[Subject]:
    """The fleet of proxies with a vendor's, deployed; it is removed at the end."""
    proxies = SUBJECTS["proxies"]
    build = Vendor(vendor.distribution, vendor.version, vendor.file, checksum(vendor.file))
    base = ROOT / proxies.inventory
    own = derive(base, proxies.verify["kafka"]["records_per_s"], build, GENERATED / "changes-search")

    def drawn(chance: random.Random) -> Variables:
        variables = of_proxies(chance)
        settings = variables.get("kafka_rest_settings", {})
        return variables | {
            "kafka_rest_settings": {
                ANSWERS[vendor.distribution].prefix + key: settings[key] for key in settings
            }
        }

    with deployed_fleet(str(own.relative_to(ROOT))):
        yield proxies._replace(inventory=str(own.relative_to(ROOT)), drawn=drawn)


def deploy(inventory: str, variables: Variables) -> subprocess.CompletedProcess[str]:
    return play("deploy.yml", "-e", json.dumps(variables), inventory=inventory)


def holder(inventory: str) -> str:
    """Return the run that holds the hosts: a verification does, so that nothing changes under its load."""
    refused = deploy(inventory, {})
    found = re.search(r"take_over=([0-9a-f.]+)", refused.stdout)
    assert found, refused.stdout[-6000:]
    return found[1]


def killed(inventory: str, variables: Variables, at: int) -> bool:
    """Deploy, and kill all of it without notice at a task or a step; return whether it got as far."""
    tasks = 0
    with begin("deploy.yml", "-e", json.dumps(variables), inventory=inventory, own_group=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tasks += line.startswith("TASK [") or "=> (item=" in line
            if tasks == at:
                os.killpg(process.pid, signal.SIGKILL)
                return True
    return False


def test_no_record_is_lost_whatever_changes_under_load(subject: Subject, tmp_path: Path) -> None:
    none_lost(subject, tmp_path)


@pytest.mark.promise("changes drawn under load, some of them killed: no record lost")
def test_no_record_of_a_vendors_proxy_is_lost_whatever_changes_under_load(
    vendors: Subject, tmp_path: Path
) -> None:
    none_lost(vendors, tmp_path)


def none_lost(subject: Subject, tmp_path: Path) -> None:
    """Draw changes until the load has ended, and hold the audit's verdict against what may never be."""
    inventory = subject.inventory
    chance = random.Random(SEED)
    now: Variables = {}
    done: list[str] = []
    output = tmp_path / "verify.log"
    verify = VERIFY | subject.verify
    with (
        output.open("w") as file,
        begin(*load_alone(inventory, tmp_path / "runs", verify), inventory=inventory, to=file) as load,
    ):
        await_that(
            lambda: runs_by_now(tmp_path / "runs/latest") or load.poll() is not None,
            "the load runs",
            limit_s=600,
        )
        beside = {"take_over": holder(inventory)}
        while load.poll() is None and not ended(tmp_path / "runs"):
            after = subject.drawn(chance)
            kill = chance.random() < 0.2
            back = chance.random() < 0.5
            at = chance.choice(TASKS)
            print(
                f"change {len(done)}: {now} -> {after}" + f", killed at task {at}, back {back}" * kill,
                flush=True,
            )
            if kill and killed(inventory, after | beside, at) and back:
                after = now
            one = deploy(inventory, after | beside)
            if one.returncode and ended(tmp_path / "runs"):
                break  # the load's groups went while a gate asked for them
            assert one.returncode == 0, one.stdout[-6000:] + one.stderr[-2000:]
            done.append("killed" if kill else "whole")
            now = after
        load.wait()
    last = deploy(inventory, now)
    assert last.returncode == 0, last.stdout[-6000:]
    report = tmp_path / "runs/latest/report/verdicts.json"
    assert report.exists(), output.read_text()[-6000:]
    (check,) = [c for c in json.loads(report.read_text())["checks"] if c["name"] == subject.check]
    print(f"{len(done)} changes, {done.count('killed')} of them killed; seed {SEED}; {check['because']}")
    assert check["verdict"] in ("pass", "fail"), check
    assert not subject.never & check["anomalies"].keys(), check
    assert len(done) >= LOAD_S // 200


def runs_by_now(run: Path) -> bool:
    """Return whether the load of a run sends what counts, or has done so."""
    return (run / "load.state").exists() and reached(run, "running")


def ended(runs: Path) -> bool:
    """Return whether the load has ended, so that nobody would see another change."""
    return json.loads((runs / "latest/evidence/run.json").read_text())["ended_us"] is not None
