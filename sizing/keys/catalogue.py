"""The keys that each component and version reads, and what is wrong with the ones that a person wrote.

The catalogues lie in ``catalogues/COMPONENT-VERSION.txt``, one key a line, read from the components
themselves (their ConfigDef, and what librdkafka prints of its own). Behind a key stands what it takes, where
that is known: ``= A B`` one of these, ``~ A B`` in any case, ``+ A B`` several with commas, ``# LOW HIGH`` a
whole number from .. to, ``% LOW HIGH`` a number. A version between two files has the keys of the older one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

from evidence.nearest import nearest
from sizing.core.findings import Finding, Severity

Component = Literal[
    "admin",
    "broker",
    "connect",
    "consumer",
    "kafka-rest",
    "librdkafka-consumer",
    "librdkafka-producer",
    "mapr",
    "mm2",
    "producer",
    "rest-utils",
    "streams",
    "strimzi",
    "topic",
]

#: After the newest major version of Apache Kafka that there is: Confluent Platform's numbers lie beyond it.
NEWER_KAFKA: Final = (5,)
OF_KAFKA: Final = "write Kafka's own version (Confluent Platform 7.9 carries Kafka 3.9, 8.0 carries 4.0)"

_FOLDER: Final = Path(__file__).with_name("catalogues")

#: Families of keys whose members a plugin or a listener names; nothing can be said about them.
_OPEN: Final = ("confluent.", "listener.name.", "metric.reporters.", "metrics.context.", "sandbox.")

#: What most components do with a key that they do not know.
_SILENT: Final = " and would pass over it in silence"

#: A client of kafka-rest is configured under each of these; ``client.`` goes to all of them.
_CLIENTS: Final[tuple[tuple[str, tuple[Component, ...]], ...]] = (
    ("producer.", ("producer",)),
    ("consumer.", ("consumer",)),
    ("admin.", ("admin",)),
    ("client.", ("producer", "consumer", "admin")),
)


@cache
def known_keys(component: Component, version: str) -> frozenset[str]:
    """Return the keys that a version of a component reads; none for a version of an unknown major number.

    The catalogue's newest file at or below ``version`` counts; for a version below all of them, the oldest.
    """
    return frozenset(_entries(component, version))


@cache
def takes(component: Component, version: str) -> Mapping[str, str]:
    """Return what the keys of a version take, as the catalogue has it; nothing of versions beyond it."""
    return {} if beyond(component, version) else _entries(component, version)


@cache
def rest_takes(distribution: str, version: str) -> Mapping[str, str]:
    """Return what keys of the clients inside a REST proxy take; of MapR's, which are its own, nothing."""
    if distribution == "strimzi":
        known = _client_entries("4.3")
        return {f"kafka.{key}": form for key, form in known.items()} | {
            f"kafka.{key.removeprefix('client.')}": form
            for key, form in known.items()
            if key.startswith("client.")
        }
    if distribution == "mapr":
        return {}
    return _client_entries(_client_version("8.3" if distribution == "sandbox" else version))


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


def check_keys(
    component: Component,
    version: str,
    keys: Iterable[str],
    where: str,
    rule: str = "keys.unknown",
    refused: str = "",
) -> list[Finding]:
    """Return a warning for each key that this version of a component does not read.

    ``refused`` says what becomes of a key that no version knows, where that is an error; without it, such a
    key is passed over.
    """
    known = known_keys(component, version)
    if not known:
        return []
    return [
        _finding(
            key,
            f"{component} {version}",
            known,
            every_key(component),
            where,
            rule,
            "error" if refused else "warning",
            f": {refused}" if refused else _SILENT,
        )
        for key in keys
        if key not in known and not key.startswith(_OPEN)
    ]


def check_rest_keys(distribution: str, version: str, keys: Iterable[str], where: str) -> list[Finding]:
    """Return a finding for each key that a REST proxy does not read, its clients' keys included.

    One that no version knows is an error, but for the MapR build, of which not all keys are known.
    ``distribution`` is confluent, sandbox, mapr or strimzi; the sandbox stands in for kafka-rest 8.3.
    """
    known, ever = _rest_catalogue(distribution, version)
    if not known:
        return []
    subject = f"{'kafka-rest' if distribution in ('confluent', 'sandbox') else distribution} {version}"
    return [
        _finding(
            key,
            subject,
            known,
            ever,
            where,
            "rest.keys",
            "warning" if distribution == "mapr" else "error",
            _SILENT,
        )
        for key in keys
        if key not in known and not key.startswith(_OPEN)
    ]


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers, so that 7.10 comes after 7.9."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


@cache
def _rest_catalogue(distribution: str, version: str) -> tuple[frozenset[str], frozenset[str]]:
    if distribution == "strimzi":
        own = known_keys("strimzi", version)
        # kafka.KEY goes to every client, kafka.producer.KEY to one; the bridge carries the client of its day.
        prefixed = {f"kafka.{key}" for key in _client_keys("4.3")}
        plain = {f"kafka.{key.removeprefix('client.')}" for key in _client_keys("4.3")}
        return (own | prefixed | plain if own else own), every_key("strimzi")
    if distribution == "mapr":
        own = known_keys("mapr", version)
        # Its client is a Kafka client of 0.9 to 2.x: the catalogue's oldest comes nearest.
        return (own | _client_keys("3.9") if own else own), every_key("mapr")
    running = "8.3" if distribution == "sandbox" else version
    own = known_keys("kafka-rest", running)
    if not own:
        return own, own
    clients = _client_keys(_client_version(running))
    serializers = {
        f"{prefix}{name}"
        for prefix in ("", "producer.", "consumer.", "client.")
        for name in ("schema.registry.url", "schema.registry.basic.auth.user.info")
    } | {"schema.registry.basic.auth.credentials.source"}
    known = own | known_keys("rest-utils", running) | clients | serializers
    return known, every_key("kafka-rest") | every_key("rest-utils") | known


def _client_version(rest: str) -> str:
    """Return the catalogue's version of the clients that a kafka-rest carries."""
    return "3.9" if numbers(rest) < (8,) else "4.3"


def _client_keys(version: str) -> frozenset[str]:
    return frozenset(_client_entries(version))


@cache
def _client_entries(version: str) -> Mapping[str, str]:
    return {
        f"{prefix}{key}": form
        for prefix, components in _CLIENTS
        for component in components
        for key, form in _entries(component, version).items()
    }


@cache
def _entries(component: Component, version: str) -> Mapping[str, str]:
    """Return the keys of a version with what they take, as ``known_keys`` chooses it."""
    wanted = numbers(version)
    files = {numbers(p.stem.removeprefix(f"{component}-")): p for p in _files(component)}
    same = sorted(v for v in files if v[0] == wanted[0])
    if not same:
        return {}
    return _read(files[max((v for v in same if v <= wanted), default=same[0])])


def _finding(
    key: str,
    subject: str,
    known: frozenset[str],
    ever: frozenset[str],
    where: str,
    rule: str,
    severity: Severity,
    consequence: str,
) -> Finding:
    """Return what is wrong with a key; ``severity`` and ``consequence`` are those of a wholly unknown one."""
    if key in ever:
        return Finding(
            "warning",
            rule,
            where,
            f"{subject} does not read {key}, which other versions do",
            f"take {key} out",
        )
    plugins = rule == "rest.keys"
    of_a_plugin = "; one that a plugin reads belongs in kafka_rest_plugin_keys" if plugins else ""
    near = nearest(key, known, 0.75)
    return Finding(
        severity,
        rule,
        where,
        f"{subject} does not know {key}{consequence}",
        f"did you mean {near}?" if near else f"take {key} out{of_a_plugin}",
    )


def _files(component: str) -> Iterator[Path]:
    for path in sorted(_FOLDER.glob(f"{component}-*.txt")):
        if path.stem.rpartition("-")[0] == component:
            yield path


@cache
def _read(path: Path) -> Mapping[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    parts = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return {key: form for key, _, form in parts}
