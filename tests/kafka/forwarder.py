"""A double for the balancer: forwards each connection to the next backend that takes it."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress


@contextmanager
def forwarder_in_place_of_haproxy(backends: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Forward connections until the block ends; yields the URL to use."""
    listener = socket.create_server(("127.0.0.1", 0))
    turns = itertools.cycle(range(len(backends)))
    thread = threading.Thread(target=_accept, args=(listener, backends, turns), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _accept(listener: socket.socket, backends: Sequence[tuple[str, int]], turns: Iterator[int]) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        server = _connect(backends, next(turns))
        if server is None:
            client.close()
            continue
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _connect(backends: Sequence[tuple[str, int]], first: int) -> socket.socket | None:
    for number in range(len(backends)):
        with suppress(OSError):
            return socket.create_connection(backends[(first + number) % len(backends)], timeout=5)
    return None


def _pump(source: socket.socket, target: socket.socket) -> None:
    source.settimeout(None)
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
