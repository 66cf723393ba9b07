"""An instance that runs beside the one that is planned, as the records of services look at both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Row:
    """A setting of a release. Of a secret, ``value`` is no more than a mark, and ``digest`` tells it."""

    file: str
    key: str
    value: str
    reason: str = ""
    secret: bool = False
    digest: str = ""

    def differs(self, other: Row) -> bool:
        """Return whether another row of the same key has another value."""
        if self.digest and other.digest:
            return self.digest != other.digest
        return self.value != other.value


#: The rows of a release by file and key.
Files = Mapping[str, Mapping[str, Row]]


class Notice(NamedTuple):
    """What clients notice of one instance: by which name it is allowed, and in words."""

    instance: str
    name: str
    said: str


@dataclass(frozen=True, slots=True)
class Running:
    """An instance that runs, and what it is to run.

    Attributes:
        was: the rows of its release.
        now: those that are planned.
        state: what the host says of it, as ``kedge_release`` answers.
        planned: the instance of the plan's JSON.
        balanced: whether balancers stand before it.
    """

    was: Files
    now: Files
    state: Mapping[str, Any]
    planned: Mapping[str, Any]
    balanced: bool


def by_file(rows: Iterable[Row]) -> Files:
    """Return rows by file and key."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row.file, {})[row.key] = row
    return found


def values(files: Files, file: str) -> dict[str, str]:
    """Return the values of a file's rows by key."""
    return {key: row.value for key, row in files.get(file, {}).items()}
