"""How the load reaches REST proxies: their certificates held against the CA, and the login."""

from __future__ import annotations

import ssl
from typing import Any

from kedge.evidence.load_options import LoadError, RestLoad


def session_options(rest: RestLoad) -> dict[str, Any]:
    """Return the options of every httpx client of the load; raises LoadError when the CA cannot be read."""
    options: dict[str, Any] = {}
    if rest.ca:
        try:
            options["verify"] = ssl.create_default_context(cafile=rest.ca)
        except OSError as error:  # an SSLError is one
            raise LoadError(f"{rest.ca}, the ca of the REST load, cannot be used: {error}") from error
    if rest.user and not rest.password:
        raise LoadError(f"the REST load logs in as {rest.user} and has no password: set verify.rest.password")
    if rest.user:
        options["auth"] = (rest.user, rest.password)
    return options
