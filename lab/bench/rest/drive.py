"""Loads by HTTP in processes of their own, without a library between them and the socket."""

from __future__ import annotations

import base64
import http.client
import json
import os
import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from lab.bench.rest.cases import Produce

_BINARY: Final = {
    "Content-Type": "application/vnd.kafka.binary.v2+json",
    "Accept": "application/vnd.kafka.v2+json",
}
_JSON: Final = {"Content-Type": "application/vnd.kafka.v2+json", "Accept": "application/vnd.kafka.v2+json"}
_READ: Final = {"Accept": "application/vnd.kafka.binary.v2+json"}
_TIMEOUT_S: Final = 30.0


class ProxyRefusedError(Exception):
    """A proxy did not do as asked; the text is one line."""


class ClientsOfProcess(NamedTuple):
    """What one process of clients does: who is asked, by how many threads, with which body, for how long.

    Before the ``seconds`` that count there are ``uncounted_s``, on the same connections.
    """

    url: str
    topic: str
    threads: int
    body: bytes
    session: bool
    seconds: float
    uncounted_s: float


def produce(
    urls: Sequence[str],
    topic: str,
    load: Produce,
    record_bytes: int,
    seconds: float,
    values: Sequence[bytes] = (),
    *,
    uncounted_s: float = 0.0,
) -> dict[str, float]:
    """Send for a time; return records_per_s, p50_ms and p99_ms of the requests that got an offset.

    Each record of a request has the next one of ``values``, or where there are none the same random bytes.
    The connections send for ``uncounted_s`` before that: a bridge first makes a producer for each.

    Raises:
        ProxyRefusedError: when a request is answered with anything but an offset for each record.
    """
    texts = [base64.b64encode(value).decode() for value in values or [os.urandom(record_bytes)]]
    records = [{"value": texts[number % len(texts)]} for number in range(load.records)]
    body = json.dumps({"records": records}).encode()
    workers = min(len(urls) * 2, load.clients, 4)
    works = [
        ClientsOfProcess(
            urls[n % len(urls)], topic, load.clients // workers, body, load.session, seconds, uncounted_s
        )
        for n in range(workers)
    ]
    with ProcessPoolExecutor(workers) as pool:
        took = [each for found in pool.map(_clients, works) for each in found]
    if not took:
        raise ProxyRefusedError(f"{urls[0]}: no request was answered within the {seconds:g} s that count")
    cuts = statistics.quantiles(took, n=100) if len(took) > 1 else took * 99
    return {
        "records_per_s": len(took) * load.records / seconds,
        "p50_ms": cuts[49] * 1000,
        "p99_ms": cuts[98] * 1000,
    }


def _clients(work: ClientsOfProcess) -> list[float]:
    took: list[float] = []
    failed: list[str] = []
    threads = [threading.Thread(target=_client, args=(work, took, failed)) for _ in range(work.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise ProxyRefusedError(failed[0])
    return took


def _client(work: ClientsOfProcess, took: list[float], failed: list[str]) -> None:
    counted = time.monotonic() + work.uncounted_s
    deadline = counted + work.seconds
    connection = _connection(work.url)
    try:
        while (began := time.monotonic()) < deadline and not failed:
            if not work.session:
                connection.close()
                connection = _connection(work.url)
            entries = _asked(connection, "POST", f"/topics/{work.topic}", work.body, _BINARY)["offsets"]
            if any(entry.get("error_code") or entry.get("offset") is None for entry in entries):
                raise ProxyRefusedError(f"{work.url}: a record was answered with {entries[0]}")
            if counted <= (ended := time.monotonic()) < deadline:
                took.append(ended - began)
    except (OSError, http.client.HTTPException, ValueError, LookupError, ProxyRefusedError) as error:
        failed.append(f"{work.url}: {type(error).__name__}: {error}")
    finally:
        connection.close()


def read(url: str, topic: str, seconds: float) -> float:
    """Read a topic from its begin with one new consumer; return MB/s of values from the first ones on."""
    connection = _connection(url)
    group = f"bench-{time.time_ns()}"
    body = json.dumps({"format": "binary", "auto.offset.reset": "earliest"}).encode()
    name = _asked(connection, "POST", f"/consumers/{group}", body, _JSON)["instance_id"]
    base = f"/consumers/{group}/instances/{name}"
    try:
        _asked(connection, "POST", f"{base}/subscription", json.dumps({"topics": [topic]}).encode(), _JSON)
        got, first, last = 0, 0.0, 0.0
        # A new consumer has its first records after seconds, by its group's and its fetches' waiting.
        deadline = time.monotonic() + _TIMEOUT_S + 2 * seconds
        while time.monotonic() < deadline and (not first or time.monotonic() - first < seconds):
            records = _asked(connection, "GET", f"{base}/records", None, _READ)
            if records:
                last = time.monotonic()
                if first:
                    got += sum(len(record["value"]) * 3 // 4 for record in records)
                first = first or last
        if not first:
            raise ProxyRefusedError(f"{url}: a consumer got nothing of {topic} within {_TIMEOUT_S:g} s")
        if last == first:
            raise ProxyRefusedError(f"{url}: all of {topic} came in one answer: warm up for longer")
        return got / (last - first) / 1e6
    finally:
        connection.request("DELETE", base, headers=_JSON)
        connection.getresponse().read()
        connection.close()


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=_TIMEOUT_S)


def _asked(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: dict[str, str],
) -> Any:
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status // 100 != 2:
        raise ProxyRefusedError(
            f"{method} {path}: HTTP {answer.status} {text[:200].decode(errors='replace')}"
        )
    return json.loads(text) if text else None
