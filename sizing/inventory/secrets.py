"""Takes the secrets out of a plan's document, so that what is kept, printed and passed on holds none."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from evidence.secrets import looks_secret

#: What stands in the place of a secret, until a file is written on its host.
MARK: Final = re.compile(r"<secret [0-9a-f]{16}>")


def mark(*names: str) -> str:
    """Return the mark of the secret that these names tell from all others; it tells nothing of its value."""
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
    """Return a value of the inventory without what stands under keys that are made for secrets."""
    if isinstance(value, Mapping):
        return {key: public(one) for key, one in value.items() if not looks_secret(str(key))}
    return [public(one) for one in value] if isinstance(value, list | tuple) else value


def private(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a mapping what ``public`` leaves out, each at its place; lists are not looked into."""
    found = {
        key: private(one) if isinstance(one, Mapping) and not looks_secret(key) else one
        for key, one in value.items()
        if isinstance(one, Mapping) or looks_secret(key)
    }
    return {key: one for key, one in found.items() if one != {}}
