"""Rules for the Jetty server inside the proxy: threads, queue, time-outs, limits (keys of rest-utils)."""

from __future__ import annotations

import math
from typing import Final

from kedge.plan.settings import Basis, Choice, Sheet
from kedge.plan.values import int_or_none
from kedge.services.host.variables import HostFacts
from kedge.services.rest.traffic import ProcessTraffic

_REST_UTILS: Final = "rest-utils, RestConfig"
_HIGH_LOAD: Final = "Jetty documentation, Thread Pool"

_THREADS_MIN: Final = 8  # thread.pool.min
_THREADS_MAX: Final = 200  # thread.pool.max
_QUEUE_INIT: Final = 128  # request.queue.capacity.init: the queue cannot be smaller
_IDLE_MS: Final = 30_000  # idle.timeout.ms
#: No key sets it: nothing passes a size to Jetty, and Java's bind(address, 0) asks for this many.
ACCEPT_QUEUE: Final = 50
#: Jetty's own threads on a connector: up to 4 acceptors, and a selector for every other core.
_ACCEPTORS: Final = 4
_QUEUE_AT_LEAST: Final = 1000


def plan_jetty(sheet: Sheet, file: str, load: ProcessTraffic, facts: HostFacts, poll_ms: int) -> None:
    """Plan the keys of rest-utils; ``poll_ms`` is how long a read may wait for records."""
    own_threads = reserved_threads(facts.cores)
    wanted = load.concurrent + load.long_polls + own_threads

    def put(
        key: str, rule: str, value: int | str, basis: Basis, because: str, source: str = _REST_UTILS
    ) -> str | None:
        return sheet.put(file, key, f"jetty.{rule}", Choice(value, because, source, basis))

    most = put(
        "thread.pool.max",
        "threads",
        max(_THREADS_MAX, wanted),
        "documented" if wanted <= _THREADS_MAX else "derived" if load.told else "estimate",
        f"{load.concurrent} requests in flight, {load.long_polls} long polls and {own_threads} threads of "
        f"Jetty's own on {facts.cores} cores are {wanted}; {_THREADS_MAX}, the default, at least",
    )
    least = put(
        "thread.pool.min",
        "threads",
        max(_THREADS_MIN, 2 * facts.cores),
        "documented" if 2 * facts.cores <= _THREADS_MIN else "estimate",
        f"two threads a core ({facts.cores}) are kept, so that a burst does not wait for new ones; "
        f"{_THREADS_MIN}, the default, at least",
    )
    _check_threads(sheet, int_or_none(most), int_or_none(least), own_threads, wanted)
    recovery_s = _IDLE_MS // 1000
    rate = load.per_s or 0
    queue = put(
        "request.queue.capacity",
        "queue",
        max(_QUEUE_AT_LEAST, math.ceil(rate * recovery_s)),
        "estimate",
        (f"{rate:.0f} requests/s x {recovery_s} s, after which clients have given up; " if rate else "")
        + f"{_QUEUE_AT_LEAST} at least. The default has no limit: the proxy goes on with requests that "
        "clients have given up",
        _HIGH_LOAD,
    )
    if (capacity := int_or_none(queue)) is not None and capacity < _QUEUE_INIT:
        sheet.error(
            "jetty.queue",
            f"request.queue.capacity is {capacity}, and the queue begins with {_QUEUE_INIT} places",
            f"set request.queue.capacity to {_QUEUE_INIT} or more",
            "request.queue.capacity",
        )
    put(
        "idle.timeout.ms",
        "idle",
        max(_IDLE_MS, 2 * poll_ms),
        "documented" if 2 * poll_ms <= _IDLE_MS else "estimate",
        f"twice the {poll_ms} ms for which a read may wait for records; {_IDLE_MS}, the default, at least. A "
        "read that waits longer is answered all the same",
    )
    if load.connections:
        put(
            "server.connection.limit",
            "connections",
            2 * load.connections,
            "estimate",
            f"twice the {load.connections} connections of the host's clients: one process holds them all "
            "while another restarts, and a client that reconnects in a loop cannot take every file "
            "descriptor",
        )
    put(
        "compression.enable",
        "compression",
        "true",
        "documented",
        "the default; only clients that send Accept-Encoding: gzip pay for it with the proxy's cores",
    )
    put(
        "http2.enabled",
        "http2",
        "true",
        "documented",
        "the default; a client that speaks HTTP/2 needs one connection for all its requests",
    )


def accept_queue_finding(sheet: Sheet, instances: int) -> None:
    """Say what no key reaches: the accept queue."""
    sheet.note(
        "jetty.accept_queue",
        f"connections that arrive together wait in an accept queue of {ACCEPT_QUEUE} a process, "
        f"{ACCEPT_QUEUE * instances} on this host: nothing sets Jetty's, and net.core.somaxconn does not "
        "change it",
        "let clients keep their connections, and put a balancer or more instances before bursts beyond that",
    )


def reserved_threads(cores: int) -> int:
    """Return how many threads of the pool Jetty keeps for itself: acceptors and selectors."""
    return max(1, min(_ACCEPTORS, cores // 8)) + max(1, cores // 2)


def _check_threads(sheet: Sheet, most: int | None, least: int | None, own: int, wanted: int) -> None:
    if most is None or least is None:
        return
    if least > most:
        sheet.error(
            "jetty.threads",
            f"thread.pool.min is {least}, above thread.pool.max of {most}: the proxy refuses to start",
            "set thread.pool.min to thread.pool.max or less",
            "thread.pool.min",
            "thread.pool.max",
        )
    elif most <= own + 1:
        sheet.error(
            "jetty.threads",
            f"thread.pool.max is {most}, and Jetty keeps {own} threads for itself: the proxy would start and "
            "answer nothing",
            f"set thread.pool.max to {max(wanted, own + 2)} or more",
            "thread.pool.max",
        )
    elif most < wanted:
        sheet.warning(
            "jetty.threads",
            f"thread.pool.max is {most}, and the workload asks for {wanted}: requests will wait",
            f"set thread.pool.max to {wanted} or more",
            "thread.pool.max",
        )
