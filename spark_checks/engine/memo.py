"""Work that several checks need, done once: by the first that asks, while the others wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pyspark.sql import DataFrame

Made = TypeVar("Made")


class Once:
    """What was made so far, by name; safe for checks that run at the same time."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], Made]) -> Made:
        """Return what ``make`` gave when that name was first asked for; it may ask for other names."""
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            if name not in self._made:
                self._made[name] = make()
            return cast(Made, self._made[name])

    def forget(self) -> None:
        """Drop all, and what Spark keeps of it."""
        for made in self._made.values():
            if isinstance(made, DataFrame):
                made.unpersist()
        self._made.clear()
