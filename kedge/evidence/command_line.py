"""What commands share: help without markup, a word while they work, an end where nobody reads on."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Timer

#: Seconds of work after which a terminal shows what it is.
_SOON = 2.0


def described(doc: str | None) -> str:
    """Return a module's docstring as its help: without markup, and without the command that usage has."""
    words = re.sub(r"^`+[^`]+`+: ", "", doc or "").replace("`", "")
    return words[:1].upper() + words[1:]


@contextmanager
def working(what: str, after_s: float = _SOON) -> Iterator[Event]:
    """Say on a terminal that a command works on something, if that takes long; yield whether it was said."""
    said = Event()

    def say() -> None:
        print(f"{what} ...", end="", file=sys.stderr, flush=True)
        said.set()

    timer = Timer(after_s, say)
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield said
    finally:
        timer.cancel()
        if said.is_set():
            blank = " " * len(f"{what} ...")
            print(f"\r{blank}\r", end="", file=sys.stderr, flush=True)


def until_closed(main: Callable[[], int]) -> int:
    """Return what ``main`` returns; 1 without a word where its output was closed (head, a pager)."""
    try:
        return main()
    except BrokenPipeError:
        # What is still in the buffer goes nowhere; else Python complains of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
