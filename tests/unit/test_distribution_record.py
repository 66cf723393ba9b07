"""A distribution of the REST proxy is one record: a toy one is all that is needed for another, and no name is asked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kedge.deploy.rendering import render_instance
from kedge.evidence.rest_dialect import Dialect
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.settings import Choice, Sheet
from kedge.services.planning import make_plan
from kedge.services.rest.distribution import (
    Distribution,
    Groups,
    Java,
    Jvm,
    Keys,
    RestProcess,
    Software,
    Versions,
)
from kedge.services.rest.distributions import DISTRIBUTIONS
from tests.rest_inventories import of_rule, rest

ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = ("kedge", "lab", "plugins", "spark_checks", "verify")
RECORDS: Final = ROOT / "kedge" / "services" / "rest" / "distributions"


def plan_toy(sheet: Sheet, process: RestProcess) -> None:
    file = f"/etc/kafka-rest/{process.port}/{process.distribution.software.properties}"
    sheet.put(
        file, "toy.id", "toy.identity", Choice(process.id, "a toy has a name", "the toy's manual", "derived")
    )
    sheet.put(
        file,
        "toy.heap",
        "toy.heap",
        Choice(process.variables.heap_mib, "as asked", "the toy's manual", "derived"),
    )
    sheet.rest_of_own(file, "rest.own")


TOY: Final = Distribution(
    name="toy",
    title="the toy",
    versions=Versions((2,), (3,), "2.x"),
    plan=plan_toy,
    software=Software(("package",), start="bin/toy {file}", properties="toy.properties", package="toy-rest"),
    keys=Keys("toy", clients=lambda _: "4.3", prefix="kafka.", more=frozenset({"toy.id", "toy.colour"})),
    java=lambda version: Java(25, "the toy's manual", ", its engine,") if version != "2.0" else None,
    groups=Groups(None, "a toy has none", "the toy's manual"),
    jvm=Jvm("TOY_HEAP", ("TOY_HEAP",)),
    clients=lambda _: "4.3",
    environment=("TOY_HOME",),
    identity="toy.id",
    dialect=Dialect(commit_adds=0),
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DISTRIBUTIONS, TOY.name, TOY)


def toys(hosts: int = 1, **role: Any) -> Inventory:
    return rest(
        hosts,
        **({"distribution": "toy", "version": "2.1", "archive": None, "archive_checksum": ""} | role),
    )


def errors(inventory: Inventory) -> list[Finding]:
    return [f for f in make_plan(inventory).findings if f.severity == "error"]


def test_its_instances_are_planned_and_rendered() -> None:
    plan = make_plan(toys(instances_per_host=2))
    first, second = plan.to_json()["hosts"]["rest1"]["services"]["kafka_rest"]["instances"]
    assert (first["port"], second["port"]) == (8082, 8083)
    assert "toy.id=rest1-8083" in render_instance("kafka-rest", second)["toy.properties"]


def test_what_roles_need_to_install_and_start_it_stands_in_the_plan() -> None:
    (instance,) = make_plan(toys(instances_per_host=1)).to_json()["hosts"]["rest1"]["services"]["kafka_rest"][
        "instances"
    ]
    found = instance["software"]
    assert (found["install"], found["package"], found["home"]) == ("package", "toy-rest", "/usr")
    assert found["start"] == "bin/toy /etc/kafka-rest/%i/toy.properties"
    assert (found["ready"], found["kafka_groups"], found["jvm_options"]) == (
        "http_produce",
        True,
        ["TOY_HEAP"],
    )
    assert found["dialect"] == {"commit_adds": 0}
    assert Dialect(**found["dialect"]) == TOY.dialect


def test_its_java_is_that_of_the_host() -> None:
    (jdk,) = make_plan(toys()).services["rest1"]["java"]
    assert jdk.value("release") == "25"
    (error,) = errors(toys(common={"java_version": 21}))
    assert "toy 2.1, its engine, starts on Java 25" in error.message


def test_one_that_brings_its_java_asks_for_none() -> None:
    assert "java" not in make_plan(toys(version="2.0")).services["rest1"]


@pytest.mark.parametrize(
    ("role", "variable", "said", "mended"),
    [
        ({"version": "3.0"}, "kafka_rest_version", "nothing is known for toy", "use one that is known: 2.x"),
        ({"install": "archive", "archive": "/a", "archive_checksum": "a1" * 32}, "kafka_rest_install", "of toy there is none", "name the package"),
        ({"heap_mib": 512, "settings": {"TOY_HEAP": "-Xmx1g"}}, "kafka_rest_heap_mib", "contradicts TOY_HEAP", "keep one"),
        ({"default_stream": "/s"}, "kafka_rest_default_stream", "toy has topics", "mapr"),
        ({"settings": {"kafka.producer.acks": "some"}}, "kafka_rest_settings.kafka.producer.acks", "some", "all"),
        ({"distribution": "tyo"}, "kafka_rest_distribution", "'toy'", "did you mean toy?"),
    ],
)  # fmt: skip
def test_its_variables_are_held_against_its_record(
    role: dict[str, Any], variable: str, said: str, mended: str
) -> None:
    (error,) = errors(toys(**role))
    assert error.where == f"rest1: {variable}"
    assert said in error.message
    assert mended in error.fix


def test_only_a_fleet_may_have_one_that_is_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    (error,) = errors(rest(distribution="sandbox", version="1.0.0"))
    assert error.fix == "use confluent, mapr, strimzi or toy"


def test_keys_that_it_does_not_read_are_found_and_its_own_and_its_clients_are_not() -> None:
    own = {
        "toy.colour": "red",
        "kafka.producer.acks": "all",
        "toy.colur": "red",
        "TOY_HOME": "/",
        "TOY_HOM": "/",
    }
    found = {f.severity: f for f in of_rule(make_plan(toys(settings=own)), "rest.keys")}
    assert "toy 2.1 does not know toy.colur" in found["error"].message
    assert found["error"].fix == "did you mean toy.colour?"
    assert "reads TOY_HOM" in found["warning"].message
    assert len(of_rule(make_plan(toys(settings=own)), "rest.keys")) == 2


def test_one_without_a_heap_that_is_planned_is_not_split_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    native = {name: getattr(TOY, name) for name in TOY.__slots__} | {"jvm": None}
    monkeypatch.setitem(DISTRIBUTIONS, "toy", Distribution(**native))
    many = {"consumers": 5000, "readers": 5000, "partitions": 100}
    assert len(make_plan(toys(workload=many)).services["rest1"]["kafka_rest"]) == 2
    (error,) = errors(toys(heap_mib=512))
    assert "toy has no heap that is planned" in error.message


def names_asked(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that compare with a distribution's name, match one, or look one up."""
    names = DISTRIBUTIONS.keys() - {"toy"}

    def named(node: ast.AST | None) -> bool:
        parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
        return any(isinstance(part, ast.Constant) and part.value in names for part in parts)

    for node in ast.walk(tree):
        asked = {
            ast.Compare: lambda n: [n.left, *n.comparators],
            ast.MatchValue: lambda n: [n.value],
            ast.Dict: lambda n: n.keys,
            # Of several names a subscript is a Literal, which names a component's catalogue.
            ast.Subscript: lambda n: [n.slice] if isinstance(n.slice, ast.Constant) else [],
        }.get(type(node), lambda _: [])
        if any(map(named, asked(node))):
            yield node.lineno  # type: ignore[attr-defined] # each of these stands on a line


#: Read a vendor's archive and the command line of `make demo` before set-up has installed what the records need.
BEFORE_SET_UP = {ROOT / "lab" / "demo" / "archive.py", ROOT / "lab" / "demo" / "options.py"}


def test_no_code_but_a_distributions_own_asks_for_its_name() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if RECORDS not in path.parents and path not in BEFORE_SET_UP
        if any(name in (text := path.read_text()) for name in DISTRIBUTIONS)
        for line in names_asked(ast.parse(text))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    ["d == 'mapr'", "if d in ('strimzi', 'x'): pass", "{'mapr': 1}[d]", "match d:\n  case 'sandbox': pass"],
)
def test_code_that_asks_for_a_name_is_seen(code: str) -> None:
    assert list(names_asked(ast.parse(code)))


def test_no_role_playbook_or_template_asks_for_a_distribution() -> None:
    files = [p for room in ("roles", "templates") for p in (ROOT / room).rglob("*") if p.is_file()]
    asks = re.compile(
        r"(distribution\s*(==|!=|(not )?in )|(==|!=)\s*['\"](confluent|mapr|strimzi|sandbox)\b)"
    )
    assert [str(p) for p in [*files, *ROOT.glob("*.yml")] if asks.search(p.read_text(errors="replace"))] == []
