"""The keys that a REST proxy reads, those of the clients inside it included, by its distribution's record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from kedge.keys.catalogue import Component, defaults, entries, every_key, known_keys
from kedge.keys.unread import SILENT, KnownKeys, is_open, unread
from kedge.plan.findings import WITH_INVENTORY, Finding, Reader, Subject
from kedge.services.rest.distribution import Distribution, Keys

#: The keys of each client begin with its own of these.
_CLIENTS: Final[tuple[tuple[str, Component], ...]] = (
    ("producer.", "producer"),
    ("consumer.", "consumer"),
    ("admin.", "admin"),
)
_PLUGINS: Final = "; one that a plugin reads belongs in kafka_rest_plugin_keys"
_IN_FILES: Final = ", unless one of your plugins reads it"
_VARIABLE: Final = "kafka_rest_settings"


def check_rest_keys(
    distribution: Distribution,
    version: str,
    keys: Iterable[str],
    where: str,
    reader: Reader = WITH_INVENTORY,
) -> list[Finding]:
    """Return a finding for each key that a REST proxy does not read, its clients' keys included."""
    of = distribution.keys
    read = _read(of, version)
    if read is None:
        return []
    found: list[Finding] = []
    keys = list(keys)
    for key in keys:
        if is_open(_bare(of, key)):  # it goes to a client, and what that has of plugins
            continue
        place = None if key in read.ever else _place(of, read, version, key)
        if place is None:
            otherwise = reader.either(_PLUGINS, _IN_FILES)
            found += unread(
                read,
                {key: key},
                where,
                "rest.keys",
                of.unknown,
                SILENT,
                otherwise,
                variable=_VARIABLE,
                there=keys,
            )
            continue
        what = f"{read.name} does not know {key}{SILENT}: its clients read it as {place}"
        there = place in keys
        fix = f"take {key} out, for {place} is there" if there else f"write {place}"
        severity = "warning" if there else of.unknown
        found.append(
            Finding(severity, "rest.keys", where, what, fix, Subject(_VARIABLE, (key,), meant=place))
        )
    return found


def _bare(keys: Keys, key: str) -> str:
    """Return a key as the client has it to which it goes."""
    if keys.clients is None or not key.startswith(keys.prefix):
        return key
    bare = key.removeprefix(keys.prefix)
    begins = (*(own for own, _ in _CLIENTS), *keys.shared)
    return bare.removeprefix(next((begin for begin in begins if bare.startswith(begin)), ""))


def _place(keys: Keys, read: KnownKeys, version: str, key: str) -> str | None:
    """Return how a key of Kafka's clients has to begin here, where it was written without that."""
    if keys.clients is None:
        return None
    of = keys.clients(version)
    own = [begin for begin, component in _CLIENTS if key in entries(component, of)]
    # The last of the shared ones is the shortest.
    begin = own[0] if len(own) == 1 else keys.shared[-1]
    place = f"{keys.prefix}{begin}{key}"
    return place if own and place in read.known else None


def rest_takes(distribution: Distribution, version: str) -> Mapping[str, str]:
    """Return what keys of a REST proxy take, and of Kafka's clients inside it; nothing of other clients."""
    keys = distribution.keys
    of_itself = (entries(one, keys.version(version)) for one in keys.components)
    own = {key: form for one in of_itself for key, form in one.items() if form}
    if distribution.clients is None or keys.clients is None:
        return own
    return {**own, **_client_entries(keys.clients(version), keys.prefix, keys.shared)}


def rest_defaults(distribution: Distribution, version: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return what holds of keys that a REST proxy's ``own`` ones leave out, those of its clients included."""
    keys = distribution.keys
    found: dict[str, str] = {}
    for component in keys.components:
        # Of a key of both, the first one's own default holds.
        found = {**defaults(component, keys.version(version)), **found}
    if distribution.clients is None:
        return found
    of = distribution.clients(version)
    shared = {key.removeprefix(begin): value for begin in _begins(keys) for key, value in own.items()
              if key.startswith(begin)}  # fmt: skip
    for client, component in _CLIENTS:
        held = {**defaults(component, of), **shared}
        # consumer.request.timeout.ms is a key of kafka-rest itself.
        found = {f"{keys.prefix}{client}{key}": value for key, value in held.items()} | found
    return found


def _begins(keys: Keys) -> tuple[str, ...]:
    """Return what keys begin with that go to every client."""
    return tuple(f"{keys.prefix}{begin}" for begin in keys.shared if keys.prefix or begin)


def _read(keys: Keys, version: str) -> KnownKeys | None:
    """Return the keys that a version reads; None where nothing is known of it."""
    of = keys.version(version)
    own = [known_keys(component, of) for component in keys.components]
    if own and not own[0]:
        return None
    clients = _client_entries(keys.clients(version), keys.prefix, keys.shared) if keys.clients else {}
    known = frozenset[str]().union(*own, clients, keys.more)
    return KnownKeys(
        f"{keys.subject} {version}",
        known,
        known.union(*(every_key(component) for component in keys.components)),
    )


@cache
def _client_entries(version: str, prefix: str, shared: tuple[str, ...]) -> Mapping[str, str]:
    """Return the keys of a version of Kafka's clients as a proxy passes them on, with what they take."""
    return {
        f"{prefix}{begin}{key}": form
        for own, component in _CLIENTS
        for begin in (own, *shared)
        for key, form in entries(component, version).items()
    }
