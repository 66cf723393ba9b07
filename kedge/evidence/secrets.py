"""What is a secret by its key or form, and the secrets that a run's environment holds: no file of it does."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

#: Of keys and values of settings; names of variables are in kedge/plan/inventory/secrets.py.
_SECRET: Final = re.compile(
    r"(?i)password|passwd|passphrase|secret|jaas|credential|token(?!izer|[._-]endpoint)|basic\.auth\.user|\.key\.pem"
    r"|keystore\.key|(api|access|account|encryption|private)[._-]?key(?![._-]?(file|path|location))"
    r"|(^|[._-])(pass|pwd|pw)($|[._-])"
)
#: What looks like a secret under whatever key: a URL with a login, a word that is made for a secret with its
#: value (-D...password=, --token X, "apikey": "X"), keys of AWS and PEM, JSON Web Tokens, an Authorization,
#: a login as curl takes it, and tokens that begin as their makers document it: of GitHub, GitLab,
#: Slack, Vault, Stripe, npm, DigitalOcean, Docker, Google, SendGrid and PyPI.
#: A reference to where the value is, as config.providers and shells write it, is none.
_HELD: Final = re.compile(
    r"(?i:(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://[^\s/?#@:]*:(?!\$\{)[^\s/?#@]+@"
    r"|(password|passwd|passphrase|pwd|secret|token|(api|access|account)[._-]?key|(?<![a-z])(pass|pw))"
    r"(=|\"\s*:\s*)[\"']?(?![$%{<*])[^\s\"',;&]+"
    r"|(?<![\w.-])--[\w.-]{0,60}(password|passphrase|secret|token|api-?key)\s+[^\s-]\S*"
    r"|\b(basic|bearer) [a-z0-9+/._~-]{16,}"
    r"|(?<![\w-])(-u|--(proxy-)?user)[\s=]{0,9}[\"']?(?!\d+:\d+\b)[^\s:\"'/$]{1,128}:(?!//|[$%{<*])[^\s\"']+)"
    r"|(?<![A-Za-z0-9])(gh[oprsu]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|xapp-[\w-]{16,}"
    r"|hv[brs]\.[\w-]{16,}|[rs]k_(live|test)_\w{10,}|whsec_\w{16,}|npm_\w{30,}|dop_v1_\w{30,}|dckr_pat_[\w-]{16,}"
    r"|AIza[\w-]{35}|SG\.[\w-]{16,}\.[\w-]{16,}|pypi-[\w-]{30,})"
    r"|\b(AKIA|ASIA)[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*)|\beyJ[\w-]{8,500}\.eyJ[\w.-]{8,}"
)
#: The patterns themselves, for what takes secrets out on a host: of keys, and of values under any key.
PATTERNS: Final = (_SECRET.pattern, _HELD.pattern)


def looks_secret(key: str) -> bool:
    """Return whether a key is made for a secret, by its name."""
    return _SECRET.search(key) is not None


# A review plans a process some twenty times, each time with the same texts.
@lru_cache(maxsize=8_192)
def holds_secret(value: str) -> bool:
    """Return whether a value has the form of a secret, or of something with a secret in it."""
    return _HELD.search(value) is not None


def without_secrets(text: str) -> str:
    """Return a text with asterisks for what has the form of a secret in it."""
    return _HELD.sub("***", text)


#: Of the secrets of a run of trials: the variables of the person's own call (-e), a text in JSON each. Among
#: the words of a command that is kept, this and a number stands in the place of each.
VARIABLES: Final = "variables"
PLACE: Final = "@<variables>"


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
