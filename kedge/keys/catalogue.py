"""The keys that each component and version reads, what each takes, and what holds where it is not set.

The catalogues lie in ``catalogues/COMPONENT-VERSION.txt``, one key a line, read from the components
themselves (their ConfigDef, and what librdkafka prints of its own). Behind a key stands what it takes, where
that is known: ``= A B`` one of these, ``~ A B`` in any case, ``+ A B`` several with commas, ``# LOW HIGH`` a
whole number from .. to, ``% LOW HIGH`` a number. Behind ``:=`` stands its default, where it has one that is
known. A version between two files has the keys of the older one. ``purposes.txt`` has what keys do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

from kedge.plan.version_numbers import numbers

Component = Literal[
    "admin",
    "broker",
    "connect",
    "consumer",
    "haproxy",
    "kafka-rest",
    "librdkafka-consumer",
    "librdkafka-producer",
    "linux",
    "mapr",
    "mm2",
    "producer",
    "rest-utils",
    "serializer",
    "streams",
    "strimzi",
    "topic",
]

_FOLDER: Final = Path(__file__).with_name("catalogues")


@cache
def known_keys(component: Component, version: str) -> frozenset[str]:
    """Return the keys that a version of a component reads; none for a version of an unknown major number.

    The catalogue's newest file at or below ``version`` counts; for a version below all of them, the oldest.
    """
    return frozenset(entries(component, version))


@cache
def takes(component: Component, version: str) -> Mapping[str, str]:
    """Return what the keys of a version take, as the catalogue has it; nothing of versions beyond it."""
    return {} if beyond(component, version) else entries(component, version)


@cache
def every_key(component: Component) -> frozenset[str]:
    """Return the keys of a component over all versions of the catalogue."""
    return frozenset(key for path in _files(component) for key in _read(path))


@cache
def keys_around(component: Component, version: str) -> frozenset[str]:
    """Return the keys of a version, and of the next one in the catalogue of the same major number.

    What neither has, no version between the two has: for a component that refuses what it does not know.
    """
    wanted = numbers(version)
    later = sorted(
        found
        for path in _files(component)
        if (found := numbers(path.stem.removeprefix(f"{component}-"))) > wanted and found[0] == wanted[0]
    )
    following = ".".join(str(number) for number in later[0]) if later else version
    return known_keys(component, version) | known_keys(component, following)


def beyond(component: Component, version: str) -> bool:
    """Return whether a version is newer than all that the catalogue has of a component."""
    files = [numbers(path.stem.removeprefix(f"{component}-")) for path in _files(component)]
    return all(numbers(version)[: len(file)] > file for file in files)


def versions(component: Component) -> list[str]:
    """Return the versions that have a file, in their order."""
    found = (path.stem.removeprefix(f"{component}-") for path in _files(component))
    return sorted(found, key=numbers)


@cache
def entries(component: Component, version: str) -> Mapping[str, str]:
    """Return the keys of a version with what they take, '' where nothing is known of it."""
    return {key: form for key, (form, _) in _of(component, version).items()}


@cache
def defaults(component: Component, version: str) -> Mapping[str, str]:
    """Return what holds of each key that is not set, of those with a default that is known."""
    return {key: default for key, (_, default) in _of(component, version).items() if default}


def purposes(key: str) -> dict[str, list[str]]:
    """Return what components say that a key does, each text with its components."""
    return _purposes().get(key, {})


@cache
def _purposes() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for line in _FOLDER.with_name("purposes.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            key, _, said = line.partition(" (")
            components, _, text = said.partition("): ")
            found.setdefault(key, {})[text] = components.split(", ")
    return found


def _of(component: Component, version: str) -> Mapping[str, tuple[str, str]]:
    wanted = numbers(version)
    files = {numbers(p.stem.removeprefix(f"{component}-")): p for p in _files(component)}
    same = sorted(v for v in files if v[0] == wanted[0])
    if not same:
        return {}
    return _read(files[max((v for v in same if v <= wanted), default=same[0])])


def _files(component: str) -> Iterator[Path]:
    for path in sorted(_FOLDER.glob(f"{component}-*.txt")):
        if path.stem.rpartition("-")[0] == component:
            yield path


@cache
def _read(path: Path) -> Mapping[str, tuple[str, str]]:
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            said, _, default = line.partition(" := ")
            key, _, form = said.partition(" ")
            found[key] = form, default
    return found
