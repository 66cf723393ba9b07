"""Reads rows out of the files of a release that has none, as of Kedge 0.1, or that somebody edited. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

#: A row: file, key, value as it is written, reason.
Rows = list[tuple[str, str, str, str]]

_KEY: Final = re.compile(r"((?:\\.|[^=\\])+)=(.*)")
_BALANCER: Final = "haproxy.cfg"
_USERS: Final = "users.list"
_BIND: Final = re.compile(r"^frontend rest\n(?:.*\n)*?\s*bind (?P<at>\S+) ?(?P<options>.*)$", re.MULTILINE)
_LOGIN: Final = re.compile(r"^\s*http-request auth\b", re.MULTILINE)
_COUNT: Final = re.compile(r"^\s*# (\d+) users of", re.MULTILINE)


def read(texts: Mapping[str, tuple[str, str]]) -> tuple[Rows, Rows]:
    """Return the rows of files, by path before and after, without secrets; others are the same in both."""
    before, after = (
        [row for path, both in texts.items() for row in _rows(path, both[side])] for side in (0, 1)
    )
    return before + _logins(texts, 0), after + _logins(texts, 1)


def _rows(path: str, text: str) -> Iterator[tuple[str, str, str, str]]:
    if path == _BALANCER:
        if found := _BIND.search(text):
            yield path, "bind", found["at"], ""
            yield from [(path, "bind options", found["options"], "")] * bool(found["options"])
        yield from [(path, "users", _USERS, "")] * bool(_LOGIN.search(text))
        return
    reason: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            reason.append(line.removeprefix("#").strip())
            continue
        if found := _KEY.match(line):
            yield path, found[1], found[2], " ".join(reason)
        reason = []


def _logins(texts: Mapping[str, tuple[str, str]], side: int) -> Rows:
    """Return a row for each login of a balancer, whose list is secret: a comment beside says how many.

    What has changed, and has not grown, lacks a login that it had.
    """
    if not all(texts.get(_USERS, ("", ""))):
        return []
    # Where the configuration is the same, so is their number.
    texts_of = texts.get(_BALANCER, ("# 1 users of", "# 1 users of"))
    had, has = (int(found[1]) if (found := _COUNT.search(text)) else 0 for text in texts_of)
    changed = " (another one)" * (side and has <= had)
    return [(_USERS, f"login {n}", f"***{changed}", "") for n in range((had, has)[side])]
