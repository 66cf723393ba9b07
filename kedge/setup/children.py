"""Programs that this process runs in sessions of their own: it alone decides when they end.

A Ctrl-C in a terminal reaches every program of its session at once, a package manager at work as well. Here
it reaches this process, which ends what it started with :func:`stop`.
"""

from __future__ import annotations

import collections
import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from kedge.setup.problem import Problem

_LAST = 40  # lines of output that are kept
#: How a program is asked to end, and how long it then gets: most put their things away when interrupted.
_ENDING = (("INT", 10.0), ("TERM", 5.0), ("KILL", None))
_lock = threading.Lock()
_running: dict[subprocess.Popen[str], tuple[str, ...]] = {}
_stopping = threading.Event()


class Stopped(Exception):  # noqa: N818 - no error: it was asked for
    """The work was ended by :func:`stop`."""


def go_on() -> None:
    """Raise Stopped where all work is to end."""
    if _stopping.is_set():
        raise Stopped


def pause(seconds: float) -> None:
    """Wait; raises Stopped as soon as all work is to end."""
    _stopping.wait(seconds)
    go_on()


def run(
    command: Sequence[str],
    trouble: str,
    *,
    prefix: Iterable[str] = (),
    line: Callable[[str], None] = lambda text: None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a program to its end, each line of its output given to `line`.

    `prefix` is what makes this account root (``sudo -n``), with which the program is also ended.
    Raises Problem with `trouble` and the program's own last words where it fails, Stopped after :func:`stop`.
    """
    last: collections.deque[str] = collections.deque(maxlen=_LAST)
    with _lock:
        go_on()
        program = subprocess.Popen(
            [*prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            env=environment,
        )
        _running[program] = tuple(prefix)
    try:
        for text in program.stdout or ():
            last.append(text.rstrip())
            line(text.rstrip())
        status = program.wait()
    except BaseException:
        _end(program, tuple(prefix))
        raise
    finally:
        with _lock:
            del _running[program]
    go_on()
    if status:
        raise Problem(f"{trouble}: {last_words(last)}")


def last_words(lines: Iterable[str]) -> str:
    """What a program said about its failure, in one line: what it marks as errors, else its last lines."""
    said = [text.strip() for text in lines if text.strip()]
    errors = [text for text in said if text.startswith(("E:", "error:", "ERROR", "[ERROR]"))]
    return " ".join(errors[:3] or said[-3:]) or "it said nothing"


def stop() -> None:
    """End every running program with all that it started; no other is begun."""
    _stopping.set()
    with _lock:
        running = dict(_running)
    for program, prefix in running.items():
        _signal(program, prefix, _ENDING[0][0])
    for program, prefix in running.items():
        _end(program, prefix)


def _end(program: subprocess.Popen[str], prefix: tuple[str, ...]) -> None:
    for name, seconds in _ENDING:
        _signal(program, prefix, name)
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(seconds)
            return


def _signal(program: subprocess.Popen[str], prefix: tuple[str, ...], name: str) -> None:
    """Signal a program with all that it started, as root where it runs as root."""
    if program.poll() is None:
        command = [*prefix, "sh", "-c", f"kill -s {name} -- -{program.pid}"]
        subprocess.run(command, check=False, capture_output=True)
