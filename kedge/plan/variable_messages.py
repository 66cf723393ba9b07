"""Turns what is wrong with a variable into one line: its full name, what is wrong, how to mend it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticCustomError

from kedge.evidence.nearest import nearest
from kedge.evidence.secrets import looks_secret, without_secrets
from kedge.plan.findings import Finding, Subject

_UNITS: Final = {
    "_mib": "MiB",
    "mb_per_s": "MB/s",
    "mbit_per_s": "Mbit/s",
    "records_per_s": "records/s",
    "_ms": "ms",
    "_bytes": "bytes",
    "_s": "seconds",
    "_seconds": "seconds",
    "_minutes": "minutes",
    "_percent": "percent",
    "_lag": "records",
}
#: What the patterns of the models ask for, by their beginnings.
_FORMS: Final = {
    r"^\d+\.\d+": "numbers with dots, such as 8.3.1",
    "^[a-zA-Z0-9._-]": "it in this form: letters, digits, dots, _ and - alone",
    "^[A-Za-z0-9._@-]": "it in this form: letters, digits, dots, _, @ and - alone",
    "^[A-Za-z0-9._@/-]": "it in this form: letters, digits, dots, _, @, / and - alone",
    "^[A-Za-z0-9:_": "the unit's name with its ending, such as confluent-kafka-rest.service",
    "^[a-z][a-z0-9-]": "it in this form: small letters, digits and - alone, a letter first",
    "^[A-Za-z_$]": "a class with its package, such as org.example.Main",
    "^(http|https)://": "a URL that begins with https:// (or http://), without a login in it",
    "^https?://": "http://host:port or https://host:port, without a path",
    "^/": "an absolute path, which begins with /",
}
#: Numbers that YAML takes for texts: in quotes, with commas between thousands, octal ones, 2e4.
_WRITTEN: Final = re.compile(r"-?(\d{1,3}(,\d{3})+|\d+(\.\d+)?(e\+?\d{1,2})?)", re.IGNORECASE)
_QUANTITY: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+|%)(/s)?", re.IGNORECASE)
#: What a unit is in the unit of a variable.
_IN: Final[dict[str, dict[str, float]]] = {
    "MiB": {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024},
    "bytes": {"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "k": 1024, "m": 1024**2, "g": 1024**3},
    "ms": {"ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000},
    "seconds": {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400},
    "minutes": {"s": 1 / 60, "m": 1, "min": 1, "h": 60},
    "records/s": {"k": 1000, "m": 1_000_000},
    "MB/s": {"k": 0.001, "m": 1, "g": 1000},
}
_MAPPINGS: Final = ("model_type", "model_attributes_type", "dict_type")
_FEW: Final = 8
_WANTED: Final = {
    **dict.fromkeys(_MAPPINGS, "write a mapping: KEY: VALUE, each on a line of its own"),
    "list_type": "write a list",
    "bool_type": "write true or false",
    "string_type": "write a text",
    "too_short": "add at least one",
}
#: What a password may be made of: Password in kedge/plan/inventory/security.py says why.
_CHARACTERS: Final = (
    "write another one, of 8 to 256 characters without blanks, quotes, backslash, comma, semicolon or ]"
)
_PLAIN: Final = re.compile(r"[\w.-]+")
_NO_SUCH: Final = "take it out; docs/reference.md has all that there are"
#: Steps of a path that pydantic adds for the members of a union; no person wrote them.
_UNION: Final = frozenset({"str", "int", "float", "bool"})


def wrong_variable(variable: str, where: str, what: str, fix: str, *key: str) -> Finding:
    """Return the finding about one variable, or a key in it: its full name, what is wrong, how to mend it."""
    subject = Subject(variable, key, host=where)
    name = subject.name
    return Finding("error", "inventory.variable", f"{where}: {name}", f"{name} {what}", fix, subject, what)


def missing_variable(variable: str, where: str, fix: str) -> Finding:
    """Return the finding about a variable that is missing."""
    return replace(wrong_variable(variable, where, "is missing", fix), consequence=True)


def at_odds(variable: str, where: str, why: str, fix: str) -> Finding:
    """Return the finding about a variable that another one contradicts."""
    return replace(wrong_variable(variable, where, f"contradicts itself: {why}", fix), consequence=True)


def unknown_variable(variable: str, where: str, what: str, meant: str) -> Finding:
    """Return the finding about a variable that there is not, with the one that is probably ``meant``."""
    found = wrong_variable(variable, where, what, f"did you mean {meant}?" if meant else _NO_SUCH)
    return replace(found, subject=Subject(variable, host=where, meant=meant))


def renamed(finding: Finding, name: str) -> Finding:
    """Return a finding of :func:`wrong_variable` by the name that its variable has for who reads it."""
    of = finding.subject
    if of is None or not finding.what:
        return finding
    return replace(finding, where=f"{of.host}: {name}", message=f"{name} {finding.what}")


def wrong_choice(name: str, where: str, value: str, known: Sequence[str]) -> Finding:
    """Return the complaint about a word that is none of those that are known, as pydantic's of a Literal."""
    words = either(map(repr, known))
    mend = _choice("literal_error", value, {"expected": words}) or f"write one of {words}"
    return wrong_variable(name, where, f"is {value!r}: input should be {words}", mend)


def either(words: Iterable[str]) -> str:
    """Return words of which one is to be chosen: A, B or C."""
    *before, last = words
    return f"{', '.join(before)} or {last}" if before else last


def declare(names: Iterable[str]) -> str:
    """Return how to mend the name of a cluster that nothing declares."""
    known = ", ".join(sorted(names))
    return f"use one of {known}, or declare it in kafka_clusters" if known else "declare it in kafka_clusters"


def entry_name(entries: Sequence[Any], number: int) -> str | int:
    """Return what an entry of a list is called: its name where that is its alone, else its place."""
    names = [entry.get("name") if isinstance(entry, Mapping) else None for entry in entries]
    name = names[number]
    plain = isinstance(name, str) and _PLAIN.fullmatch(name) and names.count(name) == 1
    return str(name) if plain else number


def contradiction(field: str, why: str, fix: str = "correct one of the two") -> PydanticCustomError:
    """Return the error of a validator that finds two variables at odds; ``field`` is the one to name."""
    return PydanticCustomError("contradiction", "{why}", {"field": field, "why": why, "fix": fix})


def validation_findings(
    model: type[BaseModel], prefix: str, where: str, errors: Sequence[Any]
) -> list[Finding]:
    """Return one finding a variable, in the order in which pydantic found the errors."""
    found: dict[str, Finding] = {}
    for error in errors:
        finding = _finding(model, prefix, where, error)
        found.setdefault(finding.where, finding)
    return list(found.values())


def _finding(model: type[BaseModel], prefix: str, where: str, error: Any) -> Finding:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    steps = list(error["loc"])
    if steps and steps[-1] in _UNION and len(steps) > 1:
        return _no_scalar(prefix + _path(steps[:-1]), where, str(steps[-2]), value)
    if kind == "contradiction":
        name = prefix + _path([*steps, context["field"]])
        return at_odds(name, where, context["why"], context["fix"])
    if kind == "literal_error" and steps[-1] == "[key]":  # of a mapping whose keys are known
        steps.pop()
        kind, known = "extra_forbidden", re.findall(r"'([^']+)'", context["expected"])
    else:
        known = _fields(model, steps[:-1]) if kind == "extra_forbidden" else []
    if steps and steps[-1] == "[key]":  # its name is the value
        steps.pop()
    name = prefix + _path(steps)
    if kind == "extra_forbidden":
        near = nearest(str(steps[-1]), known)
        meant = f"{prefix}{_path([*steps[:-1], near])}" if near else ""
        return unknown_variable(name, where, "is not known", meant)
    if kind == "missing" or (value is None and kind != "value_error"):
        hint = _unit_hint(name) + _described(model, steps)
        empty = wrong_variable(name, where, "is empty", f"give it a value{hint}")
        return missing_variable(name, where, f"add it{hint}") if kind == "missing" else empty
    if looks_secret(name) or ".users" in name or "_users" in name:
        return _secret(name, where, error)
    what = f"is {shown(value)}: {_lowered(error['msg'])}" if kind not in _MAPPINGS else no_mapping(value)
    mend = _keys(_fields(model, steps), kind) or _mend(name, kind, value, context)
    return wrong_variable(name, where, what, mend)


def shown(value: Any) -> str:
    """Return a value as a finding shows it: a mapping or a list may hold a secret, and a URL a login."""
    if isinstance(value, Mapping | list):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    return without_secrets(repr(value))


def no_mapping(value: Any) -> str:
    """Say that a value is no mapping; KEY=VALUE in a text may hold a secret."""
    keys = isinstance(value, str) and "=" in value
    return "is no mapping" if keys else f"is {shown(value)}, which is no mapping"


def _no_scalar(name: str, where: str, key: str, value: Any) -> Finding:
    """Complain of a key that has no value, or several."""
    if value is None:
        return wrong_variable(name, where, "is empty", "give it a value, or take it out")
    mend = "write one text, number or true/false"
    if isinstance(value, Mapping) and value:
        mend = (
            f"write a key with its dots, {key}.{next(iter(value))}, where that is what you mean; else {mend}"
        )
    return wrong_variable(name, where, f"is {shown(value)}", mend)


def _refused(secret: Any) -> str:
    """Say why a password is refused, and nothing that is in it."""
    text = str(secret)
    kinds = (
        ("a blank", re.search(r"\s", text)),
        ("a quote", '"' in text),
        ("a backslash", "\\" in text),
        ("a comma", "," in text),
        ("a semicolon", ";" in text),
        ("a closing bracket", "]" in text),
    )
    held = [kind for kind, found in kinds if found]
    short = ["it is shorter than 8 characters"] if len(text) < 8 else []
    long = ["it is longer than 256 characters"] if len(text) > 256 else []
    said = [*short, *long, *([f"it holds {' and '.join(held)}"] if held else [])]
    return ", and ".join(said) or "it has characters that no login takes"


def _secret(name: str, where: str, error: Any) -> Finding:
    """Complain of what must not be shown."""
    if error["type"] in _MAPPINGS:
        return wrong_variable(name, where, "is no mapping", "write a mapping: NAME: PASSWORD, each on a line")
    if error["type"] == "string_pattern_mismatch" and error["loc"][-1] != "[key]":
        return wrong_variable(name, where, f"cannot be used: {_refused(error['input'])}", _CHARACTERS)
    return wrong_variable(name, where, f"cannot be used: {_lowered(error['msg'])}", "write another one")


def _mend(name: str, kind: str, value: Any, context: dict[str, Any]) -> str:
    return (
        _quantity(name, value)
        or _quotes(name, kind, value)
        or _bound(name, value, context)
        or _choice(kind, value, context)
        or _kind(name, kind, context)
    )


def _keys(fields: Sequence[str], kind: str) -> str | None:
    """Name the keys of a mapping that has few."""
    asked = kind in _MAPPINGS[:-1] and 0 < len(fields) <= _FEW
    return f"write a mapping with {', '.join(fields)}" if asked else None


def _quantity(name: str, value: Any) -> str | None:
    """Convert a number that was written with a unit, such as 4g, to the unit of the variable."""
    unit = unit_of(name)
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match and match["unit"] == "%":
        return f"write {float(match['number']) / (1 if name.endswith('percent') else 100):g}"
    factor = _factor(unit, match["unit"].lower()) if match and unit else None
    if match is None or factor is None:
        return None
    number = float(match["number"]) * factor
    return (
        f"write {number:g}: the unit is {unit}"
        if unit == "MB/s"
        else f"write {number:.0f}: the unit is {unit}"
    )


def _quotes(name: str, kind: str, value: Any) -> str | None:
    if isinstance(value, str) and kind in ("int_type", "float_type") and _WRITTEN.fullmatch(value):
        plain = float(value.replace(",", ""))
        shown = int(plain) if plain == int(plain) else plain
        return f"write {shown} without quotes" if str(shown) == value else f"write {shown}"
    if kind == "list_type" and isinstance(value, str):
        return f"write a list: {json.dumps([value])}"
    if kind == "string_type" and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return f"write one text: {','.join(value)}"
    if name.endswith("version") and isinstance(value, int):
        return f'write numbers with dots, in quotes, such as "{value}.0"'
    if kind == "string_type" and isinstance(value, int | float) and not isinstance(value, bool):
        return f'put it in quotes: "{value}"'
    return None


def _bound(name: str, value: Any, context: dict[str, Any]) -> str | None:
    if context.get("gt") == 0:
        return f"write a number above 0{_unit_hint(name)}"
    low, high = context.get("ge"), context.get("le")
    hint, unit = "", unit_of(name)
    if unit and value:
        hint = f"; the unit is {unit}, not a {'larger' if low is not None else 'smaller'} one"
    if low is not None:
        return f"write {_plain(low)} or more" + (hint if value > 0 else "")
    return f"write {_plain(high)} or less{hint}" if high is not None else None


def _choice(kind: str, value: Any, context: dict[str, Any]) -> str | None:
    """Name the one of several words that a word is probably meant to be."""
    words = re.findall(r"'([^']+)'", context["expected"]) if kind == "literal_error" else []
    alike = {word.lower(): word for word in words}
    near = nearest(str(value).lower().replace("-", "_"), alike)
    return f"did you mean {alike[near]}?" if near else None


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


def _kind(name: str, kind: str, context: dict[str, Any]) -> str:
    if kind == "literal_error":
        return f"write one of {context['expected']}"
    if kind in ("int_type", "int_from_float", "float_type"):
        return f"write a {'' if kind == 'float_type' else 'whole '}number{_unit_hint(name)}"
    if kind == "string_pattern_mismatch" and name.endswith(("sha256", "checksum")):
        return "write the 64 characters that sha256sum says of the file"
    if kind == "string_pattern_mismatch":
        forms = (form for begin, form in _FORMS.items() if context["pattern"].startswith(begin))
        return f"write {next(forms, 'it in that form')}"
    return _WANTED.get(kind, "correct the value")


def _factor(unit: str, written: str) -> float | None:
    scale = _IN.get(unit, {})
    return next(
        (scale[w] for w in (written, written.removesuffix("ib"), written.removesuffix("b")) if w in scale),
        None,
    )


def unit_of(name: str) -> str | None:
    """Return the unit of a variable, which its name ends with; None where it is of none."""
    name = re.sub(r"_p\d+$", "", name)  # a percentile is in the unit of what it is of
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), None)


def _unit_hint(name: str) -> str:
    unit = unit_of(name)
    return f", in {unit}" if unit else ""


def _lowered(message: str) -> str:
    """Return what pydantic says, to be read after the value."""
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _path(steps: Sequence[Any]) -> str:
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path


def _described(model: type[BaseModel], steps: Sequence[Any]) -> str:
    """Return what a variable is, to be read after how to mend it."""
    held = _model_at(model, steps[:-1])
    field = held.model_fields.get(str(steps[-1])) if held and steps else None
    said = (field.description if field else None) or ""
    # A name keeps its capital: SHA-256, Kafka's.
    plain = re.match(r"[A-Z][a-z]* ", said)
    return f": {said[:1].lower() if plain else said[:1]}{said[1:].rstrip('.')}" if said else ""


def _fields(model: type[BaseModel], steps: Sequence[Any]) -> list[str]:
    """Return the names known at a path below a model."""
    held = _model_at(model, steps)
    return list(held.model_fields) if held else []


def _model_at(model: type[BaseModel], steps: Sequence[Any]) -> type[BaseModel] | None:
    """Return the model at a path below another one; places in lists, and keys, are passed over."""
    keyed = False
    for step in steps:
        # A key may have the name of a field.
        field = None if keyed else model.model_fields.get(str(step))
        keyed = field is not None and _has_keys(field.annotation)
        if field is None:
            continue
        found = next(models_in(field.annotation), None)
        if found is None:
            return None
        model = found
    return model


def _has_keys(annotation: Any) -> bool:
    """Return whether an annotation is of a mapping, by itself or among others."""
    origin = get_origin(annotation)
    return (isinstance(origin, type) and issubclass(origin, Mapping)) or (
        not isinstance(origin, type) and any(map(_has_keys, get_args(annotation)))
    )


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)
