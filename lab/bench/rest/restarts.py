"""What a restart costs a group of consumers: one proxy ended by TERM and by KILL while the group reads."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from confluent_kafka import Producer

_JSON: Final = {"Content-Type": "application/vnd.kafka.v2+json", "Accept": "application/vnd.kafka.v2+json"}
_READ: Final = {"Accept": "application/vnd.kafka.binary.v2+json"}
_AGAIN_S: Final = 0.2
_ANSWER_S: Final = 5.0
_TICK_S: Final = 0.005


@contextmanager
def steadily(
    servers: str,
    topic: str,
    partitions: int,
    records_per_s: float,
    *,
    record_bytes: int = 100,
    linger_ms: int = 0,
    burst: int = 1,
) -> Iterator[list[int]]:
    """Write records at a steady rate, to one partition after the other; give how many there are by now.

    They come in bursts of ``burst``. Each begins with when it was written.
    """
    over, written = threading.Event(), [0]

    def write() -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": linger_ms})
        began = time.monotonic()
        while not over.wait(_TICK_S):
            due = int((time.monotonic() - began) * records_per_s) // burst * burst
            value = stamped(record_bytes)
            for number in range(written[0], due):
                producer.produce(topic, value, partition=number % partitions)
                written[0] = number + 1
            producer.poll(0)
        producer.flush(5)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield written
    finally:
        over.set()
        thread.join(10)


class Group:
    """Consumers of one group, some in each proxy, which make themselves again where their proxy is gone.

    With ``commit_s`` they commit that often what they read, and count what comes twice. With ``timed`` they
    collect in ``took_ms`` how long each record of ``steadily`` took. They leave the proxies of ``shut``
    without a word, as a balancer has it that drains them.
    """

    def __init__(
        self,
        urls: tuple[str, ...],
        topic: str,
        members: int,
        commit_s: float | None = None,
        *,
        timed: bool = False,
    ) -> None:
        self._urls, self._topic, self._commit_s = urls, topic, commit_s
        self.name = f"bench-{time.time_ns()}"
        self.shut: frozenset[str] = frozenset()
        self._stop = threading.Event()
        self.got: dict[int, list[float]] = {}
        self.took_ms: list[float] = []
        self._timed = timed
        self.homes: dict[int, str] = {}
        self._seen: set[tuple[int, int]] = set()
        self.redelivered = 0
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(members)]

    def __enter__(self) -> Group:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(15)

    def _run(self, number: int) -> None:
        made = 0
        while not self._stop.is_set():
            url = self._urls[(number + made) % len(self._urls)]
            made += 1
            if url in self.shut:
                continue
            parts = urlsplit(url)
            try:
                connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=_ANSWER_S)
                self._read(connection, url, number)
            except (OSError, http.client.HTTPException, ValueError):
                made -= (
                    number not in self.homes
                )  # the first one is made where it belongs, however long that takes
                self._stop.wait(_AGAIN_S)

    def _read(self, connection: http.client.HTTPConnection, url: str, number: int) -> None:
        body: dict[str, Any] = {"format": "binary", "auto.offset.reset": "latest"}
        if self._commit_s is not None:
            body["auto.commit.enable"] = "false"
        name = _ask(connection, "POST", f"/consumers/{self.name}", body)["instance_id"]
        base = f"/consumers/{self.name}/instances/{name}"
        _ask(connection, "POST", f"{base}/subscription", {"topics": [self._topic]})
        self.homes[number] = url
        read: dict[int, int] = {}
        committed = time.monotonic()
        while not self._stop.is_set():
            records = _ask(connection, "GET", f"{base}/records", None)
            at = time.monotonic()
            if url in self.shut:
                return
            self._note(records or (), at)
            if self._commit_s is None:
                continue
            if records is None:
                raise ValueError("a proxy that stops answers without a body")
            read |= {record["partition"]: record["offset"] for record in records}
            if read and at - committed >= self._commit_s:
                self._commit(connection, f"{base}/offsets", read)
                read, committed = {}, at
        _ask(connection, "DELETE", base, None)

    def _note(self, records: Sequence[Mapping[str, Any]], at: float) -> None:
        took_ms = [round((at - _written(record["value"])) * 1000, 1) for record in records if self._timed]
        with self._lock:
            self.took_ms += took_ms
            for partition in {record["partition"] for record in records}:
                self.got.setdefault(partition, []).append(at)
            if self._commit_s is not None:
                places = {(record["partition"], record["offset"]) for record in records}
                self.redelivered += len(places & self._seen)
                self._seen |= places

    def _commit(self, connection: http.client.HTTPConnection, path: str, read: Mapping[int, int]) -> None:
        """Commit what was read; one that a rebalance refuses is forgotten."""
        places = [{"topic": self._topic, "partition": p, "offset": o} for p, o in read.items()]
        try:
            _ask(connection, "POST", path, {"offsets": places})
        except ValueError as error:
            if "HTTP 500" not in str(error):
                raise

    def silences(self, since: float, until: float) -> list[float]:
        """Return the longest time without a record of each partition, in seconds."""
        with self._lock:
            return [_longest(times, since, until) for times in self.got.values()]

    def reads(self, partitions: int, seconds: float) -> bool:
        """Return whether as many partitions gave a record within the last seconds."""
        since = time.monotonic() - seconds
        with self._lock:
            return sum(times[-1] > since for times in self.got.values()) == partitions

    def reads_all(self, seconds: float) -> bool:
        """Return whether every partition of the topic gave a record within the last seconds."""
        parts = urlsplit(self._urls[0])
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=5)
        try:
            partitions = len(_ask(connection, "GET", f"/topics/{self._topic}", None)["partitions"])
        except (OSError, http.client.HTTPException, ValueError):
            return False  # it is on its way back from the last signal
        finally:
            connection.close()
        return self.reads(partitions, seconds)

    def longest_silence(self, since: float, until: float) -> tuple[float, float]:
        """Return the longest time without a record for anybody, and for the worst partition, in seconds."""
        with self._lock:
            every = [at for times in self.got.values() for at in times]
            worst = max((_longest(times, since, until) for times in self.got.values()), default=until - since)
        return _longest(every, since, until), worst


def stamped(record_bytes: int) -> bytes:
    """Return a record that begins with the time of this machine's monotonic clock, in ns."""
    return (b"%20d" % time.monotonic_ns()).ljust(record_bytes)


def _written(value: str) -> float:
    return int(base64.b64decode(value[:28])[:20]) / 1e9


def _longest(times: list[float], since: float, until: float) -> float:
    inside = sorted([since, *(at for at in times if since <= at <= until), until])
    return max(later - earlier for earlier, later in itertools.pairwise(inside))


def _ask(connection: http.client.HTTPConnection, method: str, path: str, body: dict[str, Any] | None) -> Any:
    text = None if body is None else json.dumps(body).encode()
    connection.request(method, path, text, _READ if path.endswith("/records") else _JSON)
    answer = connection.getresponse()
    said = answer.read()
    if answer.status // 100 != 2:
        raise ValueError(f"{method} {path}: HTTP {answer.status}")
    return json.loads(said) if said else None
