"""Bounds for text of others: a process of its own for its reader, and a look at YAML before it is loaded."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

T = TypeVar("T")

_STATM: Final = Path("/proc/self/statm")
#: Of a document of YAML: deeper than anybody writes one, and more than any of these files has.
_DEEP: Final = 64
#: Times as long as a core needs, others may take it.
_BUSY: Final = 10
_NODES: Final = 2_000_000


class TooMuchError(Exception):
    """Text of others that takes more than it may; what it does stands in the message, without a subject."""


def limit(memory: int, seconds: int) -> None:
    """Bound this process, its memory in bytes beyond what it has; a crash leaves no core file."""
    if _STATM.exists():
        memory += int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def in_bounds(work: Callable[[], T], memory: int, seconds: int) -> T:
    """Return what some work returns, or raise what it raises, from a copy of this process with these bounds.

    ``seconds`` are those of a core, so that a busy machine is no reason.

    Raises:
        TooMuchError: when it takes more, is nested too deeply, or ends the process.
    """
    # A copy has imported everything already; a new process would take two seconds for that.
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(its, work, memory, seconds))
    process.start()
    its.close()
    try:
        if not mine.poll(seconds * _BUSY):
            raise TooMuchError(f"takes more than {seconds * _BUSY} s")
        found, error = mine.recv()
    except (EOFError, OSError):
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            raise TooMuchError(f"takes more than {seconds} s") from None
        raise TooMuchError(f"ended its process (status {process.exitcode})") from None
    finally:
        process.kill()
        process.join()
        mine.close()
    if isinstance(error, RecursionError):
        raise TooMuchError("is nested too deeply")
    if isinstance(error, MemoryError):
        raise TooMuchError(f"takes more than {memory >> 20} MiB")
    if error is not None:
        raise error
    return found  # type: ignore[no-any-return] # what the work returned


def _send(to: Connection, work: Callable[[], Any], memory: int, seconds: int) -> None:
    # What a crash prints is told by its status.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    limit(memory, seconds)
    try:
        to.send((work(), None))
    except Exception as error:
        to.send((None, error))


def check_yaml(text: str, nodes: int = _NODES) -> None:
    """Look at the events of YAML alone, where nothing is nested: loading it ends a process, or never ends.

    Raises:
        TooMuchError: for one that is nested too deeply, or has too many nodes, aliases counted in full.
        yaml.YAMLError: when it is none.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    sizes: dict[str, int] = {}
    #: Of each list or mapping that is open: its anchor, and how many nodes came before it.
    opened: list[tuple[str | None, int]] = []
    count = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.AliasEvent):
                if event.anchor in sizes and sizes[event.anchor] < 0:
                    raise TooMuchError(f"refers to itself by *{event.anchor}")
                count += sizes.get(str(event.anchor), 0)
            elif isinstance(event, yaml.NodeEvent):
                count += 1
                if isinstance(event, yaml.CollectionStartEvent):
                    opened.append((event.anchor, count))
                if event.anchor:
                    sizes[event.anchor] = -1 if isinstance(event, yaml.CollectionStartEvent) else 1
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = opened.pop()
                if anchor:
                    sizes[anchor] = count - before + 1
            if len(opened) > _DEEP:
                raise TooMuchError(f"is nested deeper than {_DEEP} levels")
            if count > nodes:
                raise TooMuchError(f"has more than {nodes:,} nodes, aliases counted in full")
    finally:
        loader.dispose()
