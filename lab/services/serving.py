"""A program that serves HTTP on loopback, until a block ends."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kedge.setup.problem import Problem

_READY_S: Final = 60.0
_POLL_S: Final = 0.1


def free_ports(count: int) -> list[int]:
    """Return that many loopback TCP ports that nothing listened on a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@contextmanager
def serving(
    name: str,
    command: Sequence[str],
    address: str,
    ready: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Run a program from when its path ``ready`` at ``host:port`` answers until the block ends.

    Raises Problem with the end of its log when it is not ready within a minute.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **(environment or {})}, stdout=output, stderr=output
        )
    try:
        _await_ready(name, process, f"{address}{ready}", log)
        yield
    finally:
        process.terminate()
        process.wait()


def _await_ready(name: str, process: subprocess.Popen[bytes], ready: str, log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            with urllib.request.urlopen(f"http://{ready}", timeout=_READY_S):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace")[-500:]
                raise Problem(f"{name} at {ready} does not become ready: {said}") from None
            time.sleep(_POLL_S)  # nothing tells of a program that is ready: it is asked
