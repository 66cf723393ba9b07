"""What Ansible does with variables and does not say is found."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from kedge.plan.inventory import reading
from kedge.plan.inventory.precedence import check_precedence
from kedge.plan.inventory.reading import prefixes, read_inventory
from kedge.plan.inventory.yaml_files import InventoryError
from kedge.plan.service import group_names
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from tests.planned import CLUSTERS

HOSTS = """
all:
  children:
    kafka_rest: {hosts: {h1: , h2: }, vars: {host_cores: 16}}
    mirror_maker: {hosts: {h1: }}
    east: {children: {east_rest: {hosts: {h1: }}}}
"""


def ambiguous(folder: Path, files: dict[str, str], hosts: str = HOSTS, *given: str) -> list[tuple[str, str]]:
    for name, text in {
        "hosts.yml": hosts,
        "group_vars/all.yml": f"kafka_clusters: {CLUSTERS}",
        **files,
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(dedent(text))
    plan = make_plan(read_inventory(folder, SERVICES, given))
    found = [f for f in plan.findings if f.rule == "inventory.groups"]
    assert {f.severity for f in found} <= {"warning"}
    return [(f.where, f.message.partition(" different")[0]) for f in found]


def test_groups_of_one_depth_with_different_values_are_a_warning(tmp_path: Path) -> None:
    files = {
        "group_vars/kafka_rest.yml": "java_version: 17",
        "group_vars/mirror_maker/main.yml": "java_version: 21",
    }
    assert ambiguous(tmp_path, files) == [
        ("h1: java_version", "the groups kafka_rest and mirror_maker give java_version")
    ]


def test_so_are_those_of_the_inventorys_own_file(tmp_path: Path) -> None:
    hosts = HOSTS.replace("mirror_maker: {", "mirror_maker: {vars: {host_cores: 8}, ")
    assert ambiguous(tmp_path, {}, hosts) == [
        ("h1: host_cores", "the groups kafka_rest and mirror_maker give host_cores")
    ]


def test_keys_that_another_mapping_hides_are_named_in_a_note(tmp_path: Path) -> None:
    files = {
        "group_vars/kafka_rest.yml": "kafka_rest_settings: {a: 1, b: 2, c: 3}\nkafka_rest_workload: {readers: 1}",
        "host_vars/h1.yml": "kafka_rest_settings: {a: 4}\nmy_settings: {a: 1}",
        "host_vars/h2.yml": "kafka_rest_workload: '{{ mine }}'\nmine: {consumers: 3}",
        "group_vars/east.yml": "my_settings: {b: 1}",
    }
    ambiguous(tmp_path, files)
    (note,) = [f for f in read_inventory(tmp_path, SERVICES).source_findings if f.rule == "inventory.hidden"]
    assert (note.severity, note.where) == ("note", "h1: kafka_rest_settings")
    assert note.message == (
        "kafka_rest_settings of the host replaces that of the group kafka_rest as a whole: b, c of it do not count"
    )
    # An extra variable goes before both.
    given = read_inventory(tmp_path, SERVICES, ['{"kafka_rest_settings": {}}'])
    assert not [f for f in given.source_findings if f.rule == "inventory.hidden"]


def test_facts_that_a_plan_has_not_are_named(tmp_path: Path) -> None:
    files = {
        "group_vars/kafka_rest.yml": """
            host_cores: "{{ cores }}"
            cores: "{{ ansible_facts.processor_vcpus | default(4) }}"
            java_version: "{{ ansible_host }}"
        """,
        "host_vars/h1.yml": "ansible_host: 10.0.0.1",
        "host_vars/h2.yml": "{host_cores: 8, ansible_host: 10.0.0.2}",
    }
    ambiguous(tmp_path, files, HOSTS.replace(", vars: {host_cores: 16}", ""))
    inventory = read_inventory(tmp_path, SERVICES)
    assert [(f.severity, f.where) for f in inventory.source_findings if f.rule == "inventory.facts"] == [
        ("warning", "h1: host_cores")
    ]
    assert inventory.hosts["h1"]["host_cores"] == 4
    gathered = {"ansible_facts": {"processor_vcpus": 8}, "host_cores": "{{ ansible_facts.processor_vcpus }}"}
    assert reading.without_facts({"h1": gathered}, ("host_",)) == ()


def test_variables_beside_the_playbooks_count_as_they_do_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, elsewhere = tmp_path / "clone", tmp_path / "elsewhere"
    for folder, cores in ((clone, 3), (elsewhere, 5)):
        (folder / "group_vars").mkdir(parents=True)
        (folder / "group_vars" / "all.yml").write_text(f"host_cores: {cores}")
    (clone / "plan.yml").touch()
    (tmp_path / "hosts.yml").write_text("all: {hosts: {h1: }}")
    monkeypatch.setattr(reading, "_CLONE", clone)
    monkeypatch.chdir(elsewhere)
    assert read_inventory(tmp_path / "hosts.yml", SERVICES).hosts["h1"]["host_cores"] == 3


def test_a_number_of_the_command_line_is_no_text(tmp_path: Path) -> None:
    ambiguous(tmp_path, {})
    words = ["host_cores=8 kafka_rest_heap_mib=900", "kafka_rest_version=8.3", "kafka_rest_password=12345678"]
    read = read_inventory(tmp_path, SERVICES, [*words, '{"kafka_rest_package": "7"}', "kafka_x=true"]).hosts[
        "h1"
    ]
    given = [
        read[f"kafka_{name}"]
        for name in ("rest_heap_mib", "rest_version", "rest_password", "rest_package", "x")
    ]
    assert given == [900, "8.3", "12345678", "7", True]
    assert read["host_cores"] == 8


def test_a_vault_that_another_password_opens_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = (("default", VaultSecret(b"another-one")),)
    monkeypatch.setattr(reading, "vault_passwords", lambda: wrong)
    with pytest.raises(InventoryError) as error:
        ambiguous(tmp_path, {"group_vars/kafka_rest.yml": vault("17")})
    assert "java_version of h1" in str(error.value)
    assert "ecrypt" in str(error.value)
    assert "give the password that it was encrypted with" in str(error.value)
    assert "write the value" not in str(error.value)


def vault(secret: str) -> str:
    sealed = VaultLib().encrypt(secret, VaultSecret(b"hidden-one"), "default").decode()
    return "java_version: !vault |\n" + indent(sealed, "  ")


@pytest.mark.parametrize(
    "files",
    [
        {"group_vars/kafka_rest.yml": vault("17"), "group_vars/mirror_maker.yml": vault("21")},
        {"group_vars/kafka_rest.yml": "java_version: 17", "group_vars/mirror_maker.yml": vault("21")},
        {
            "group_vars/kafka_rest.yml": "java_version: 17",
            "group_vars/mirror_maker.yml": "java_version: 21",
            "host_vars/h1.yml": vault("11"),
        },
    ],
    ids=["both", "one", "host"],
)
def test_a_vault_whose_password_is_not_at_hand_differs_from_nothing(
    tmp_path: Path, files: dict[str, str]
) -> None:
    assert ambiguous(tmp_path, files) == []


@pytest.mark.parametrize(
    "files",
    [
        {"group_vars/mirror_maker.yml": "java_version: 17"},
        {"group_vars/mirror_maker.yml": "java_version: 21", "host_vars/h1.yml": "java_version: 11"},
        {"group_vars/mirror_maker.yml": "java_version: 21", "group_vars/east_rest.yml": "java_version: 11"},
        {"group_vars/all.yml": f"{{kafka_clusters: {CLUSTERS}, java_version: 21}}"},
        {"group_vars/kafka_rest.yml": "my_own: 1", "group_vars/mirror_maker.yml": "my_own: 2"},
    ],
    ids=["alike", "host", "deeper", "all", "read by no rule"],
)
def test_what_ansible_is_told_to_take_is_not(tmp_path: Path, files: dict[str, str]) -> None:
    assert ambiguous(tmp_path, {"group_vars/kafka_rest.yml": "java_version: 17"} | files) == []


def test_files_of_groups_and_hosts_that_are_not_there_are_found(tmp_path: Path) -> None:
    files = {
        "group_vars/kafka_rset/main.yml": "a: 1",
        "group_vars/elsewhere.yml": "a: 1",
        "host_vars/h3.yml": "a: 1",
        "host_vars/h1.yml": "a: 1",
    }
    ambiguous(tmp_path, files)
    plan = make_plan(read_inventory(tmp_path, SERVICES))
    assert [(f.severity, f.where, f.fix) for f in plan.findings if f.rule == "inventory.files"] == [
        ("warning", "group_vars/kafka_rset", "did you mean kafka_rest?"),
        ("note", "group_vars/elsewhere", "add the group, or take the file out"),
        ("note", "host_vars/h3", "add the host, or take the file out"),
    ]


def test_a_host_that_is_a_line_of_a_certificates_file_is_named(tmp_path: Path) -> None:
    """Ansible passes over such files where its configuration says so, as Kedge's does; others do not."""
    ambiguous(tmp_path, {})
    (tmp_path / "ca.srl").write_text("4A0BFF1E\n")
    inventory = read_inventory([tmp_path / "hosts.yml", tmp_path / "ca.srl"], SERVICES)
    (found,) = [f for f in inventory.source_findings if f.rule == "inventory.files"]
    assert (found.severity, found.where) == ("warning", "4A0BFF1E")
    assert "ca.srl, which is no inventory" in found.message


def test_a_text_beside_variables_is_none(tmp_path: Path) -> None:
    ambiguous(tmp_path, {"group_vars/README": "a text", "group_vars/kafka_rset": "a: 1"})
    plan = make_plan(read_inventory(tmp_path, SERVICES))
    assert [f.fix for f in plan.findings if f.rule == "inventory.files"] == ["did you mean kafka_rest?"]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("staging.yml", HOSTS.replace("kafka_rest", "kafka_rset"), 0),
        ("staging", "[kafka_rset]\nh1\n", 0),
        ("site.yml", "- hosts: all\n", 1),
        ("ansible.cfg", "[defaults]\n", 1),
        ("Makefile", "all: deploy\n", 1),
    ],
)
def test_variables_that_another_inventory_may_read_are_left_alone(
    tmp_path: Path, name: str, text: str, found: int
) -> None:
    files = {"hosts.yml": HOSTS, "group_vars/all.yml": f"kafka_clusters: {CLUSTERS}"}
    for file, held in (files | {"group_vars/kafka_rset.yml": "a: 1", name: text}).items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(held)
    plan = make_plan(read_inventory(tmp_path / "hosts.yml", SERVICES))
    assert len([f for f in plan.findings if f.rule == "inventory.files"]) == found


def test_a_list_of_hosts_however_long_has_no_files() -> None:
    hosts = ",".join(f"rest{number}.example.net" for number in range(1000)) + ","
    with pytest.raises(InventoryError, match="no such inventory"):
        read_inventory(Path(hosts), SERVICES)
    loader = DataLoader()
    manager = InventoryManager(loader, sources=[hosts])
    hostvars = HostVars(manager, VariableManager(loader, manager), loader)
    assert check_precedence(hostvars, [hosts], group_names(SERVICES), prefixes(SERVICES)) == ()


def test_nor_is_what_a_priority_decides(tmp_path: Path) -> None:
    files = {
        "group_vars/kafka_rest.yml": "java_version: 17",
        "group_vars/mirror_maker.yml": "java_version: 21",
    }
    hosts = HOSTS.replace("mirror_maker: {", "mirror_maker: {vars: {ansible_group_priority: 2}, ")
    assert ambiguous(tmp_path, files, hosts) == []


def test_nor_is_what_an_extra_variable_goes_before(tmp_path: Path) -> None:
    files = {
        "group_vars/kafka_rest.yml": "java_version: 17",
        "group_vars/mirror_maker.yml": "java_version: 21",
    }
    assert ambiguous(tmp_path, files, HOSTS, "java_version=25") == []
