"""Knows an inventory's secrets, and takes them out of a plan's document: what is kept or printed has none."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kedge.evidence.secrets import holds_secret, looks_secret, without_secrets
from kedge.plan.hosts import Inventory

#: As short as a password may be.
SHORTEST: Final = 8
#: Of variables; names of settings are in kedge/evidence/secrets.py.
_NAMED: Final = re.compile(r"(?i)(password|passwd|passphrase|secret|api[._-]?key|(^|_)users)$")
_SEEN: Final = re.compile(r"(?i)(^|_)(user|username|servers|host|address)$")


def mark(*names: str) -> str:
    """Return the mark that stands in the place of a secret until a file is written on its host.

    ``names`` tell the secret from all others; the mark tells nothing of its value.
    """
    return f"<secret {hashlib.sha256(chr(0).join(names).encode()).hexdigest()[:16]}>"


def seal(document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a plan's document (``Plan.to_json``) with marks for its secrets, and their values by mark."""
    values: dict[str, str] = {}

    def sealed(setting: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
        if not setting.get("secret"):
            return setting
        own = mark(*names)
        values[own] = setting["value"]
        return {**setting, "value": own}

    hosts = {
        host: {
            "services": {
                service: {
                    "instances": [
                        {**instance, "settings": _settings(instance, sealed, host, service, instance["name"])}
                        for instance in of_service["instances"]
                    ]
                }
                for service, of_service in part["services"].items()
            }
        }
        for host, part in document["hosts"].items()
    }
    clients = {
        client: {**part, "settings": _settings(part, sealed, client)}
        for client, part in document["clients"].items()
    }
    return {**document, "hosts": hosts, "clients": clients}, values


def _settings(
    part: Mapping[str, Any], sealed: Callable[..., Mapping[str, Any]], *names: str
) -> list[Mapping[str, Any]]:
    # A key may be there several times, such as an argument that makes a user.
    return [sealed(s, *names, s["file"], s["key"], str(number)) for number, s in enumerate(part["settings"])]


def public(value: Any) -> Any:
    """Return a value of the inventory without what is a secret by its key or by its form."""
    if isinstance(value, Mapping):
        return {key: public(one) for key, one in value.items() if not _secret(str(key), one)}
    return [public(one) for one in value] if isinstance(value, list | tuple) else value


def private(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a mapping what ``public`` leaves out, each at its place; lists are not looked into."""
    found = {
        key: private(one) if isinstance(one, Mapping) and not looks_secret(key) else one
        for key, one in value.items()
        if isinstance(one, Mapping) or _secret(key, one)
    }
    return {key: one for key, one in found.items() if one != {}}


def _secret(key: str, value: Any) -> bool:
    return looks_secret(key) or (isinstance(value, str) and holds_secret(value))


class Known:
    """The secrets of an inventory, by which they are found in whatever they come to stand in.

    What lies in a vault is one, unless it is the name of a user or an address: these are there to be seen.
    So is what stands under a name that ends as those of passwords do. Of either, what is shorter than
    ``SHORTEST`` would be found everywhere. What has the form of a secret is one, wherever it comes from.
    """

    def __init__(self, inventory: Inventory) -> None:
        hosts = inventory.hosts.values()
        seen = (
            {one for variables in hosts for one in _named(variables, _SEEN)} if inventory.vaulted else set()
        )
        vaulted = {one for one in inventory.vaulted - seen if len(one) >= SHORTEST}
        named = {one for variables in hosts for one in _named(variables, _NAMED)}
        named = {one for one in named if len(one) >= SHORTEST and "${" not in one} - vaulted
        parts = [*map(re.escape, sorted(vaulted, key=len, reverse=True))]
        # A weak password may be a word that stands within names and paths.
        parts += [rf"(?<![\w./-]){re.escape(one)}(?![\w./-])" for one in sorted(named, key=len, reverse=True)]
        self._values: Final = re.compile("|".join(parts) or "(?!)")
        self._seen: Final[dict[str, bool]] = {}

    def within(self, text: str) -> bool:
        """Return whether a text is a secret or has one in it."""
        if text not in self._seen:  # the same values stand in the plan of every host
            self._seen[text] = holds_secret(text) or self._values.search(text) is not None
        return self._seen[text]

    def masked(self, text: str) -> str:
        """Return a text with asterisks for the secrets in it."""
        return without_secrets(self._values.sub("***", text)) if self.within(text) else text


def _named(value: Any, names: re.Pattern[str], *, below: bool = False) -> Iterator[str]:
    """Yield the texts that stand anywhere below a name of this form."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _named(one, names, below=below or names.search(str(key)) is not None)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _named(one, names, below=below)
    elif below and isinstance(value, str):
        yield value
