"""One hand at a time on a host: a lock that ends with its process."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/var/lib/kedge")
POLL_SECONDS = 0.2
#: How long a run waits for another that is at work on the service, unless it knows how long that may take.
WAIT_SECONDS = 120


@contextmanager
def held(unit: str, seconds: float = WAIT_SECONDS, root: Path = ROOT) -> Iterator[None]:
    """Hold the lock of a service.

    Raises:
        TimeoutError: when somebody else still has it after ``seconds``; the message names the lock.
    """
    folder = root / unit
    for made in (root, folder):
        made.mkdir(mode=0o755, exist_ok=True)
    path = folder / ".lock"
    message = (
        f"{path} is held by another run after {seconds:g} s. This run touched no instance of "
        f"{unit} here. Wait until that run has ended (`lslocks` names its process), then run "
        "the playbook again. Leave the file: the lock ends with its process"
    )
    with locked(path, seconds, message):
        yield


@contextmanager
def locked(path: Path, seconds: float, message: str) -> Iterator[None]:
    """Hold the lock of a file; raises TimeoutError with ``message`` when another has it after ``seconds``."""
    deadline = time.monotonic() + seconds
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(message) from None
                time.sleep(POLL_SECONDS)
        yield
