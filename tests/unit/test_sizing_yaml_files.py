"""A mistake in an inventory's YAML is one line with its file and its place, before Ansible reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.yaml_files import (
    AnsibleStopsError,
    InventoryError,
    check_files,
    check_variables,
    inventories,
)
from kedge.services.registry import SERVICES

HOSTS = "all:\n  children:\n    kafka_rest:\n      hosts:\n"


@pytest.mark.parametrize(
    ("text", "place", "what", "mend"),
    [
        ("- a\n", "1:1", "is no mapping", "write NAME: VALUE, with a colon"),
        ("hello\n", "1:1", "is no mapping", "with a colon"),
        ("a: 1\n---\nb: 2\n", "3:1", "a second document begins", "take the line --- out"),
        ("a: {{ b }}\n", "1:5", "a bracket begins what would be a key", 'put a template in quotes: "{{ name }}"'),
        ("a:\n  - !valut b\n", "2:5", "Ansible does not know the tag !valut", "did you mean !vault?"),
        ("a: !b c\n", "1:4", "Ansible does not know the tag !b", "put the value in quotes"),
        ("a: [b\n", "2:1", "no YAML", "look at colons, quotes and brackets"),
    ],
)  # fmt: skip
def test_what_ansible_stops_at_has_a_place(
    tmp_path: Path, text: str, place: str, what: str, mend: str
) -> None:
    file = tmp_path / "group_vars" / "all.yml"
    file.parent.mkdir()
    file.write_text(text)
    for check in (check_files, check_variables):
        with pytest.raises(AnsibleStopsError) as refused:
            check(tmp_path)
        said = str(refused.value)
        assert said.startswith(f"{file}:{place}: ")
        assert what in said
        assert mend in said
        assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("a: 22:22\n", "1:4", "22:22 would be read as a number of base 60; put it in quotes"),
        ("a: 1\nb: 2\na: 3\n", "3:1", "a is here a second time, and line 1 would be passed over"),
    ],
)
def test_what_ansible_reads_otherwise_than_it_looks_is_refused_by_the_plan_alone(
    tmp_path: Path, text: str, place: str, what: str
) -> None:
    file = tmp_path / "host_vars" / "rest1.yml"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(InventoryError) as refused:
        check_files(tmp_path)
    assert str(refused.value).startswith(f"{file}:{place}: {what}")
    check_variables(tmp_path)


@pytest.mark.parametrize(
    ("hosts", "place", "what"),
    [
        ("        - rest1\n", "5:9", "hosts of the group kafka_rest is no mapping"),
        ("        rest1\n        rest2\n", "5:9", "hosts of the group kafka_rest is no mapping"),
        ("        rest1, rest2:\n", "5:22", "'rest1, rest2' is no name of a host"),
        ("        rest1: ansible_host=a\n", "5:16", "the host rest1 is no mapping"),
        ("        rest1:\n          vars: {a: 1}\n", "6:17", "the host rest1 has the key vars"),
    ],
)
def test_hosts_that_would_be_lost_are_refused(tmp_path: Path, hosts: str, place: str, what: str) -> None:
    file = tmp_path / "hosts.yml"
    file.write_text(HOSTS + hosts)
    with pytest.raises(InventoryError) as refused:
        check_files(file)
    assert str(refused.value).startswith(f"{file}:{place}: {what}")


def test_a_variable_without_a_word_for_a_name_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yml"
    file.write_text(HOSTS + "        rest1: {null: 1}\n")
    with pytest.raises(InventoryError, match="a variable of rest1 has the name None"):
        read_inventory(file, SERVICES)


def test_what_ansible_reads_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(
        HOSTS + "        rest[1:2]:\n        rest3: {a: 1}\n    one: {hosts: rest1, vars: }\n    none:\n"
        "    two: {children: kafka_rest}\n    three: {hosts: &a {rest4: }}\n"
        "    four: {hosts: &b {rest5: }}\n    five: {hosts: {<<: [*a, *b]}}\n"
    )
    (tmp_path / "cloud.yml").write_text("plugin: amazon.aws.aws_ec2\nhosts: [a]\n")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text(
        "a: &a {b: 1}\nc:\n  <<: *a\n  b: 2\nd: !vault |\n  $ANSIBLE_VAULT;1.1\ne: !unsafe '{{ x }}'\nf: '22:22'\n"
        "g: 02:30\nh: 00:15\ni: !!str 22:22\nj: 22:22:x\n"
    )
    (tmp_path / "group_vars" / "empty.yml").write_text("---\n# nothing\n")
    (tmp_path / "group_vars" / "README").write_text("How to: write\n  - these\n")
    (tmp_path / "group_vars" / "vault_pass").write_text("hidden-one\n")
    check_files(tmp_path)
    check_variables(tmp_path)


@pytest.mark.parametrize("name", ["all", "kafka_rest", "kafka_rest/main"])
def test_a_file_without_a_suffix_that_ansible_reads_is_not(tmp_path: Path, name: str) -> None:
    (tmp_path / "hosts.yml").write_text(HOSTS + "        rest1:\n")
    file = tmp_path / "group_vars" / name
    file.parent.mkdir(parents=True)
    file.write_text("hello\n")
    for path in (tmp_path, tmp_path / "hosts.yml"):
        for check in (check_files, check_variables):
            with pytest.raises(AnsibleStopsError, match="is no mapping"):
                check(path)


@pytest.mark.parametrize("text", ["- src: geerlingguy.java\n", "hello\n"])
def test_what_ansible_warns_of_beside_an_inventory_is_refused_unless_it_is_asked_to_go_on(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "hosts.yml").write_text(HOSTS + "        rest1:\n")
    (tmp_path / "requirements.yml").write_text(text)
    check_files(tmp_path, lenient=True)
    check_files(tmp_path / "hosts.yml")
    with pytest.raises(AnsibleStopsError, match="is no mapping"):
        check_files(tmp_path)
    with pytest.raises(AnsibleStopsError, match="is no mapping"):
        check_files(tmp_path / "requirements.yml", lenient=True)


def test_a_list_of_hosts_however_long_is_no_file(tmp_path: Path) -> None:
    hosts = ",".join(f"rest{number}.example.net" for number in range(1000)) + ","
    assert inventories([hosts, str(tmp_path)]) == [tmp_path]
