"""Finds containers in compose files and in manifests of Kubernetes: image, command, environment, limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sizing.review.reading import Value

#: What stands for a value that the file takes from elsewhere, as Kafka's clients write such a reference.
ELSEWHERE: Final = "${elsewhere:%s}"
_SCALE: Final = {
    "": 1,
    "b": 1,
    "k": 1024,
    "ki": 1024,
    "m": 1024**2,
    "mi": 1024**2,
    "g": 1024**3,
    "gi": 1024**3,
}


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a file; ``limits`` as a unit has them (``MemoryMax``)."""

    where: str
    image: str
    command: str
    environment: Mapping[str, Value]
    limits: Mapping[str, Value]


def containers(documents: list[Any], name: str) -> list[Container]:
    """Return the containers of a file's documents, in their order."""
    return [one for document in documents for one in _in(document, name, "")]


def _in(node: Any, name: str, called: str) -> Iterator[Container]:
    if isinstance(node, list):
        for one in node:
            yield from _in(one, name, called)
    elif isinstance(node, Mapping):
        if _is_container(node):
            yield _container(node, name, called)
            return
        for key, one in node.items():
            yield from _in(one, name, str(key))


def _is_container(node: Mapping[Any, Any]) -> bool:
    image = isinstance(node.get("image"), str)
    return (image and bool({"environment", "env", "command", "args", "ports"} & node.keys())) or (
        "environment" in node and isinstance(node["environment"], dict | list) and "build" in node
    )


def _container(node: Mapping[Any, Any], name: str, called: str) -> Container:
    where = f"{name}, {node.get('name') or node.get('container_name') or called}"
    words = [node.get(key) for key in ("entrypoint", "command", "args")]
    command = " ".join(" ".join(map(str, w)) if isinstance(w, list) else str(w) for w in words if w)
    environment = {
        key: Value(value, where)
        for key, value in _variables(node.get("environment", node.get("env")))
        if re.fullmatch(r"[A-Za-z_][\w.-]*", key)
    }
    return Container(
        where, str(node.get("image", "")), command.replace("\n", " "), environment, _limits(node, where)
    )


def _variables(given: Any) -> Iterator[tuple[str, str]]:
    if isinstance(given, Mapping):
        for key, value in given.items():
            yield str(key), _text(value)
    for one in given if isinstance(given, list) else ():
        if isinstance(one, Mapping) and "name" in one:
            yield str(one["name"]), _text(one["value"]) if "value" in one else ELSEWHERE % "a reference"
        elif isinstance(one, str):
            key, equals, value = one.partition("=")
            yield key.strip(), _text(value) if equals else ELSEWHERE % "the shell"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value).replace("$$", "$").strip()


def _limits(node: Mapping[Any, Any], where: str) -> dict[str, Value]:
    given = node.get("mem_limit")
    for path in (("deploy", "resources", "limits", "memory"), ("resources", "limits", "memory")):
        at: Any = node
        for step in path:
            at = at.get(step) if isinstance(at, Mapping) else None
        given = given or at
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(given or "").strip().lower())
    if match is None or match[2] not in _SCALE:
        return {}
    return {"MemoryMax": Value(f"{int(float(match[1]) * _SCALE[match[2]]) >> 20}M", where)}
