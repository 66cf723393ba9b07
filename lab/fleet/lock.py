"""One command at a time where two would undo each other's work."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file `path`, waiting for who holds it; it ends with the process, even a killed one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{what}: another command is at work, waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
