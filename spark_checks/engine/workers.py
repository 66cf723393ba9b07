"""Processes of this machine that read evidence, as Spark's tasks do on a cluster, but without a JVM.

They are forked from a server that has imported what the folds need, and nothing else.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Final, TypeVar

from evidence.errors import EvidenceError

Task = TypeVar("Task")
Made = TypeVar("Made")

_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
#: What the server imports, so that no worker has to.
_IMPORTED: Final = ["spark_checks.engine.folds", "spark_checks.topics"]

_lock = threading.Lock()
_pools: dict[int, ProcessPoolExecutor] = {}


def cores_here(master: str) -> int:
    """Return how many cores of this machine a Spark master means; 0 for one that is a cluster's."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return 0
    if found[1] == "*":
        return os.cpu_count() or 1
    return int(found[1] or 1)


def start(cores: int) -> ProcessPoolExecutor:
    """Return the workers of that many cores; they begin when they are first asked for."""
    with _lock:
        pool = _pools.get(cores)
        if pool is None:
            context = get_context("forkserver")
            context.set_forkserver_preload(_IMPORTED)
            pool = ProcessPoolExecutor(cores, context, initializer=_begin)
            _pools[cores] = pool
            # The server begins, and imports, while the caller does.
            pool.submit(os.getpid)
        return pool


def _begin() -> None:
    """Leave Ctrl-C to the process that asked, and end with it, however it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A worker waits at a pipe whose other end it holds itself: it would not see that nobody writes any more.
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run(cores: int, work: Callable[[Task], Made], tasks: Iterable[Task]) -> list[Made]:
    """Return what a function makes of each task, in their order.

    Args:
        cores: how many tasks run at the same time.
        work: a function of a module, or a ``functools.partial`` of one.
        tasks: what it is called with.

    Raises:
        EvidenceError: when a worker was ended from outside; what a task raises is raised here.
    """
    try:
        return list(start(cores).map(work, tasks))
    except BrokenProcessPool:
        with _lock:
            _pools.pop(cores, None)
        raise EvidenceError(
            "a process that read the evidence was ended, most likely by the system for want of memory: "
            "free some, or judge the run on a machine or a cluster with more"
        ) from None


def processes() -> list[int]:
    """Return the process ids of the workers that have begun."""
    with _lock:
        return [pid for pool in _pools.values() for pid in pool._processes]


def stop() -> None:
    """End all workers, whatever they do."""
    with _lock:
        for pool in _pools.values():
            running = [*pool._processes.values()]
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.terminate()
        _pools.clear()
