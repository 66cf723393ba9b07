"""Kills at each step: ends what changes files below a folder at its n-th change, as SIGKILL would."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: What Python reports before it changes a name, or what a name stands for.
_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.chmod", "os.chown"}


class KilledError(BaseException):
    """Stands for SIGKILL; no ``except Exception`` keeps it from ending the program."""


class Kill:
    """Counts the steps below a folder; at number ``at`` (from 0), and ever after, each ends the program."""

    def __init__(self, folder: Path, at: int) -> None:
        self._folder, self._left = str(folder), at

    @property
    def killed(self) -> bool:
        """Whether the program got that far."""
        return self._left < 0

    def step(self) -> None:
        """Count a step."""
        if self._left <= 0:
            self._left = -1
            raise KilledError
        self._left -= 1

    def on_change(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count what changes a file; where it opens one to write it, half of it is left behind."""
        place = arguments[0] if arguments else None
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not (opens or event in _CHANGES) or not (
            isinstance(place, int) or str(place).startswith(self._folder)
        ):
            return
        last, was = self._left == 0, _active.pop()
        try:
            if last and opens and not isinstance(place, int):
                Path(place).write_text("")
        finally:
            _active.append(was)
        self.step()


_active: list[Kill] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _active:
        _active[-1].on_change(event, arguments)


_hooked: list[bool] = []


@contextmanager
def killed_at(folder: Path, at: int) -> Iterator[Kill]:
    """Have what is done inside end at its step number ``at``, where it takes so many."""
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    kill = Kill(folder, at)
    _active.append(kill)
    try:
        yield kill
    except KilledError:
        pass
    finally:
        _active.clear()
