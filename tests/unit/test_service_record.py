"""A service is one record: what is registered in one place is planned, checked and rolled like all others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import Field

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.archives import read_archives
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.versions import versions
from kedge.plan.plan import Part, Plan, PlannedInstance
from kedge.plan.restart_waits import GROUPS_BACK, ready
from kedge.plan.service import (
    Archive,
    FastLink,
    Given,
    JavaNeed,
    Kernel,
    Ports,
    Service,
    group_names,
    own_clusters,
)
from kedge.plan.settings import Choice, Sheet
from kedge.plan.variables import HeapMib, Port, Positive, Strict, role_variables
from kedge.review.as_inventory import VERSIONS
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from tests.planned import CLUSTERS, value

ROOT = Path(__file__).parents[2]
NAME = "schema_registry"
FILE = "/etc/schema-registry/registry.properties"
SECURED = {"protocol": "SASL_SSL", "ca": "ca.pem", "user": "kit", "password": "x" * 8}


class Subject(Strict):
    """A subject of the registry."""

    compatibility: str


class SchemaRegistry(Strict):
    """The variables of the toy."""

    cluster: str
    port: Port = 8081
    heap_mib: HeapMib = 256
    archive: str | None = None
    archive_checksum: str = ""
    settings: dict[str, str] = Field(default_factory=dict)
    subjects: dict[str, Subject] = Field(default_factory=dict)
    ready_seconds: Positive = 45
    gate_seconds: Positive = 90
    gate_max_lag: Positive = 500


def plan_registries(given: Given) -> Part:
    services, findings = {}, list[Finding]()
    for host in given.inventory.group(NAME):
        variables = role_variables(SchemaRegistry, NAME, host, given.inventory.hosts[host])
        if isinstance(variables, list):
            findings += variables
            continue
        sheet = Sheet(f"{host} {NAME}", given.advice, variables.settings)
        sheet.put(
            FILE, "kafkastore.topic", "registry.topic", Choice("_schemas", "its own", "a toy", "derived")
        )
        memory = Choice(f"{variables.heap_mib + 128}M", "heap and 128 MiB beside it", "a toy", "estimate")
        sheet.put("/unit", "MemoryMax", "registry.memory", memory)
        services[host] = {NAME: (PlannedInstance("registry", sheet.by_file(), variables.port),)}
    return Part(services=services, findings=tuple(findings))


def archives(variables: Mapping[str, Any]) -> Iterator[Archive]:
    names = (f"{NAME}_archive", f"{NAME}_archive_checksum")
    yield Archive(*names, *map(variables.get, names))


REGISTRY = Service(
    name=NAME,
    variables=SchemaRegistry,
    of_role=(f"{NAME}_cache",),
    plan=plan_registries,
    clusters=own_clusters(NAME),
    java=lambda *_: JavaNeed(21, "a registry of today", "a toy"),
    ports=Ports(f"{NAME}_port"),
    memory=f"{NAME}_heap_mib",
    many_connections=True,
    links=lambda inventory: [FastLink(host, 20_000_000, "a far registry") for host in inventory.group(NAME)],
    kernel=(
        Kernel("vm.swappiness", "host.registry", Choice(1, "it waits for no disk", "a toy", "estimate")),
    ),
    waits=(ready("an estimate: it reads its topic first", "a toy", "estimate"), *GROUPS_BACK),
    archives=archives,
    version=lambda *_: "7.7",
)
WITH_TOY = (*SERVICES, REGISTRY)


def inventory(hosts: tuple[str, ...] = ("sr1",), group: str = NAME, **variables: Any) -> Inventory:
    common = {
        "kafka_clusters": {"own": {"version": "4.3.1", "brokers": "kafka_broker"}, **CLUSTERS},
        "host_cores": 2,
        "host_memory_mib": 4096,
        f"{NAME}_cluster": "own",
    }
    every = dict.fromkeys((*hosts, "kafka1"), common | variables)
    return Inventory(every, {group: hosts, "kafka_broker": ("kafka1",)})


def planned(**variables: Any) -> Plan:
    return make_plan(inventory(**variables), services=WITH_TOY)


def errors(plan: Plan) -> list[tuple[str, str, str]]:
    return [(f.where, f.message, f.fix) for f in plan.findings if f.severity == "error"]


def test_a_registered_service_is_planned_with_its_java_its_kernel_and_the_cluster_that_it_uses() -> None:
    plan = planned()
    assert errors(plan) == []
    of_host = plan.services["sr1"]
    assert value(of_host[NAME][0], "kafkastore.topic") == "_schemas"
    assert value(of_host["java"][0], "release") == "21"
    kernel = of_host["host_tuning"][0]
    assert value(kernel, "vm.swappiness") == "1"
    assert value(kernel, "net.ipv4.ip_local_reserved_ports") == "8081"
    assert value(kernel, "net.core.rmem_max") == "40000000"
    # Only brokers of a cluster that something uses are planned.
    assert "kafka_broker" in plan.services["kafka1"]
    assert plan.to_json()["hosts"]["sr1"]["services"][NAME]["instances"][0]["port"] == 8081


def test_without_its_record_nothing_of_it_is_planned() -> None:
    assert "sr1" not in make_plan(inventory()).services


def test_its_rollout_waits_as_its_variables_say() -> None:
    rollout = {s.key: (s.value, s.by) for s in planned(schema_registry_gate_seconds=7).rollouts["sr1"][NAME]}
    assert rollout == {
        "ready_seconds": ("45", "plan"),
        "gate_seconds": ("7", "person"),
        "gate_max_lag": ("500", "plan"),
        "start_at_once": ("4", "plan"),
    }


def test_a_java_that_is_too_old_for_it_is_an_error() -> None:
    ((where, message, _),) = errors(planned(java_version=17))
    assert where == "sr1: java_version"
    assert "a registry of today starts on Java 21" in message


def test_its_ports_are_held_against_those_of_others() -> None:
    ((_, message, fix),) = errors(planned(schema_registry_port=80))
    assert message.startswith(f"{NAME} would listen on port 80")
    assert fix.startswith(f"set {NAME}_port to 1024 or above")
    same = dict.fromkeys(("sr1", "sr2"), "10.0.0.1")
    two = inventory(("sr1", "sr2"))
    hosts = {h: {**v, "ansible_host": same.get(h, h)} for h, v in two.hosts.items()}
    ((_, message, fix),) = errors(make_plan(Inventory(hosts, two.groups), services=WITH_TOY))
    assert message == f"port 8081 of 10.0.0.1 is wanted by {NAME}@registry of sr1 and {NAME}@registry of sr2"
    assert fix.startswith("change kafka_rest_first_port, kafka_broker_port, rest_balancer_port, "
                          f"canary_port or {NAME}_port, or the address")  # fmt: skip


def test_its_memory_is_counted_and_the_variable_named_that_lowers_it() -> None:
    ((where, message, fix),) = errors(planned(schema_registry_heap_mib=8192))
    assert (where, f"{NAME} 1 x 8320 MiB" in message) == ("sr1: host_memory_mib", True)
    assert f"set a smaller {NAME}_heap_mib" in fix


@pytest.mark.parametrize(
    ("variables", "name", "fix"),
    [
        ({f"{NAME}_clutser": "own"}, f"{NAME}_clutser", f"did you mean {NAME}_cluster?"),
        ({f"{NAME}_port": "8081"}, f"{NAME}_port", "write 8081 without quotes"),
        ({"recommended": {f"{NAME}_heap_mb": 512}}, f"recommended.{NAME}_heap_mb",
         f"did you mean recommended.{NAME}_heap_mib?"),
        ({"recommended": {f"{NAME}_subjects": {"order": {"compatibility": "FULL"}}}},
         f"recommended.{NAME}_subjects.order", "did you mean orders?"),
    ],
)  # fmt: skip
def test_a_wrong_variable_of_it_is_found(variables: dict[str, Any], name: str, fix: str) -> None:
    subjects = {f"{NAME}_subjects": {"orders": {"compatibility": "NONE"}}}
    ((where, _, mend),) = errors(planned(**subjects, **variables))
    assert (where.rpartition(": ")[2], mend) == (name, fix)


@pytest.mark.parametrize("name", [f"{NAME}_port", f"{NAME}_cache"])
def test_a_variable_that_is_nearly_one_of_it_is_found(name: str) -> None:
    misspelt = name.replace("registry", "regsitry")
    found = {f.fix for f in planned(**{misspelt: 1}).findings if f.message == f"nothing reads {misspelt}"}
    assert found == {f"did you mean {name}?"}


def test_a_recommendation_reaches_its_hosts() -> None:
    plan = planned(recommended={f"{NAME}_heap_mib": 512})
    assert value(plan.services["sr1"][NAME][0], "MemoryMax") == "640M"


def test_a_group_that_is_nearly_called_so_is_found() -> None:
    plan = make_plan(inventory(group="schema_registri"), services=WITH_TOY)
    ((where, message, fix),) = errors(plan)
    assert (where, fix) == ("group schema_registri", f"did you mean {NAME}?")
    assert message.endswith("whose hosts are sr1")


def test_its_archive_is_held_against_its_checksum(tmp_path: Path) -> None:
    (tmp_path / "registry.tar.gz").write_text("not what was asked for")
    path = str(tmp_path / "registry.tar.gz")
    mine = inventory(schema_registry_archive=path, schema_registry_archive_checksum="a1" * 32)
    plan = make_plan(mine, archives=read_archives(mine, WITH_TOY), deploying=True, services=WITH_TOY)
    ((where, _, _),) = errors(plan)
    assert where == f"sr1: {NAME}_archive_checksum"


def test_its_version_is_said_by_its_record() -> None:
    assert versions(inventory(), {"sr1": [NAME]}, WITH_TOY) == {"sr1": {NAME: {"version": "7.7"}}}


def test_it_may_be_restarted_under_load() -> None:
    topic = {"name": "t", "cluster": "own", "partitions": 1}
    verify = {"cluster": "own", "kafka": {"topic": "t", "records_per_s": 10, "group": "g"}}
    asked = {"kafka_topics": [topic], "verify": verify | {"service": NAME}}
    assert errors(planned(**asked)) == []
    asked["verify"] = verify | {"service": "schema_registri"}
    ((where, _, fix),) = errors(planned(**asked))
    assert (where, fix) == ("all: verify.service", f"write one of: kafka_broker, {NAME}")


def test_its_variables_are_read_from_an_inventory_with_their_templates(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(
        f"all:\n  vars: {{base: 8000}}\n  children:\n    {NAME}:\n      hosts: {{sr1: }}\n"
        f"      vars: {{{NAME}_port: '{{{{ base + 81 }}}}'}}\n"
    )
    assert read_inventory(tmp_path, WITH_TOY).hosts["sr1"][f"{NAME}_port"] == 8081
    assert read_inventory(tmp_path, SERVICES).hosts["sr1"][f"{NAME}_port"] is None


def plays(playbook: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load((ROOT / playbook).read_text()))


def test_deploy_has_for_each_service_a_play_that_deploys_it_and_one_that_restarts_it() -> None:
    deployed = [p for p in plays("deploy.yml") if "roles" in p]
    roles = {p["hosts"]: [role["role"] for role in p["roles"]] for p in deployed}
    restarted = {
        p["hosts"]: task["ansible.builtin.include_role"]["name"]
        for p in plays("deploy.yml")
        for task in p.get("tasks", ())
        if p["hosts"].startswith("restart_") and p["vars"] == {"instances_task": "restart"}
    }
    # Those of which several may go at once have their batches in a playbook of its own.
    for p in (
        p for p in plays("deploy.yml") if p.get("ansible.builtin.import_playbook") == "restart_batches.yml"
    ):
        assert p["vars"]["rollout_due"] == "staged"
        name = p["vars"]["rollout_service"]
        restarted[f"restart_{name}"] = name
    for service in (one for one in SERVICES if one.plan is not None):
        expected = ["java", service.name] if service.java else [service.name]
        assert roles[service.name] == expected, service.name
        assert restarted[f"restart_{service.name}"] == service.name
    assert roles["all"] == ["host_tuning"]


def test_deploy_names_no_group_that_is_not_registered() -> None:
    known = {"all", "localhost", *group_names(SERVICES)}
    # One play asks the plan for its hosts.
    asked = {p["hosts"] for p in plays("deploy.yml") if "hosts" in p and "{{" not in p["hosts"]}
    groups = {re.sub("^(restart|stale|changing)_", "", one) for hosts in asked for one in hosts.split(":")}
    groups |= {
        p["vars"]["rollout_service"] for p in plays("deploy.yml") if "rollout_service" in p.get("vars", {})
    }
    assert groups <= known


@pytest.mark.parametrize("service", [s for s in SERVICES if s.variables], ids=lambda service: service.name)
def test_each_role_has_the_variables_of_its_record(service: Service) -> None:
    role = ROOT / "roles" / service.name
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())
    asked = set(specs["argument_specs"]["main"]["options"])
    assert asked <= {*service.fields(), *service.of_role}
    assert (role / "tasks/drift.yml").is_file()
    assert (role / "tasks/instances.yml").is_file() == service.restarted


@pytest.mark.parametrize("service", [s for s in SERVICES if s.variables], ids=lambda service: service.name)
def test_what_a_role_finds_out_is_not_taken_for_a_variable_by_a_second_plan(service: Service) -> None:
    """compare.yml plans after its deploy: a registered name like a variable's would be refused as misspelt."""
    files = (ROOT / "roles" / service.name).glob("tasks/*.yml")
    made = re.findall(r"^ *register: *(\w+)", "\n".join(map(Path.read_text, files)), flags=re.MULTILINE)
    assert [name for name in made if name.startswith(f"{service.name}_")] == []


def test_a_service_is_registered_once_and_after_one_that_there_is() -> None:
    names = [service.name for service in SERVICES]
    assert len(set(names)) == len(names)
    assert {service.after for service in SERVICES} - {None} <= set(names)


@pytest.mark.parametrize("service", [s for s in SERVICES if s.waits], ids=lambda service: service.name)
def test_what_a_service_waits_for_is_among_its_variables(service: Service) -> None:
    assert {f"{service.name}_{wait.key}" for wait in service.waits} <= set(service.fields())


def test_a_kind_of_file_is_of_one_service() -> None:
    kinds = [kind for one in SERVICES for kind in one.kinds]
    assert len(kinds) == len(set(kinds))
    assert set(VERSIONS) == set(kinds), "a review has versions of each"


def test_what_clients_notice_has_one_name_over_all_services() -> None:
    names = [name for one in SERVICES for name in (*one.allowed, *one.instead)]
    assert len(names) == len(set(names))
    yielded = set()
    for path in (ROOT / "kedge" / "services").glob("*/notices.py"):
        yielded |= set(re.findall(r'yield "(\w+)",', path.read_text()))
    assert yielded
    assert yielded <= set(names), "refusal() says of each what is to be done"


#: What knows a service by its name outside of its folder, and why; no others may.
NAMED = {
    "kedge/cli.py",  # the command of the same name
    "kedge/evidence/load_options.py",  # the default of verify.service, on a floor below all services
    "plugins/modules/haproxy_drain.py",  # runs on hosts, which have no records
}


def test_no_code_names_a_service_outside_of_its_folder() -> None:
    named = re.compile("|".join(f'"{service.name}"' for service in SERVICES if service.plan))
    found = set()
    for folder in ("kedge", "plugins", "spark_checks", "verify"):
        for path in (ROOT / folder).rglob("*.py"):
            where = path.relative_to(ROOT).as_posix()
            own = where.startswith(("kedge/services/", "verify/state/"))
            if not own and named.search(path.read_text()):
                found.add(where)
    assert found == NAMED, "ask the record of the service, or take it out of the list"
