"""The inventories that users copy: every file of every instance renders, each key under its reason."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy.rendering import package_links, render_instance, render_settings
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.reading import read_inventory
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ["example", "mapr", "local"]
#: What is not an instance under a unit: host settings, a balancer's own template, commands for a person.
OTHERS = {"host_tuning", "rest_balancer", "mapr_streams", "java"}


def planned(name: str) -> dict[str, Any]:
    return make_plan(read_inventory(ROOT / "inventories" / name, SERVICES)).to_json()


def instances(plan: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Host, unit and instance of every service that runs under a unit."""
    for host, of_host in plan["hosts"].items():
        for service, of_service in of_host["services"].items():
            if service not in OTHERS:
                for instance in of_service["instances"]:
                    yield host, service.replace("_", "-"), instance


def files(plan: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Every rendered file by host, with the host's own settings among them."""
    found: dict[str, dict[str, str]] = {}
    for host, unit, instance in instances(plan):
        rendered = render_instance(unit, instance)
        of_host = {f"{unit}@{instance['name']}/{path}": text for path, text in rendered.items()}
        found.setdefault(host, {}).update(of_host)
    for host, of_host in plan["hosts"].items():
        for instance in of_host["services"].get("host_tuning", {}).get("instances", []):
            found.setdefault(host, {})["sysctl"] = render_settings("60-kedge.conf", instance["settings"])
    return found


def keys_without_reason(text: str) -> list[str]:
    """Keys of a rendered file that do not stand directly under a comment."""
    lines = text.splitlines()
    return [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if sets(line) and not before.startswith("# ")
    ]


def sets(line: str) -> bool:
    """Whether a line of a rendered file sets a key: pairs, or arguments of a command."""
    return ("=" in line and not line.startswith("#")) or line.startswith(("-", "kafka.tools."))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_file_renders_with_a_reason_above_each_key(name: str) -> None:
    plan = planned(name)
    rendered = files(plan)
    assert set(rendered) >= {host for host, _, _ in instances(plan)}
    assert {
        host: keys for host, f in rendered.items() if (keys := keys_without_reason("\n".join(f.values())))
    } == {}
    settings = sum(len(i["settings"]) for _, _, i in instances(plan))
    written = sum(
        sets(line)
        for of_host in rendered.values()
        for path, text in of_host.items()
        if path != "sysctl"
        for line in text.splitlines()
    )
    assert written == settings > 0


@pytest.mark.process
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_setting_has_rule_reason_and_source(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kedge", "plan", "--inventory", f"inventories/{name}", "--format", "json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    rows = [
        s
        for host in plan["hosts"].values()
        for service in host["services"].values()
        for instance in service["instances"]
        for s in instance["settings"]
    ]
    rows += [
        s for cluster in plan["topics"].values() for topic in cluster.values() for s in topic["settings"]
    ]
    rows += [s for client in plan["clients"].values() for s in client["settings"]]
    assert len(rows) > 30
    assert [s for s in rows if not (s["rule"].strip() and s["because"].strip() and s["source"].strip())] == []


def test_a_file_that_a_package_reads_from_its_own_place_is_in_the_release() -> None:
    first = next(i for _, _, i in instances(planned("mapr")) if i["name"] == "8082")
    assert "streams.default.stream" in render_instance("kafka-rest", first)["kafka-rest.properties"]
    config = "/opt/mapr/kafka-rest/kafka-rest-5.1.2/config"
    assert package_links("kafka-rest", first) == {
        f"{config}/{name}": f"/etc/kafka-rest/8082/{name}"
        for name in ("kafka-rest.properties", "log4j.properties")
    }


def test_two_files_of_one_name_are_refused() -> None:
    setting = {"key": "id", "value": "a", "rule": "r", "because": "b", "source": "s", "basis": "derived"}
    places = ["/opt/a/kafka-rest.properties", "/etc/kafka-rest/8082/kafka-rest.properties"]
    instance = {"name": "8082", "settings": [setting | {"file": place} for place in places]}
    with pytest.raises(ValueError, match=r"would be one file, kafka-rest\.properties"):
        render_instance("kafka-rest", instance)


def without(inventory: Inventory, host: str) -> Inventory:
    groups = {g: tuple(h for h in hosts if h != host) for g, hosts in inventory.groups.items()}
    return Inventory({h: v for h, v in inventory.hosts.items() if h != host}, groups)


def ten_rest_hosts(name: str) -> Inventory:
    """An example inventory with its first REST host's variables on ten hosts."""
    read = read_inventory(ROOT / "inventories" / name, SERVICES)
    first = read.group("kafka_rest")[0]
    names = tuple(f"rest{n}" for n in range(1, 11))
    kept = {h: v for h, v in read.hosts.items() if h not in read.group("kafka_rest")}
    hosts = kept | {h: dict(read.hosts[first]) for h in names}
    groups = {g: tuple(h for h in of if h in kept) for g, of in read.groups.items()}
    return Inventory(hosts, groups | {"kafka_rest": names, "all": (*groups.get("all", ()), *names)})


@pytest.mark.parametrize("name", ["example", "mapr"])
def test_removing_the_first_of_ten_rest_hosts_changes_no_other_hosts_files(name: str) -> None:
    all_ten = ten_rest_hosts(name)
    before = files(make_plan(all_ten).to_json())
    after = files(make_plan(without(all_ten, "rest1")).to_json())
    assert "rest1" in before
    assert len(before) >= 10
    assert {h: f for h, f in before.items() if h != "rest1"} == after
