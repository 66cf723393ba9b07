"""Every variable of the kit, from its models and the roles' argument_specs: ``python -m tests.reference``.

It writes docs/reference.md, and the options of those roles whose variables have a model.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kedge.evidence.levels import Levels
from kedge.evidence.load_options import LoadSpec
from kedge.evidence.secrets import looks_secret
from kedge.plan.inventory.clusters import KafkaCluster
from kedge.plan.inventory.variables import OfHost, Shared
from kedge.plan.service import Service
from kedge.plan.variable_messages import either, models_in, unit_of
from kedge.plan.variables import DefaultRule, Since
from kedge.services.clients.variables import ClientProfile
from kedge.services.host.variables import HostFacts
from kedge.services.registry import SERVICES
from kedge.services.rollout import Rollout
from kedge.services.topics.variables import DeclaredTopic, PartitionRates
from kedge.services.verification import ADDED

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "reference.md"
RULES: Final = ROOT / "docs" / "rules.md"
#: What a variable of the whole inventory holds, and what stands in a name for the names that a person gives.
HELD: Final[Mapping[str, tuple[type[BaseModel], str]]] = {
    "kafka_clusters": (KafkaCluster, ".NAME"),
    "kafka_topics": (DeclaredTopic, "[]"),
    "kafka_clients": (ClientProfile, "[]"),
    "kafka_partition_rates": (PartitionRates, "[]"),
    "rollout": (Rollout, ""),
    "service_levels": (Levels, ""),
    "verify": (LoadSpec, ""),
}
#: What stands in the name of a part for the place or the name of an entry.
_INSIDE: Final = {"array": "[]", "object": ".NAME"}
#: verify.yml fills these in where they are left out.
FILLED: Final = {
    "verify.rest.url": "the planned balancer",
    "verify.rest.dialect": "that of the planned proxies",
    "verify.rest.proxies": "the planned proxies",
}
#: Variables of a command line, of the playbooks that are named; the inventory does not have them.
EXTRA: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "allow": (
        "deploy.yml",
        "str",
        "",
        "Changes that clients notice and that may be made, by their names in [changes.md](changes.md#allow-a-change-by-name), "
        "separated by commas.",
    ),
    "deploy_clusters": (
        "deploy.yml",
        "bool",
        "`false`",
        "Whether a deploy with `--limit` also changes topics, users and rights.",
    ),
    "plan_diff": ("plan.yml", "bool", "`true`", "Whether the plan is compared with the hosts."),
    "exit_code": (
        "plan.yml",
        "bool",
        "`false`",
        "Whether it ends with status 2 if a deploy would change something, or if something could not be compared.",
    ),
    "service": (
        "rolling_restart.yml, rollback.yml, reboot.yml",
        "str",
        "",
        "The service whose instances are restarted, or whose hosts are rebooted. If not set, rolling_restart.yml takes "
        "`kafka_rest` and reboot.yml takes all services; rollback.yml needs it. reboot.yml takes several, separated by commas.",
    ),
    "release": (
        "rollback.yml",
        "str",
        "",
        "The releases to go back to, separated by commas; without it, the previous ones.",
    ),
    "take_over": (
        "lease.yml",
        "str",
        "",
        "Of every playbook that changes something: the id of a run whose leases do not count, from the message of a "
        "[refused run](runbook.md#a-host-that-another-run-holds).",
    ),
    "packages": (
        "reboot.yml",
        "str",
        "",
        "Packages to update; `java` and `kernel` stand for the packages of the host's distribution.",
    ),
    "reboot_seconds": (
        "reboot.yml",
        "int",
        "",
        "How long a host may take to answer after its reboot, in seconds; if not set, 900.",
    ),
    "host": ("remove_host.yml", "str", "", "Host to remove; it has to answer."),
    "gone": (
        "remove_host.yml",
        "str",
        "",
        "Host to remove whose machine does not exist any more; in place of `host`.",
    ),
    "address": ("remove_host.yml", "str", "", "Address of that host, if other hosts disagree on it."),
    "kernel": ("remove_host.yml", "bool", "`false`", "Whether the host's kernel settings are removed too."),
    "found": ("review.yml", "path", "`inventories/found`", "Folder to write; it has to be new or empty."),
    "kedge_runs_dir": (
        "verify.yml, capacity.yml, compare.yml",
        "path",
        "",
        "Folder of the runs, relative to the working directory; if not set, `runs` beside the playbook.",
    ),
    "verify_history": (
        "verify.yml",
        "URI",
        "",
        "The table of figures of all runs, beside which the report shows the new ones. If not set, `history` in the folder of the "
        "runs; empty for none.",
    ),
    "verify_load": (
        "verify.yml, capacity.yml, compare.yml",
        "str",
        "",
        "The load of `verify_loads` to send; if not set, `verify`.",
    ),
    "verify_steps": (
        "verify.yml",
        "str",
        "`restarts`",
        "`state` reads the hosts, `watch` samples what others send and read, `load` sends records, `restarts` also restarts the service.",
    ),
    "watch": (
        "deploy.yml, rolling_restart.yml, rollback.yml, reboot.yml, remove_host.yml, verify.yml",
        "bool",
        "`false`",
        "Whether the topics and groups of others are watched meanwhile, and judged at the end.",
    ),
    "resume": (
        "capacity.yml, compare.yml",
        "str",
        "",
        "The interrupted run to continue, by the name of its folder.",
    ),
    "arms": (
        "compare.yml",
        "str",
        "",
        "At least two variants, separated by commas: `stock`, `documented`, `planned`, or files of variables.",
    ),
}
#: Roles without a model whose variables an inventory may set.
_SETTABLE: Final = ("java", "kafka", "occupied")
#: Types that argument_specs cannot have, because the default is empty on a host without a service that needs it.
_REAL: Final = {"java_version": "int"}
_TYPES: Final = {
    "integer": "int",
    "number": "float",
    "string": "str",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}
_HEAD: Final = """\
# Reference

Every variable of an inventory, and every `-e` variable of a playbook:

CONTENTS
| [command lines](#command-lines) | Options of playbooks (`-e`) |

Set a variable of a service or a host in `group_vars/GROUP` or `host_vars/HOST`, a variable of the whole inventory in
`group_vars/all`. A value that you set overrides the plan, which still checks it.
[inventories/example](../inventories/example) shows each variable in its place.

| in a table | meaning |
|---|---|
| a heading with `NAME`, `FLOW` or `[]` | the table is for each entry of a mapping or a list; the names are your own |
| a linked variable | it has a table of its own. Identical tables are written once, under the first name |
| default `required` | without the variable the plan has an error |
| default `planned` | the plan computes the value from the workload, by the [rule](rules.md) that is named |
| a value with a rule | the rule chose this default; it is the same for all workloads |
| default `none` | not set: what the variable describes is not used, or is as the last column says |
| default `see its table` | its own table has the defaults |

A version says since when a variable is there; one without is there since 0.1.0. Below `verify` and `service_levels`, and among
command lines, the changelog says what is newer. Roles set variables for one another, which an
inventory does not set and this page leaves out. `ansible-doc`, in Kedge's folder, shows those of a role:

```sh
.venv/bin/ansible-doc -t role kafka_rest
.venv/bin/ansible-doc -t module kedge_release
```

`python -m tests.reference` writes this page from the models that check an inventory, and from the roles' `argument_specs`.
"""


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable, by its full name; ``schema`` is its JSON schema, without the None of an optional one."""

    name: str
    schema: Mapping[str, Any]
    required: bool
    default: Any
    planned: str | None
    said: str
    inside: str = ""
    parts: tuple[Variable, ...] = ()


@functools.cache
def variables(model: type[BaseModel], prefix: str) -> list[Variable]:
    """Return the variables of a model with those of the models inside; ``prefix`` begins their names."""
    properties = model.model_json_schema()["properties"]
    return [
        _variable(prefix + name, info, properties[name])
        for name, info in model.model_fields.items()
        if not (model is LoadSpec and name in ADDED)
    ]


def _variable(name: str, info: FieldInfo, schema: Mapping[str, Any]) -> Variable:
    schema = _without_none(schema)
    inner, inside = HELD.get(
        name, (next(models_in(info.annotation), None), _INSIDE.get(schema.get("type"), ""))
    )
    inside = ".FLOW" if name.endswith("_flows") else inside
    marks = {type(mark): mark[0] for mark in info.metadata if isinstance(mark, DefaultRule | Since)}
    since = f" Since {marks[Since]}." if Since in marks else ""
    return Variable(
        name=name,
        schema=schema,
        required=info.is_required() and name not in FILLED,
        default=None if info.is_required() else info.get_default(call_default_factory=True),
        planned=marks.get(DefaultRule),
        said=f"{info.description}{since}",
        inside=inside,
        parts=tuple(variables(inner, f"{name}{inside}.")) if inner else (),
    )


def _without_none(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a variable where it is given."""
    forms = [form for form in schema.get("anyOf", ()) if form.get("type") != "null"]
    return {**schema, **forms[0]} if len(forms) == 1 else dict(schema)


def service_variables(service: Service) -> list[Variable]:
    """Return the variables of a service."""
    found = variables(service.variables, f"{service.name}_") if service.variables else []
    waits = {f"{service.name}_{wait.key}": wait.rule for wait in service.waits}
    waits[f"{service.name}_stop_seconds"] = "rollout.stop"
    return [replace(v, planned=waits[v.name]) if v.name in waits else v for v in found]


def role_variables(role: str, entries: Iterable[str] | None = None) -> list[Variable]:
    """Return the variables of a role that its argument_specs alone have; of all its entry points, or of some."""
    known = {v.name for s in SERVICES for v in service_variables(s)} | set(Shared.model_fields)
    found: dict[str, Variable] = {}
    for entry, about in specs(role).items():
        for name, option in about["options"].items() if entries is None or entry in entries else ():
            schema = {"type": option["type"], "enum": option.get("choices"), "items": option.get("elements")}
            required, default = option.get("required", False), option.get("default")
            said = " ".join(_lines(option["description"]))
            if name not in known:
                found.setdefault(name, Variable(name, schema, required, default, None, said))
    return list(found.values())


def specs(role: str) -> dict[str, Any]:
    """Return the argument_specs of a role, by entry point."""
    text = (ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)["argument_specs"]
    return found


def _lines(description: str | list[str]) -> list[str]:
    return [description] if isinstance(description, str) else description


def with_parts(found: Iterable[Variable]) -> Iterator[Variable]:
    """Yield variables, each with those inside it."""
    for variable in found:
        yield variable
        yield from with_parts(variable.parts)


@functools.cache
def inventory_variables() -> list[Variable]:
    """Return what an inventory may set."""
    return [
        *variables(Shared, ""),
        *variables(OfHost, ""),
        *variables(HostFacts, "host_"),
        *(v for service in SERVICES for v in service_variables(service)),
        *(
            v
            for role in (*(s.name for s in SERVICES if _role(s.name)), *_SETTABLE)
            for v in role_variables(role, ["main"])
            if not v.required  # what its callers give it
        ),
    ]


def _role(name: str) -> bool:
    return (ROOT / "roles" / name).is_dir()


def page() -> str:
    """Return docs/reference.md."""
    written: Written = {}
    lines = [_HEAD, "## The whole inventory\n", f"{Shared.__doc__}\n"]
    lines += _tables(variables(Shared, ""), written)
    lines += ["## Hosts\n", "Variables of every host, whatever runs on it.\n"]
    lines += _tables([*variables(OfHost, ""), *variables(HostFacts, "host_")], written)
    for service in SERVICES:
        if service.variables:
            lines += [f"## {service.name}\n", f"{specs(service.name)['main']['short_description']}.\n"]
            lines += _tables([*service_variables(service), *role_variables(service.name)], written)
    for role in _SETTABLE:
        lines += [f"## {role}\n", f"{specs(role)['main']['short_description']}.\n"]
        lines += _tables(role_variables(role), written)
    lines += [
        "## Command lines\n",
        "Give these with `-e NAME=VALUE`, for one run. `-e @FILE` gives all variables of a file.\n",
    ]
    lines += ["| variable | playbooks | type | default | what it is |", "|---|---|---|---|---|"]
    lines += [f"| `{name}` | {' | '.join(about)} |" for name, about in EXTRA.items()]
    return "\n".join(lines).replace("CONTENTS", "\n".join(_contents())).rstrip() + "\n"


def _contents() -> Iterator[str]:
    """Yield the table of the page's sections."""
    yield "| section | what its variables are for |"
    yield "|---|---|"
    yield "| [the whole inventory](#the-whole-inventory) | Describe clusters, topics, service levels and the load of verify.yml |"
    yield "| [hosts](#hosts) | Describe a host: cores, memory, rack, how instances restart together |"
    for name in (*(s.name for s in SERVICES if s.variables), *_SETTABLE):
        yield f"| [`{name}`](#{name}) | {specs(name)['main']['short_description']} |"


#: The titles of the tables that the page has so far, by their rows.
Written = dict[tuple[tuple[str, ...], ...], str]


def _tables(found: Iterable[Variable], written: Written) -> Iterator[str]:
    """Yield a table, and one for each variable that holds others, unless the page has the same one already."""
    rows: list[tuple[str, ...]] = [
        ("variable", "type", "unit", "default", "what it is"),
        *_rows(found, written),
    ]
    if not any(row[2] for row in rows[1:]):
        rows = [(*row[:2], *row[3:]) for row in rows]
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    yield from (head, "|---" * len(rows[0]) + "|", *others, "")
    for v in found:
        if v.parts and _table(v, written) == _title(v):
            yield f"### {_title(v)}\n"
            yield from _tables(v.parts, written)


def _rows(found: Iterable[Variable], written: Written) -> tuple[tuple[str, ...], ...]:
    return tuple((_linked(v, written), _kind(v), _unit(v), _default(v), _cell(v.said)) for v in found)


def _table(variable: Variable, written: Written) -> str:
    """Return the title of a variable's table: that of the first with these rows."""
    return written.setdefault(_rows(variable.parts, written), _title(variable))


def _title(variable: Variable) -> str:
    return variable.name + variable.inside


def _linked(variable: Variable, written: Written) -> str:
    name = f"`{_last(variable)}`"
    return f"[{name}](#{_anchor(_table(variable, written))})" if variable.parts else name


def _anchor(heading: str) -> str:
    """Return the anchor that a page has for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _last(variable: Variable) -> str:
    """Return its name without that of what it is in, which is the heading of its table."""
    return variable.name.rpartition(".")[2]


def _unit(variable: Variable) -> str:
    numbers = variable.schema.get("type") in ("integer", "number", "int", "float")
    return (unit_of(variable.name) or "") if numbers else ""


def _kind(variable: Variable) -> str:
    """Return its type in Ansible's words, with its bounds."""
    kind = _REAL.get(variable.name) or _form(variable.schema)
    return "list of dict" if kind == "list" and variable.parts else kind


def _form(schema: Mapping[str, Any]) -> str:
    words = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if words:
        return either(f"`{word}`" for word in words)
    forms = [form for form in schema.get("anyOf", ()) if form.get("type") != "null"]
    if len(forms) > 1:
        return "; or ".join(_form(form) for form in forms)
    kind = ansible_type(schema)
    if examples := schema.get("examples"):
        return f"{kind}, such as {either(f'`{example}`' for example in examples)}"
    items = schema.get("items")
    if kind == "list" and items:
        return f"list of {items if isinstance(items, str) else _form(items)}"
    return kind + _bounds(schema)


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high, above = (schema.get(k) for k in ("minimum", "maximum", "exclusiveMinimum"))
    if low is not None and high is not None:
        return f", {low} to {high}"
    if above is not None:
        return f", above {above}" + (f", {high} at most" if high is not None else "")
    return f", {low} or more" if low is not None else ""


def ansible_type(schema: Mapping[str, Any]) -> str:
    """Return Ansible's name of a type."""
    kind = schema.get("type")
    if kind is None:
        return "dict" if "$ref" in schema else "raw"
    return _TYPES.get(kind, kind)


def _default(variable: Variable) -> str:
    if variable.name in FILLED:
        return FILLED[variable.name]
    if variable.required:
        return "required"
    if variable.planned and variable.default is None:
        return f"planned, {_rule(variable.planned)}"
    if str(variable.default).endswith("_planned }}"):
        return "planned"
    return _shown(variable.default) + (f", {_rule(variable.planned)}" if variable.planned else "")


def _rule(name: str) -> str:
    """Return a rule with a link to its section of the page of rules."""
    return f"[`{name}`](rules.md#{_sections()[name]})"


@functools.cache
def _sections() -> dict[str, str]:
    """Return the anchor of the first section of docs/rules.md that has a row of a rule, by rule."""
    found: dict[str, str] = {}
    for section in re.split(r"(?m)^## ", RULES.read_text())[1:]:
        for rule in re.findall(r"(?m)^\| `([^`]+)` \|", section):
            found.setdefault(rule, _anchor(section.partition("\n")[0]))
    return found


def _shown(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "see its table"
    if value is None:
        return "none"
    return (
        f"`{json.dumps(value, ensure_ascii=False)}`"
        if not isinstance(value, str) or not value
        else f"`{value}`"
    )


def _cell(text: str) -> str:
    """Return a text as a cell of a table; Ansible's marks for code become Markdown's."""
    return re.sub(r"[CVO]\(([^)]*)\)", r"`\1`", text).replace("|", "\\|")


def options(role: str) -> dict[str, Any]:
    """Return the options of a role whose variables have a model, as argument_specs have them."""
    service = next((s for s in SERVICES if s.name == role), None)
    found = service_variables(service) if service else [v for v in variables(Shared, "") if v.name == role]
    own = {v.name: specs(role)["main"]["options"][v.name] for v in role_variables(role, ["main"])}
    return {v.name: _option(v) for v in found} | own


def _option(variable: Variable) -> dict[str, Any]:
    schema = variable.schema
    option: dict[str, Any] = {"type": ansible_type(schema)}
    if variable.required:
        option["required"] = True
    elif variable.default is not None:
        option["default"] = {} if isinstance(variable.default, BaseModel) else variable.default
    if words := schema.get("enum"):
        option["choices"] = list(words)
    if isinstance(items := schema.get("items"), Mapping):
        option["elements"] = ansible_type(items)
    if looks_secret(variable.name) or variable.name.endswith("users"):
        option["no_log"] = True
    said = [variable.said]
    if unit := _unit(variable):
        said.append(f"In {unit}.")
    if variable.planned:
        said.append(f"By the rule C({variable.planned}) of docs/rules.md.")
    if variable.parts and variable.inside in ("", "[]"):
        option["options"] = {_last(part): _option(part) for part in variable.parts}
    else:
        said += [f"C({_last(p)}): {p.said}" for p in variable.parts]
    return option | {"description": said if len(said) > 1 else said[0]}


class _Indented(yaml.SafeDumper):
    """Writes lists below their key as the files of the kit do, and a value that stands twice, twice."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def argument_specs(role: str) -> str:
    """Return the argument_specs of a role with the options of its models in their place."""
    text = (ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text()
    written = yaml.dump(
        {"options": options(role)}, Dumper=_Indented, sort_keys=False, width=110, allow_unicode=True
    )
    # Other entry points have the same options, by this anchor.
    block = "".join(
        f"    {line}\n" for line in written.replace("options:", "options: &options", 1).splitlines()
    )
    return re.sub(r"(?ms)^    options:.*?\n(?=  \S|\Z)", lambda _: block, text, count=1)


def generated_roles() -> list[str]:
    """Return the roles whose options are written from models."""
    return [*(s.name for s in SERVICES if s.variables), "kafka_topics"]


if __name__ == "__main__":
    for each in generated_roles():
        (ROOT / "roles" / each / "meta" / "argument_specs.yml").write_text(argument_specs(each))
    PAGE.write_text(page())
