"""Which keys are made for secrets, and the secrets that a run's environment holds: no file of it does."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final

_SECRET: Final = re.compile(
    r"(?i)password|secret|jaas|credential|token(?!izer)|basic\.auth\.user|\.key\.pem|keystore\.key"
)


def looks_secret(key: str) -> bool:
    """Return whether a key is made for a secret, by its name."""
    return _SECRET.search(key) is not None


class SecretsError(Exception):
    """Secrets in the environment that cannot be read; the message is one line for the user."""


def from_environment() -> dict[str, dict[str, Any]]:
    """Return the secrets that the environment holds (KEDGE_SECRETS, JSON), which no file of a run does.

    ``clusters``: name to secret keys of its clients; what else there is stands where load.json would have it.

    Raises:
        SecretsError: when the variable holds something else.
    """
    try:
        found = json.loads(os.environ.get("KEDGE_SECRETS") or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        # Nothing of what it holds is told.
        message = "KEDGE_SECRETS in the environment is no JSON object; verify.yml sets it, unset your own"
        raise SecretsError(message)
    return found


def merged(value: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with what another has at the same places, mappings put together."""
    return {**value} | {
        key: merged(value[key], one)
        if isinstance(one, Mapping) and isinstance(value.get(key), Mapping)
        else one
        for key, one in other.items()
    }
