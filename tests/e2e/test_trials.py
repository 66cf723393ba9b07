"""Trials on real nodes: a search that is interrupted and goes on, and variants that take turns.

Both with loads so small that everything passes on a machine with nothing else to do: what is tested is what
becomes of the hosts, and what is left. Eleven minutes on two cores.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.playing import ROOT, begin, local_fleet, on_node, play, recap

INVENTORY: Final = "inventories/local"
INSTANCES: Final = [(host, port) for host in ("rest1", "rest2") for port in ("8082", "8083")]
#: The plan follows them too: deploys and trials are given the same.
LEVELS: Final = {
    "delivery": {"lost": 0, "undelivered": 0},
    "latency": {"rest": {"ack_p99_ms": 20_000}},
}
#: Records/s that cold proxies carry beside other tests.
RATE: Final = 300
SMALL: Final = {
    "service_levels": LEVELS,
    "trials_short_s": 2,
    "trials_full_s": 5,
    "trials_warm_up_s": 2,
    "trials_fresh_s": 8,
    "trials_most_full": 2,
    "trials_ceiling": RATE,
}
LIMIT_S: Final = 600

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("deployed"),
]


@pytest.fixture(scope="module")
def deployed() -> Iterator[None]:
    """The demo's fleet, deployed and without load; it is removed at the end."""
    try:
        local_fleet("up", INVENTORY)
        first = play("deploy.yml", "-e", json.dumps({"service_levels": LEVELS}), inventory=INVENTORY)
        assert first.returncode == 0, first.stdout
        yield
    finally:
        local_fleet("down", INVENTORY)


def active() -> list[tuple[str, str]]:
    """The instances that run."""
    return [
        (host, port)
        for host, port in INSTANCES
        if on_node("kedge", host, f"systemctl is-active kafka-rest@{port}", check=False).strip() == "active"
    ]


def trials_of(output: str) -> list[str]:
    """Return what each trial was told to be."""
    return re.findall(r"^trial \d+ of \d+[^:]*: ([a-z]+)", output, re.MULTILINE)


def interrupted_at(line_of: str, *arguments: str) -> str:
    """Play until a line says this, then press Ctrl-C; return what was said."""
    said = ""
    with begin(*arguments, inventory=INVENTORY, own_group=True) as playbook:
        assert playbook.stdout is not None
        try:
            for line in playbook.stdout:
                said += line
                if re.search(line_of, line):
                    break
            else:
                raise AssertionError(f"it ended without {line_of!r}: {said[-3000:]}")
        finally:
            if playbook.poll() is None:
                # As a terminal does: to all that it started.
                os.killpg(playbook.pid, signal.SIGINT)
        playbook.wait(LIMIT_S)
    return said


def test_a_search_goes_on_after_ctrl_c_and_tells_the_plan(tmp_path: Path) -> None:
    before = interrupted_at(r"^trial \d+ of \d+ at most: away", "capacity.yml", "-e", json.dumps(SMALL))
    assert trials_of(before) == ["healthy", "restart", "healthy", "restart", "away"]
    run = (ROOT / "runs" / "latest").resolve()
    # The run itself brings the host back, and the next one waits for it.
    after = play("capacity.yml", "-e", json.dumps(SMALL | {"resume": run.name}), inventory=INVENTORY)
    assert after.returncode == 0, after.stdout[-4000:]
    assert f"going on after 4 load tests of {run.name}" in after.stdout
    assert trials_of(after.stdout) == ["away", "away"]
    assert active() == INSTANCES
    numbers = [json.loads(path.read_text())["number"] for path in sorted(run.glob("trials/*/trial.json"))]
    assert numbers == [1, 2, 3, 4, 5, 6]
    answers = json.loads((run / "report" / "capacity.json").read_text())["answers"]
    assert [(one["condition"], one["carries"], one["at_least"]) for one in answers] == [
        (name, float(RATE), True) for name in ("healthy", "restart", "away")
    ]
    text = (run / "report" / "report.html").read_text()
    assert f"at least {RATE} records/s (no load failed, up to {RATE} records/s)" in text
    stays_within_the_search(run)
    what_the_plan_says_of(run, tmp_path)


def stays_within_the_search(run: Path) -> None:
    """No host was away in a healthy trial, and an instance restarted where one was to."""
    for path in sorted(run.glob("trials/*/trial.json")):
        trial = json.loads(path.read_text())
        rows = json.loads((path.parent / "report" / "verdicts.json").read_text())
        restarts = {check["name"]: check["measured"] for check in rows["checks"]}["rebalance"].get(
            "restarts", 0
        )
        assert bool(restarts) == (trial["condition"] == "restart"), trial
        assert trial["passed"], trial


def what_the_plan_says_of(run: Path, folder: Path) -> None:
    """The file of a search is one that plan.yml takes, and a workload beyond it is found."""
    recommendations = run / "report" / "recommendations.yml"
    measured = yaml.safe_load(recommendations.read_text())["recommended"]["kafka_rest_measured_capacity"]
    assert (measured["records_per_s"], measured["at_least"], measured["closed"]) == (RATE, True, True)
    assert (measured["one_away_records_per_s"], measured["one_restarting_records_per_s"]) == (RATE, RATE)
    kept = folder / "measured.yml"
    more: dict[str, Any] = {
        # A node sees all cores of the machine.
        "host_cores": measured["cores"],
        "kafka_rest_workload": {"records_per_s": 5000, "record_bytes": 100, "records_per_request": 100},
    }
    kept.write_text(yaml.safe_dump(more))
    planned = play("plan.yml", "-e", f"@{recommendations}", "-e", f"@{kept}", inventory=INVENTORY)
    assert planned.returncode == 0, planned.stdout[-3000:]
    # Lines are broken where they are long.
    assert f"at least {RATE} records/s are sustained" in " ".join(planned.stdout.split())


def test_arms_take_turns_and_the_hosts_get_back_what_they_had(tmp_path: Path) -> None:
    lingering = tmp_path / "lingering.yml"
    lingering.write_text(yaml.safe_dump({"kafka_rest_settings": {"producer.linger.ms": 3}}))
    given = SMALL | {"trials_blocks": 1, "trials_restarts": False}
    done = play(
        "compare.yml", "-e", json.dumps(given), "-e", f"arms=planned,{lingering}", inventory=INVENTORY
    )
    assert done.returncode == 0, done.stdout[-4000:]
    run = (ROOT / "runs" / "latest").resolve()
    document = json.loads((run / "report" / "comparison.json").read_text())
    variant = str(lingering)
    assert [one["kind"] for one in document["trials"]] == ["planned", variant, variant, "planned"]
    assert all(one["passed"] for one in document["trials"])
    names = {one["name"] for one in document["figures"][variant]}
    assert {"latency.rest.ack_p99_ms", "cost.kafka_rest_rss_mib"} <= names
    for number, one in enumerate(document["trials"], 1):
        plan = json.loads((run / "trials" / one["folder"] / "plan.json").read_text())
        (first, _) = plan["hosts"]["rest1"]["services"]["kafka_rest"]["instances"]
        values = {row["key"]: row["value"] for row in first["settings"]}
        assert (values.get("producer.linger.ms") == "3") == (one["kind"] == variant), number
    # Two of the four variants follow themselves, so that no deploy restarts their processes.
    played = (run / "trials" / "playbooks.log").read_text()
    assert played.count("== rolling_restart.yml") == 2
    # What is there now is what the inventory plans.
    for host, port in INSTANCES:
        properties = on_node("kedge", host, f"cat /etc/kafka-rest/{port}/kafka-rest.properties")
        assert "producer.linger.ms=3" not in properties
    levels = json.dumps({"service_levels": LEVELS})
    again = play("deploy.yml", "--check", "-e", levels, inventory=INVENTORY)
    assert again.returncode == 0, again.stdout[-3000:]
    assert all(host["changed"] == 0 for host in recap(again.stdout).values())
