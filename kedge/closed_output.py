"""Ends a command whose output nobody reads to the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def until_closed(main: Callable[[], int]) -> int:
    """Return what ``main`` returns; 1 without a word where its output was closed (head, a pager)."""
    try:
        return main()
    except BrokenPipeError:
        # What is still in the buffer goes nowhere; else Python complains of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
