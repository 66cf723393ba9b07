"""The rows of a release, which lie beside its files, and what differs between two of them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kedge.deploy import rendered_rows
from kedge.deploy.rendering import inside, reason
from kedge.evidence.border.instances import MARK
from kedge.evidence.printable import plain
from kedge.evidence.secrets import holds_secret, looks_secret
from kedge.plan.inventory.secrets import mark
from kedge.plan.running import Row

#: Of a planned setting, what a release keeps; its file by the path inside the release.
_KEPT: Final = ("key", "rule", "because", "source", "basis")


@dataclass(frozen=True, slots=True)
class RowChange:
    """A key that comes (``was`` is None), goes (``now`` is None) or changes, or whose reason alone does.

    It has no secret, and nothing that would drive a terminal.
    """

    file: str
    key: str
    was: str | None
    now: str | None
    reason: str

    @property
    def valued(self) -> bool:
        """Whether the value changes, not the reason alone."""
        return self.was is not None or self.now is not None


def kept_rows(unit: str, instance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a release keeps of a planned instance's settings, with no secret in it."""
    return [
        {name: setting[name] for name in _KEPT} | _public(inside(unit, instance, setting), setting)
        for setting in instance["settings"]
    ]


def _public(file: str, setting: Mapping[str, Any]) -> dict[str, Any]:
    value = str(setting["value"])
    if setting.get("copied"):
        return {"file": file, "value": mark(file, value), "secret": True}
    if setting.get("secret"):
        marked = re.fullmatch(MARK, value)
        return {"file": file, "value": value if marked else mark(file, setting["key"]), "secret": True}
    return {"file": file, "value": value}


def own_texts(
    answer: Mapping[str, Any], unit: str, instance: Mapping[str, Any]
) -> dict[str, tuple[str, str]]:
    """Return the files of an instance that differ, by path, before and after, as its host answered."""
    home = f"/etc/{unit}/{instance['name']}/"
    return {
        each["before_header"].removeprefix(home): (each["before"], each["after"])
        for each in answer.get("diff", [])
        if each["before_header"].startswith(home)
    }


def of_release(
    state: Mapping[str, Any], unit: str, instance: Mapping[str, Any], texts: Mapping[str, tuple[str, str]]
) -> tuple[list[Row], list[Row]]:
    """Return the rows of the active release of an instance and of the planned one; none where all are equal.

    ``state`` is what its host says of it. ``texts`` are its files that differ, by path, before and after:
    the rows are read out of them where the active release has none, or was edited on the host.
    """
    touched = state.get("touched")
    if state.get("same_rows") and not touched:
        return [], []
    planned = [_row(row, state.get("digests", {})) for row in kept_rows(unit, instance)]
    had = state.get("rows")
    if had is None or touched:
        hidden = {row.key for row in planned if row.secret}
        before, after = (
            [Row(file, key, value, why, key in hidden) for file, key, value, why in side]
            for side in rendered_rows.read(texts)
        )
        return before, after
    return [_row(row, {}) for row in had], planned


def _row(kept: Mapping[str, Any], digests: Mapping[str, str]) -> Row:
    digest = kept.get("digest") or digests.get(kept["value"], "")
    file, key, value, why = (plain(text) for text in (kept["file"], kept["key"], kept["value"], reason(kept)))
    return Row(file, key, value, why, bool(kept.get("secret")), digest)


def changes(before: Iterable[Row], after: Iterable[Row]) -> list[RowChange]:
    """Return what differs, in the order of the later rows."""
    old, new = _by_key(before), _by_key(after)
    found = []
    for at in dict.fromkeys([*new, *old]):
        was, now = old.get(at), new.get(at)
        if was and now and not was.differs(now):
            values: tuple[str | None, str | None] = (None, None)
            if was.reason == now.reason:
                continue
        elif any(one and _hidden(one) for one in (was, now)):
            another = "*** (another one)" if was else "***"
            values = ("***" if was else None, another if now else None)
        else:
            values = (plain(was.value) if was else None, plain(now.value) if now else None)
        found.append(RowChange(at[0], plain(at[1]), *values, plain(now.reason if now else "")))
    return found


def _hidden(row: Row) -> bool:
    return row.secret or looks_secret(row.key) or holds_secret(row.value)


def _by_key(rows: Iterable[Row]) -> dict[tuple[str, str, int], Row]:
    """Return rows by file and key; a key may be there several times, such as an argument."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for row in rows:
        at = row.file, row.key
        found[(*at, seen[at])] = row
        seen[at] += 1
    return found
