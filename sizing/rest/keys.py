"""The keys that a REST proxy reads, those of the clients inside it included, by its distribution's record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from sizing.core.findings import Finding
from sizing.keys.catalogue import SILENT, Component, Read, entries, every_key, known_keys, unread
from sizing.rest.record import Distribution, Keys

#: The keys of each client begin with its own of these.
_CLIENTS: Final[tuple[tuple[str, Component], ...]] = (
    ("producer.", "producer"),
    ("consumer.", "consumer"),
    ("admin.", "admin"),
)
_PLUGINS: Final = "; one that a plugin reads belongs in kafka_rest_plugin_keys"


def check_rest_keys(
    distribution: Distribution, version: str, keys: Iterable[str], where: str
) -> list[Finding]:
    """Return a finding for each key that a REST proxy does not read, its clients' keys included."""
    read = _read(distribution.keys, version)
    if read is None:
        return []
    return unread(read, keys, where, "rest.keys", distribution.keys.unknown, SILENT, _PLUGINS)


def rest_takes(distribution: Distribution, version: str) -> Mapping[str, str]:
    """Return what keys of Kafka's clients inside a REST proxy take; nothing of clients that are others."""
    keys = distribution.keys
    if distribution.clients is None or keys.clients is None:
        return {}
    return _client_entries(keys.clients(version), keys.prefix, keys.shared)


def _read(keys: Keys, version: str) -> Read | None:
    """Return the keys that a version reads; None where nothing is known of it."""
    of = keys.version(version)
    own = [known_keys(component, of) for component in keys.components]
    if own and not own[0]:
        return None
    clients = _client_entries(keys.clients(version), keys.prefix, keys.shared) if keys.clients else {}
    known = frozenset[str]().union(*own, clients, keys.more)
    return Read(
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
