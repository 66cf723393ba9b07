"""A recognisable word in every variable that takes a text: nothing that is printed, kept or run shows it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.deploy.drift import describe
from kedge.deploy.load_spec import load_spec
from kedge.deploy.release_rows import kept_rows
from kedge.deploy.rendering import render_instance
from kedge.evidence.secrets import holds_secret, looks_secret, without_secrets
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.secrets import seal
from kedge.plan.page import page
from kedge.plan.plan import Plan
from kedge.plan.plan_secrets import on_command_line
from kedge.plan.text import difference, text
from kedge.plan_command import _printable
from kedge.services.mirror.topics_and_groups import flows_json
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.streams.load import applications_json
from tests.reference import HELD, Variable, inventory_variables, variables, with_parts

ROOT = Path(__file__).resolve().parents[2]
WORD = "canary5f0e"
#: A secret by its form, wherever it stands.
FORMS = {
    "url": f"http://user:{WORD}@registry.example.net:8081",
    "option": f"-Djavax.net.ssl.keyStorePassword={WORD}",
}
#: Names and addresses are there to be seen, though they lie in a vault.
_OPEN = re.compile(r"(^|[._])(user|servers|address)$")


@pytest.fixture(autouse=True)
def unwrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave lines as long as they are: wrapping them takes a third of the time, and hides no word."""
    monkeypatch.setattr("textwrap.wrap", lambda words, *_, **__: [words])


@cache
def example() -> Inventory:
    """The example, a host of each role, and a process of each flow: sixteen have the words of one."""
    read = read_inventory(ROOT / "inventories/example", SERVICES)
    groups = {name: hosts[:1] for name, hosts in read.groups.items() if name not in ("all", "ungrouped")}
    kept = {host for hosts in groups.values() for host in hosts}
    hosts = {host: copy.deepcopy(of) for host, of in read.hosts.items() if host in kept}
    for of_host in hosts.values():
        for flow in of_host.get("mirror_maker_flows", {}).values():
            flow["largest_topic_partitions"] = 1
    return Inventory(hosts, groups)


def role_of(variable: Variable) -> str:
    """The role of the example that a variable is named after; nothing for what several have."""
    roles = (role for role, hosts in example().groups.items() if hosts)
    return next((role for role in roles if variable.name.startswith(f"{role}_")), "")


@cache
def of_role(role: str) -> Inventory:
    """The example with the host of a role, or all of them."""
    every = example()
    hosts = every.groups.get(role, tuple(every.hosts))
    groups = {name: of for name, of in every.groups.items() if {*of} <= {*hosts}}
    return Inventory({host: every.hosts[host] for host in hosts}, groups)


@cache
def without_canary(role: str) -> Plan:
    return make_plan(of_role(role))


@cache
def texts() -> list[Variable]:
    """Every variable of an inventory that takes a text, or texts in a list or a mapping."""
    held = (
        Variable(
            name, {"type": "object"}, False, None, None, "", parts=tuple(variables(model, f"{name}{inside}."))
        )
        for name, (model, inside) in HELD.items()
    )
    found = {v.name: v for v in with_parts([*inventory_variables(), *held]) if not v.parts}
    return [
        v for v in found.values()
        if v.schema.get("type") in ("string", "str", "array", "list", "object", "dict") and not v.schema.get("enum")
    ]  # fmt: skip


def canary(variable: Variable, said: str) -> Any:
    kind = variable.schema["type"]
    if kind in ("object", "dict"):
        environment = {"KAFKA_OPTS": said} if variable.name.endswith("environment") else {}
        return {"plugin.own": said, "DB_LOGIN": said, **environment}
    return [said] if kind in ("array", "list") else said


def placed(value: Any, path: list[str], given: Any) -> Any:
    """A variable's value with what is given at a path of it: at each name, at each entry of a list."""
    if not path:
        return {**value, **given} if isinstance(value, dict) and isinstance(given, dict) else given
    first, *rest = path
    if first in ("NAME", "FLOW"):
        value = value if isinstance(value, dict) and value else {"one": {}}
        return {name: placed(one, rest, given) for name, one in value.items()}
    if first == "[]":
        return [placed(one, rest, given) for one in value or [{}]]
    value = value if isinstance(value, dict) else {}
    return {**value, first: placed(value.get(first), rest, given)}


def planted(variable: Variable, said: str, vaulted: frozenset[str] = frozenset()) -> Inventory:
    """The example with a word in one variable of every host, or of those whose role it is."""
    first, *path = variable.name.replace("[]", ".[]").split(".")
    given = canary(variable, said)
    own = of_role(role_of(variable))
    hosts = {
        host: {**of_host, first: placed(copy.deepcopy(of_host.get(first)), path, given)}
        for host, of_host in own.hosts.items()
    }
    return Inventory(hosts, own.groups, vaulted=vaulted)


def outputs(inventory: Inventory, role: str) -> Iterator[tuple[str, str]]:
    """All that is printed, kept or shown of a plan with a word in a variable, by what it is."""
    plan = make_plan(inventory)
    for full in (False, True):
        yield f"text, full {full}", text(plan, full=full)
    yield "json", json.dumps(_printable(plan.to_json()))
    yield "html", page(plan, "an inventory")
    yield "difference", difference(plan, without_canary(role), "this", "that")
    if [f for f in plan.findings if f.rule == "secret.shown"]:
        return  # plan.yml ends here, before it writes anything
    document, _ = seal(plan.to_json())
    document["clusters"] = {name: {"bootstrap_servers": "b:9092"} for name in ("leaf", "agg", "local")}
    document |= {"flows": flows_json(inventory), "applications": applications_json(inventory)}
    yield "plan.json", json.dumps(document)
    for host, part in document["hosts"].items():
        for service, of_service in part["services"].items():
            if service not in ("kafka_rest", "mirror_maker", "streams_app", "kafka_broker"):
                continue
            for instance in of_service["instances"][:1]:
                files = render_instance(service.replace("_", "-"), instance)
                yield f"files of {host} {service}@{instance['name']}", json.dumps(files)
                rows = kept_rows(service.replace("_", "-"), instance)
                yield f"rows of {host} {service}@{instance['name']}", json.dumps(rows)
                yield "drift", json.dumps(drift(service.replace("_", "-"), instance, files))
    verify = inventory.common("verify")
    if isinstance(verify, dict) and isinstance(verify.get("cluster"), str) and not plan.has_errors:
        yield "load.json", json.dumps(load_spec(verify, document, "run", ["generator"]))


def drift(unit: str, instance: dict[str, Any], files: dict[str, str]) -> Any:
    """What is said of an instance whose files are all new, with its secrets in them."""
    home = f"/etc/{unit}/{instance['name']}"
    answer = {
        "instances": [{"current": "a", "in_force": [], "pending": True, "active": True}],
        "stale": [],
        "diff": [
            {"before_header": f"{home}/{path}", "before": "", "after": re.sub("<secret [0-9a-f]+>", WORD, content)}
            for path, content in files.items()
        ],
    }  # fmt: skip
    return describe(answer, unit, [instance])


def test_the_variables_that_take_a_text_are_those_of_the_reference() -> None:
    names = {v.name for v in texts()}
    assert len(names) > 80
    assert names >= {"kafka_rest_settings", "mirror_maker_flows.FLOW.environment", "streams_app_arguments",
                     "kafka_rest_schema_registry_url", "kafka_topics[].settings", "verify.rest.url",
                     "kafka_clusters.NAME.bootstrap_servers", "kafka_clients[].consumer_settings"}  # fmt: skip


@pytest.mark.parametrize("variable", texts(), ids=lambda v: v.name)
def test_nothing_shows_what_has_the_form_of_a_secret(variable: Variable) -> None:
    said = FORMS["option"] if variable.name.endswith("environment") else FORMS["url"]
    assert [
        what for what, shown in outputs(planted(variable, said), role_of(variable)) if WORD in shown
    ] == []


@pytest.mark.parametrize("variable", [v for v in texts() if not _OPEN.search(v.name)], ids=lambda v: v.name)
def test_nothing_shows_what_lies_in_a_vault(variable: Variable) -> None:
    inventory = planted(variable, WORD, frozenset({WORD}))
    assert [what for what, said in outputs(inventory, role_of(variable)) if WORD in said] == []


@pytest.mark.parametrize(
    "name",
    ["kafka_rest_schema_registry_url", "kafka_rest_settings", "mirror_maker_flows.FLOW.producer_settings",
     "streams_app_settings", "kafka_clients[].producer_settings"],
)  # fmt: skip
def test_a_secret_of_a_services_own_file_reaches_it(name: str) -> None:
    variable = next(v for v in texts() if v.name == name)
    plan = make_plan(planted(variable, FORMS["url"]))
    document, secrets = seal(plan.to_json())
    assert not [f for f in plan.findings if f.rule == "secret.shown"]
    assert any(WORD in value for value in secrets.values())
    assert WORD not in json.dumps(document)


@pytest.mark.parametrize(
    ("name", "said", "where"),
    [
        ("mirror_maker_flows.FLOW.environment", FORMS["option"], "KAFKA_OPTS, and so in the list of processes"),
        ("streams_app_environment", FORMS["option"], "KAFKA_OPTS, and so in the list of processes"),
        ("streams_app_arguments", f"--db-password={WORD}", "streams_app_arguments, and so in the list"),
        ("kafka_rest_archive", FORMS["url"], "kafka_rest_archive, which the plan shows"),
        ("kafka_topics[].settings", FORMS["url"], "a topic's name or setting"),
        ("kafka_clusters.NAME.bootstrap_servers", FORMS["url"], "kafka_clusters.leaf.bootstrap_servers"),
    ],
)  # fmt: skip
def test_a_secret_that_would_be_shown_is_an_error_that_says_where_to_put_it(
    name: str, said: str, where: str
) -> None:
    variable = next(v for v in texts() if v.name == name)
    plan = make_plan(planted(variable, said))
    found = [f for f in plan.findings if f.rule == "secret.shown"]
    assert found
    assert all(f.severity == "error" and f.fix for f in found)
    assert any(where in f.message for f in found), [f.message for f in found]
    assert not plan.services, "of such a plan nothing is written"


def test_an_option_and_its_value_may_be_two_arguments() -> None:
    hosts = {h: {**v, "streams_app_arguments": ["--db-password", WORD]} for h, v in example().hosts.items()}
    plan = make_plan(Inventory(hosts, example().groups))
    assert [f.where for f in plan.findings if f.rule == "secret.shown"]


def test_every_variable_that_a_unit_or_a_start_script_puts_on_a_command_line_is_known_as_one() -> None:
    used = {
        name
        for file in (ROOT / "roles").glob("*/vars/main.yml")
        for name in re.findall(r"\$\{?([A-Z][A-Z_]+)", json.dumps(yaml.safe_load(file.read_text())))
        if name != "MAINPID"
    }
    used |= {name for d in DISTRIBUTIONS.values() if d.jvm for name in d.jvm.options}
    assert used >= {"KAFKA_OPTS", "KAFKAREST_OPTS", "MIRROR_INCLUDE"}
    assert [name for name in sorted(used) if not on_command_line(name)] == []


#: How the tokens of these begin, as their makers' documentation has it.
TOKENS = (
    "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "xapp-", "hvs.", "hvb.", "sk_live_", "rk_live_",
    "whsec_", "npm_", "dop_v1_", "dckr_pat_", "pypi-",
)  # fmt: skip


@pytest.mark.parametrize(
    "said",
    [*FORMS.values(), f"mongodb+srv://a:{WORD}@h", f"redis://:{WORD}@h", f"jdbc:x://h/db?user=a&password={WORD}",
     f"-Xmx1g -Ddb.pass={WORD} -Da=b", f"--db-password {WORD}", f"--token={WORD}", f'{{"apikey": "{WORD}"}}',
     f'org.x required username="a" password="{WORD}";', f"Basic {WORD}dXNlcjpwYXNz", f"eyJhbGciOiJIUzI1.eyJ{WORD}.abc",
     f"-----BEGIN RSA PRIVATE KEY-----\n{WORD}\n-----END", f"-Dfoo.pw={WORD}", f"curl -u a:{WORD} http://h",
     f"curl -ua:{WORD}", f"curl --user 'a:{WORD}'", *(f"-Dx={begun}{WORD.replace('-', '')}{'a1' * 20}" for begun in TOKENS)],
)  # fmt: skip
def test_forms_of_secrets(said: str) -> None:
    assert holds_secret(said)
    assert WORD not in without_secrets(said)
    assert WORD.replace("-", "") not in without_secrets(said)


@pytest.mark.parametrize(
    "said",
    ["http://h:8081/x@y", "https://user@host/", "-Djavax.net.ssl.keyStorePasswordFile=/x", "--token-file /x",
     "password=${file:/x:y}", "-Dpassword=$PW", "a basic description", "kafka_rest_password: is missing", "compass=1",
     "docker run -u 1000:1000 x", "curl -u $USER:$PW", "-u http://h:8081/x", "task_live_x", "pwm=1", "-Dfoo.pw=$PW",
     "-Xlog:gc*:file=/var/log/x/gc.log:time,uptime", "b1:9092,b2:9093", "SCRAM-SHA-512=[iterations=8192]"],
)  # fmt: skip
def test_forms_that_are_none(said: str) -> None:
    assert not holds_secret(said)


def test_keys_that_are_made_for_secrets() -> None:
    made = [
        "plugin.apikey",
        "db.passphrase",
        "DB_PASS",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "my.api.key",
    ]
    assert [key for key in made if not looks_secret(key)] == []
    others = [
        "compression.type",
        "key.serializer",
        "tokenizer",
        "compass",
        "assertion.private.key.file",
        "passes",
    ]
    assert [key for key in others if looks_secret(key)] == []
