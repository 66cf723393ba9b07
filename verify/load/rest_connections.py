"""Connections of a producer to REST proxies, kept between requests, by the standard library.

A request takes 0.08 ms of CPU here and 1.06 ms by httpx (one core, a local server, 8 connections), and a
generator that shares its machine with what it loads would else be what is measured.
"""

from __future__ import annotations

import base64
import http.client
import io
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from kedge.evidence.border.proxy import ANSWER_BYTES, instance
from kedge.evidence.border.untrusted import UntrustedError, shown
from kedge.evidence.load_options import RestLoad
from verify.load.rest_login import session_options

#: Where an instance or the balancer says which instance (host:port) answered, the first that is there.
_INSTANCE_HEADERS: Final = ("X-Served-By", "X-Kedge-Instance")


class NotSentError(Exception):
    """No connection came about, so that nothing can have been sent."""


class NoAnswerError(Exception):
    """The request may have arrived, and no answer came."""


class RestResponse(NamedTuple):
    """What came back; ``instance`` (host:port) is None when no header tells."""

    status: int
    body: bytes
    instance: str | None


class _Due(io.RawIOBase):
    """What comes from a socket until so many seconds are over; raises TimeoutError after that."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._sock, self._seconds = sock, seconds
        self._until = time.monotonic() + seconds
        # Keeps the socket open while an answer that ends with its connection is read.
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._until - time.monotonic()
        if left > 0:
            self._sock.settimeout(left)
            return self._raw.readinto(buffer)
        raise TimeoutError(f"no whole answer within {self._seconds:g} s")

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer that is due as a whole, head and body, however slowly each byte comes."""

    def __init__(self, sock: socket.socket, *options: Any, **named: Any) -> None:
        super().__init__(sock, *options, **named)
        whole: Any = io.BufferedReader(_Due(sock, sock.gettimeout() or 0))
        self.fp.close()
        self.fp = whole


class Wire:
    """Posts to one URL; several threads may, each on a connection of its own.

    ``request_timeout_s`` bounds each step until the request is sent, and then the whole answer.
    """

    def __init__(self, rest: RestLoad, path: str, headers: Mapping[str, str]) -> None:
        options = session_options(rest)
        parts = urlsplit(rest.url)
        self._host, self._port = parts.hostname or "", parts.port
        self._path = f"{parts.path.rstrip('/')}{path}"
        self._timeout = rest.request_timeout_s
        self._headers = dict(headers)
        if "auth" in options:
            login = base64.b64encode(":".join(options["auth"]).encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"
        self._tls: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._tls = options.get("verify") or ssl.create_default_context()
        self._idle: deque[http.client.HTTPConnection] = deque()

    def post(self, body: bytes) -> RestResponse:
        """Send a body once; raises NotSentError or NoAnswerError."""
        connection = self._kept() or self._opened()
        try:
            connection.request("POST", self._path, body, self._headers)
            answer = connection.getresponse()
            found = RestResponse(answer.status, _whole(answer), instance_of(answer.getheader))
        except (OSError, http.client.HTTPException, UntrustedError) as error:
            connection.close()
            raise NoAnswerError(f"{type(error).__name__}: {shown(error)}") from error
        if answer.will_close:
            connection.close()
        else:
            connection.sock.settimeout(self._timeout)
            self._idle.append(connection)
        return found

    def close(self) -> None:
        """Close the connections that are idle."""
        while self._idle:
            self._idle.pop().close()

    def _kept(self) -> http.client.HTTPConnection | None:
        """Return a connection that is still open; the other side may have closed it meanwhile."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            poll = select.poll()
            poll.register(connection.sock, select.POLLIN)
            # Nothing is due on an idle connection but its end.
            if not poll.poll(0):
                return connection
            connection.close()

    def _opened(self) -> http.client.HTTPConnection:
        connection = (
            http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
            if self._tls
            else http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        )
        try:
            connection.connect()
        except OSError as error:  # an SSLError is one
            connection.close()
            raise NotSentError(f"{type(error).__name__}: {error}") from error
        connection.response_class = _Answer
        return connection


def _whole(answer: http.client.HTTPResponse) -> bytes:
    """Return the body of an answer; raises UntrustedError for one that is too long."""
    body = answer.read(ANSWER_BYTES + 1)
    if len(body) > ANSWER_BYTES:
        raise UntrustedError(f"an answer of more than {ANSWER_BYTES:,} bytes")
    if answer.length:
        raise http.client.IncompleteRead(body, answer.length)
    return body


def instance_of(header: Callable[[str], str | None]) -> str | None:
    """Return which instance (host:port) answered, as a header says; None where none does."""
    return instance(next((told for name in _INSTANCE_HEADERS if (told := header(name))), None))
