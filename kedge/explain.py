"""``kedge explain WORD``: what a key, a rule or a variable is, and what an inventory's plan does with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kedge.evidence.command_line import described, working
from kedge.evidence.nearest import nearest
from kedge.evidence.printable import plain_lines
from kedge.evidence.secrets import looks_secret
from kedge.keys import catalogue
from kedge.plan.compact_names import compact, fold
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.archives import read_archives
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.secrets import Known
from kedge.plan.inventory.variables import OfHost, Shared
from kedge.plan.inventory.yaml_files import InventoryError
from kedge.plan.plan import Plan
from kedge.plan.rules import names_of, since, told
from kedge.plan.rules import setting as rules_setting
from kedge.plan.settings import Setting
from kedge.plan.sources import cited
from kedge.plan.text import findings, wrapped
from kedge.plan.variable_messages import models_in
from kedge.plan.variables import DefaultRule
from kedge.services.host.variables import HostFacts
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES

#: The signs of the catalogues, in words.
_FORMS: Final = {
    "=": "one of {}",
    "~": "one of {}, in any case",
    "+": "several of {}, with commas",
    "#": "a whole number from {}",
    "%": "a number from {}",
}
#: The highest int and long of Java, and the lowest without their sign.
_HIGHEST: Final = ("2147483647", "2147483648", "9223372036854775807", "9223372036854775808")
#: What stands before a key of kafka-rest in the environment of Confluent's image.
_OF_IMAGE: Final = "KAFKA_REST_"


def main(arguments: list[str] | None = None) -> int:
    """Print what is known of a word; return 0, or 2 where nothing is or an input cannot be read."""
    parser = argparse.ArgumentParser(prog="kedge explain", description=described(__doc__))
    parser.add_argument(
        "word", metavar="KEY|RULE|VARIABLE", help="a component's key, a rule that a plan names, or a variable"
    )
    parser.add_argument(
        "where", nargs="?", default="", help="only of places that begin so, such as rest1 or 'topic orders'"
    )
    parser.add_argument(
        "--inventory", "-i", action="append", default=[], type=Path, metavar="INV", help="its plan as well"
    )
    # A host may stand behind options as well.
    options = parser.parse_intermixed_args(arguments)
    try:
        with working(f"planning {', '.join(map(str, options.inventory))}"):
            read = read_inventory(options.inventory, SERVICES) if options.inventory else None
            plan = make_plan(read, archives=read_archives(read, SERVICES)) if read else None
    except InventoryError as error:
        print(error, file=sys.stderr)
        return 2
    known = [*of_key(options.word), *of_variable(options.word), *of_rules(options.word)]
    planned = list(of_plan(plan, options.word, options.where)) if plan else []
    if plan and not planned:
        # A variable that the plan fills has its value in what its rule sets.
        planned = [
            line
            for _, field in _named(options.word)
            for rule in _rules(field)
            for line in of_plan(plan, rule, options.where)
        ]
    if not known and not planned:
        near = nearest(options.word, words(plan))
        where = "neither a component nor the plan has it" if plan else "give -i INV for what its plan has"
        fix = f"did you mean {near}?" if near else where
        print(f"kedge explain {options.word}: nothing has this name; {fix}", file=sys.stderr)
        return 2
    if read:
        known += list(of_inventory(read, options.word, options.where))
    if plan and not planned:
        place = f" for {options.where}" * bool(options.where)
        planned = [f"no setting and no finding of the plan has this name{place}"]
    if not plan:
        planned = ["-i INVENTORY also says what the plan does with it, and from which of your numbers"]
    blocks = ["\n".join(block) for block in (known, planned) if block]
    print(plain_lines("\n\n".join(blocks)))
    return 0


def words(plan: Plan | None) -> set[str]:
    """Return all that can be explained."""
    known = {key for component in get_args(catalogue.Component) for key in catalogue.every_key(component)}
    known |= {*told(), *(name for name, _ in _variables())}
    if plan:
        known |= {word for _, s in plan.settings() for word in (s.key, s.rule)}
        known |= {f.rule for f in plan.findings}
    return known


def of_key(key: str) -> Iterator[str]:
    """Yield what a key does; who reads it, what it takes, and its default, by version."""
    said: dict[tuple[str, str], dict[str, list[str]]] = {}
    for component in get_args(catalogue.Component):
        for version in catalogue.versions(component):
            if key in (entries := catalogue.entries(component, version)):
                default = catalogue.defaults(component, version).get(key, "")
                of = said.setdefault((_takes(entries[key]), default), {})
                of.setdefault(component, []).append(version)
    if said:
        yield key
        for purpose, components in catalogue.purposes(key).items():
            yield from wrapped(f"{', '.join(components)}: {purpose}", 4)
        yield "read by"
    elif (bare := names_of(key)[-1]) != key:
        yield from of_key(bare)
    elif key.startswith(_OF_IMAGE):
        yield from of_key(key.removeprefix(_OF_IMAGE).lower().replace("_", "."))
    for (takes, default), readers in said.items():
        held = "; ".join(filter(None, (takes, f"default {default}" if default else "")))
        by = "; ".join(f"{component} {', '.join(of)}" for component, of in readers.items())
        yield from wrapped(f"{by}{f': {held}' if held else ''}", 4)


def of_variable(word: str) -> Iterator[str]:
    """Yield what a variable of an inventory is, and its default; those of all services that have the name."""
    for name, field in _named(word):
        rules = _rules(field)
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        yield f"variable {name}"
        yield from wrapped(field.description or "", 4)
        yield from ([f"    planned by {rules[0]}"] if rules else [])
        yield from ([f"    default {default}"] if isinstance(default, bool | int | float | str) else [])


def of_inventory(inventory: Inventory, word: str, where: str = "") -> Iterator[str]:
    """Yield what an inventory has under a variable, by hosts; of a secret no more than that."""
    known = Known(inventory)
    found: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys(name for name, _ in _named(word)):
        top, _, last = name.partition(".")
        for host, variables in inventory.hosts.items():
            if not _is_at(host, where):
                continue
            for path, value in _leaves(variables.get(top), top):
                if not last or path.endswith(f".{last}") or f".{last}." in path:
                    shown = "***" if looks_secret(path) else known.masked(str(value))
                    found.setdefault((path, shown), []).append(host)
    for (path, value), hosts in found.items():
        yield f"    {fold(hosts)}: {path} = {value}"


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the single values below a variable, each with its path."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(one, f"{path}.{key}")
    elif value is not None:
        yield path, value


def _named(word: str) -> Iterator[tuple[str, FieldInfo]]:
    return ((name, field) for name, field in _variables() if word in (name, name.rpartition(".")[2]))


def _rules(field: FieldInfo) -> list[str]:
    return [mark.rule for mark in field.metadata if isinstance(mark, DefaultRule)]


def _variables() -> Iterator[tuple[str, FieldInfo]]:
    models: list[tuple[type[BaseModel], str]] = [(Shared, ""), (OfHost, ""), (HostFacts, "host_")]
    models += [(one.variables, f"{one.name}_") for one in SERVICES if one.variables]
    for model, prefix in models:
        yield from _fields(model, prefix)


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}", field
        for inner in models_in(field.annotation):
            yield from _fields(inner, f"{prefix}{name}.")


def of_rules(word: str) -> Iterator[str]:
    """Yield what the page of rules says of a rule, or of those that set a key: documents, measurements."""
    for rule in [word] if word in told() else rules_setting(word):
        yield f"rule {rule}, since {since(rule)}"
        for column, said in told()[rule].items():
            yield from wrapped(f"{column}: {said.partition('; since ')[0]}", 4)


def _takes(form: str) -> str:
    sign, _, values = form.partition(" ")
    if sign not in _FORMS:
        return ""
    if sign not in "#%":
        return _FORMS[sign].format(", ".join(values.split()))
    # The highest numbers of Java bound nothing.
    ends = [end for end in values.split() if end.lstrip("-") not in _HIGHEST]
    return _FORMS[sign].format(" to ".join(ends)) if ends and values.split()[0] == ends[0] else "a number"


def of_plan(plan: Plan, word: str, where: str = "") -> Iterator[str]:
    """Yield the settings of a plan under a key or by a rule, with their reasons, then its findings."""
    places: dict[Setting, list[str]] = {}
    for place, setting in plan.settings():
        if word in (setting.rule, *names_of(setting.key)) and _is_at(place, where):
            # Files of different instances are the same setting.
            places.setdefault(replace(setting, file=setting.file.rpartition("/")[2]), []).append(place)
    for s, of in places.items():
        yield compact(of)
        yield f"    {s.file}  {s.key}={'***' if s.hidden else s.value}"
        yield from wrapped(s.because, 8)
        yield from wrapped(f"{s.rule}, since {since(s.rule)}; {s.basis}; {s.source}", 8)
    yield from _addresses(places)
    about = tuple(
        f
        for f in plan.findings
        if _is_at(f.where, where)
        and (f.rule == word or (f.subject and word in (f.subject.variable, *f.subject.keys)))
    )
    if about:
        yield from findings(about)


def _is_at(place: str, where: str) -> bool:
    return not where or place == where or place.startswith((f"{where} ", f"{where}@", f"{where}:"))


def _addresses(settings: Iterable[Setting]) -> Iterator[str]:
    for source in cited(s.source for s in settings).values():
        if source.address:
            yield from wrapped(f"{source.title}: {source.address}", 4)
