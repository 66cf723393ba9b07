"""What every process of a load does: know the time, end in order when told to, never outlive its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, Protocol

from kedge.evidence.border.untrusted import shown

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_PRIORITY: Final = -5
_LEAVE_S: Final = 20.0
#: What of a log's end is looked at, and letters of its last line: others' words are in it.
_TAIL_BYTES: Final = 65_536
_LINE: Final = 1_000
#: Names how far this machine's clock is ahead of that of the machine that leads the load, in microseconds.
AHEAD: Final = "KEDGE_CLOCK_AHEAD_US"
_AHEAD_US: Final = int(os.environ.get(AHEAD, "0"))


def now_us() -> int:
    """Return microseconds since the epoch, by the clock of the machine that leads the load."""
    return time.time_ns() // 1000 - _AHEAD_US


class SteadyClock:
    """Microseconds since the epoch, by the machine's clock as it was when made: setting it moves nothing."""

    def __init__(self) -> None:
        self._begin_us = now_us() - time.monotonic_ns() // 1000

    def now_us(self) -> int:
        """Return the time."""
        return self._begin_us + time.monotonic_ns() // 1000


_cpu_before_us = 0


def cpu_us() -> int:
    """Return the CPU time of this process since it began to work (microseconds, user and system)."""
    return time.process_time_ns() // 1000 - _cpu_before_us


def begin_work() -> None:
    """Forget the CPU time of the start: it is no share of the work's time."""
    global _cpu_before_us  # noqa: PLW0603 - it is the process's
    _cpu_before_us = time.process_time_ns() // 1000


def go_first() -> None:
    """Raise this process's priority where that is allowed.

    On a machine that runs what is measured as well, a generator that waits for the CPU would show as latency
    of the system.
    """
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)


def start_module(
    module: str, *words: object, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a module of the kit as a child that prints to a log; ``environment`` is added to this one's."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", module, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            # Ctrl-C reaches a terminal's whole group: the children are told by their parent.
            start_new_session=True,
        )


class Child(Protocol):
    """What is asked of a process to end it."""

    def poll(self) -> object:
        """Return what it ended with, None while it runs."""

    def terminate(self) -> None:
        """Have it end in order."""

    def kill(self) -> None:
        """End it at once."""

    def wait(self, timeout: float | None = None) -> object:
        """Wait for its end; raises subprocess.TimeoutExpired."""


def end_all(children: Iterable[Child], seconds: float = _LEAVE_S) -> None:
    """End children that still run, and wait for all: first they are told, after so long they are killed."""
    told = list(children)
    for child in told:
        if child.poll() is None:
            child.terminate()
    for child in told:
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def last_line(log: Path) -> str:
    """Return the last line of a log, printable and cut off; nothing where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return shown(lines[-1], _LINE) if lines else ""


def leave(status: int) -> NoReturn:
    """End the process now: librdkafka's threads may still wait for a broker that is gone.

    What is to be on disk has to be there by then.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class Ending:
    """Becomes true once SIGTERM or SIGINT has come, or the process ``with_pid`` has ended.

    ``signal`` is the signal's number then (SIGTERM for an ended process), 0 before; ``parent_ended`` tells
    which of the two it was.
    """

    def __init__(self, with_pid: int | None = None) -> None:
        self.signal = 0
        self.parent_ended = False
        self._watched = None
        if with_pid is not None:
            try:
                self._watched = os.pidfd_open(with_pid)
            except ProcessLookupError:
                self.signal, self.parent_ended = signal.SIGTERM, True
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number

    def __bool__(self) -> bool:
        # A descriptor of a process becomes readable when the process ends.
        if not self.signal and self._watched is not None and select.select([self._watched], [], [], 0)[0]:
            self.signal, self.parent_ended = signal.SIGTERM, True
        return self.signal != 0


def die_with_parent(parent: int) -> None:
    """Have the kernel send SIGTERM when the parent's process ends, and end at once when it has already.

    The parent starts each child in a session of its own, so that Ctrl-C reaches the parent alone.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(1)
