"""Planted secrets of the secured scenario: they are in no plan, no report, no rendered file and no load."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

from kedge.deploy import kafka_admin
from kedge.deploy.load_spec import load_spec
from kedge.deploy.release_rows import kept_rows
from kedge.deploy.rendering import render_instance, secrets_of
from kedge.evidence.secrets import SecretsError, from_environment, merged
from kedge.plan.inventory.clusters import clusters
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.secrets import private, public, seal
from kedge.plan.inventory.security import Security
from kedge.plan.plan import Plan
from kedge.plan.text import text
from kedge.services.balancer.security import token
from kedge.services.broker.security import scram_users
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from plugins.module_utils.releases import MARK, hidden
from plugins.modules.kedge_release import filled
from verify.state.conftest import differing

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
PLANTED = {user: f"planted{user}0000" for user in ("broker", "kedge", "proxy", "client")}
#: A secret under a key that does not say so, known by its form; and one by the vault in which it lies.
PLANTED["registry"] = "plantedregistry0000"
VAULTED, INLINE = "plantedvaulted0000", "plantedinline0000"
#: The kit's own login is in no file of a host.
WRITTEN = sorted(PLANTED.keys() - {"kedge"})


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kit = tmp_path_factory.mktemp("kit")
    own = "molecule/kafka_rest_secure/inventory"
    shutil.copytree(ROOT / own, kit / own)
    passwords = kit / ".cache/fleet/kedge-molecule-kafka-rest-secure/passwords"
    passwords.mkdir(parents=True)
    for user, password in PLANTED.items():
        (passwords / user).write_text(password + "\n")
    (kit / own / "group_vars/kafka_rest/planted.yml").write_text(
        f"kafka_rest_schema_registry_url: http://user:{PLANTED['registry']}@registry:8081\n"
    )
    return kit / own


@pytest.fixture(scope="module")
def plan(inventory: Path) -> Plan:
    return make_plan(read_inventory(inventory, SERVICES))


def play(inventory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run plan.yml without asking any host, as talkative as Ansible gets short of its own debugging."""
    return subprocess.run(
        [PLAYBOOK, "-vvv", "-i", str(inventory), "plan.yml", "-e", "plan_diff=false plan_archives=ignore"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def leaked(said: str) -> list[str]:
    """The users whose password stands in a text, as it is or as HTTP sends it."""
    found = [u for u, p in PLANTED.items() if p in said or token(u, p) in said]
    return found + [one for one in (VAULTED, INLINE) if one in said]


def instances(document: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (service.replace("_", "-"), instance)
        for host in document["hosts"].values()
        for service, part in host["services"].items()
        if service in {"kafka_broker", "kafka_rest"}
        for instance in part["instances"]
    ]


def test_the_plan_needs_each_planted_secret_and_has_no_error(plan: Plan) -> None:
    _, secrets = seal(plan.to_json())
    assert sorted(leaked(json.dumps(secrets))) == WRITTEN
    assert [f.message for f in plan.findings if f.severity == "error"] == []


@pytest.mark.parametrize("full", [False, True])
def test_no_printed_plan_has_a_secret(plan: Plan, full: bool) -> None:
    assert leaked(text(plan, full=full)) == []


def test_the_plan_that_is_kept_has_no_secret(plan: Plan) -> None:
    document, _ = seal(plan.to_json())
    assert leaked(json.dumps(document)) == []


@pytest.mark.process
def test_no_callback_is_given_a_secret(inventory: Path) -> None:
    # This one prints the whole result of every task.
    played = play(inventory, ANSIBLE_STDOUT_CALLBACK="ansible.posix.json")
    assert played.returncode == 0, played.stdout + played.stderr
    assert "kafka_rest" in played.stdout
    assert leaked(played.stdout + played.stderr) == []


@pytest.mark.process
def test_what_lies_in_a_vault_is_hidden_under_whatever_key(inventory: Path, tmp_path: Path) -> None:
    own = tmp_path / "inventory"
    shutil.copytree(inventory, own)
    shutil.copytree(inventory.parents[2] / ".cache", tmp_path / ".cache")
    password = tmp_path / "vault"
    password.write_text("the password of the vault\n")
    environment = {"ANSIBLE_VAULT_PASSWORD_FILE": str(password)}
    whole = own / "group_vars/kafka_rest/vault.yml"
    # Of Kedge's own variables in such a file, only those are secrets that are so anywhere.
    whole.write_text(f"of_vault: {VAULTED}\nkafka_rest_ready_topic: kedge-ready\n")
    vault = VaultLib([("default", VaultSecret(b"the password of the vault"))])
    whole.write_bytes(vault.encrypt(whole.read_text()))
    alone = textwrap.indent(vault.encrypt(INLINE).decode(), "  ")
    (own / "group_vars/kafka_rest/alone.yml").write_text(f"alone: !vault |\n{alone}")
    settings = own / "group_vars/kafka_rest/planted.yml"
    settings.write_text(
        'kafka_rest_settings: {KEDGE_OWN: "at {{ of_vault }}", KEDGE_OTHER: "at {{ alone }}"}\n'
    )
    played = play(own, **environment, ANSIBLE_STDOUT_CALLBACK="ansible.posix.json")
    assert played.returncode == 0, played.stdout + played.stderr
    assert "KEDGE_OWN=***" in played.stdout
    assert "KEDGE_OTHER=***" in played.stdout
    assert leaked(played.stdout + played.stderr) == []
    settings.write_text('kafka_rest_settings: {KAFKAREST_JMX_OPTS: "-Da={{ of_vault }}"}\n')
    refused = play(own, **environment)
    assert refused.returncode != 0
    assert "a secret stands in KAFKAREST_JMX_OPTS, and so in the list of processes" in refused.stdout
    assert leaked(refused.stdout + refused.stderr) == []


@pytest.mark.process
def test_the_plan_and_its_secrets_are_no_facts_which_a_cache_would_keep(
    inventory: Path, tmp_path: Path
) -> None:
    cache = {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "facts")}
    played = play(inventory, **cache)
    assert played.returncode == 0, played.stdout + played.stderr
    kept = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert "kafka_rest" not in kept
    assert leaked(kept + played.stdout + played.stderr) == []


def test_a_load_that_is_kept_with_its_run_has_no_secret(plan: Plan) -> None:
    document, _ = seal(plan.to_json())
    document["clusters"] = {"leaf": {"bootstrap_servers": "leaf1:9092"}}
    document["flows"] = {}
    verify = {
        "cluster": "leaf",
        "client": {"sasl.username": "kedge", "sasl.password": PLANTED["kedge"]},
        "kafka": {"topic": "t", "consumer": {"ssl.key.password": PLANTED["broker"], "fetch.min.bytes": 1}},
        "rest": {"topic": "t", "user": "client", "password": PLANTED["client"]},
    }
    spec = load_spec(verify, document, "run")
    assert (spec["client"]["sasl.username"], spec["rest"]["user"]) == ("kedge", "client")
    assert leaked(json.dumps(spec)) == []


def test_what_a_load_leaves_out_reaches_it_at_its_place() -> None:
    verify = {
        "client": {"sasl.username": "kedge", "sasl.password": "planted"},
        "rest": {"user": "client", "password": "planted", "producers": 2},
        "kafka": None,
    }
    assert private(verify) == {"client": {"sasl.password": "planted"}, "rest": {"password": "planted"}}
    assert merged(public(verify), private(verify)) == verify


def test_a_secret_reaches_its_file_and_never_the_difference_that_is_shown(plan: Plan) -> None:
    document, secrets = seal(plan.to_json())
    written, shown = "", ""
    for unit, instance in instances(document):
        files = render_instance(unit, instance)
        assert leaked("".join(files.values())) == []
        assert leaked(json.dumps(kept_rows(unit, instance))) == []
        own = secrets_of(unit, instance, secrets, lambda path: f"content of {path}")
        for path, content in filled({"name": "", "files": files, "links": {}}, own)["files"].items():
            assert not MARK.search(content), path
            written += content
            shown += hidden(files[path], content, "") + hidden(files[path], content, "old=text\n")
    assert sorted(leaked(written)) == WRITTEN
    assert leaked(shown) == []
    assert "content of" not in shown


def test_passwords_of_users_are_kept_apart_from_how_they_are_made(inventory: Path) -> None:
    security = clusters(read_inventory(inventory, SERVICES))[0]["leaf"].security
    assert security is not None
    how, passwords = scram_users(security)
    assert how == {"broker_user": "broker", "iterations": 4096}
    assert passwords == {user: PLANTED[user] for user in ("broker", "kedge", "proxy")}
    for without in (None, security.model_copy(update={"users": {}}), Security(protocol="PLAINTEXT")):
        assert scram_users(without) == ({}, {})


@pytest.mark.parametrize(("clients", "shown"), [("none", False), ("requested", True), ("required", True)])
def test_the_balancer_shows_its_certificate_where_instances_ask_for_one(
    inventory: Path, clients: str, shown: bool
) -> None:
    tls = {"certificate": "c.pem", "key": "c.key", "ca": "ca.pem", "clients": clients}
    found = make_plan(read_inventory(inventory, SERVICES, [json.dumps({"kafka_rest_tls": tls})]))
    (balancer,) = found.services["lb1"]["rest_balancer"]
    assert ("crt /etc/rest-balancer" in balancer.value("default-server options")) is shown


def test_keys_that_differ_from_the_plan_are_told_without_their_values() -> None:
    planned = {"id": "a", "client.sasl.jaas.config": None, "host.name": "h"}
    assert differing(planned, "# why\nid=a\nclient.sasl.jaas.config=planted\nhost.name=h\n") == []
    told = differing(planned, "id=b\nclient.sasl.jaas.config=<secret 0123456789abcdef>\nextra=planted\n")
    assert told == ["client.sasl.jaas.config", "extra", "host.name", "id"]


@pytest.mark.parametrize("said", ["{planted", "[1]", '"planted"'])
def test_secrets_of_the_environment_that_cannot_be_read_are_one_line_without_them(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("KEDGE_SECRETS", said)
    with pytest.raises(SecretsError, match="KEDGE_SECRETS") as failed:
        from_environment()
    assert "planted" not in str(failed.value)


def test_a_client_whose_ca_is_not_there_says_so_and_not_that_no_broker_answers() -> None:
    client = {"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"}
    with pytest.raises(kafka_admin.RefusedError, match=r"/nowhere/ca\.pem"):
        kafka_admin.admin("127.0.0.1:1", client)
