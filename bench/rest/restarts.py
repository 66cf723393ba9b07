"""What a restart costs a group of consumers: one proxy ended by TERM and by KILL while the group reads."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from typing import Any, Final
from urllib.parse import urlsplit

_JSON: Final = {"Content-Type": "application/vnd.kafka.v2+json", "Accept": "application/vnd.kafka.v2+json"}
_READ: Final = {"Accept": "application/vnd.kafka.binary.v2+json"}
_AGAIN_S: Final = 0.2


class Group:
    """Consumers of one group, some in each proxy, which make themselves again where their proxy is gone."""

    def __init__(self, urls: tuple[str, ...], topic: str, members: int) -> None:
        self._urls, self._topic = urls, topic
        self._name = f"bench-{time.time_ns()}"
        self._stop = threading.Event()
        self.got: dict[int, list[float]] = {}
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
            parts = urlsplit(self._urls[(number + made) % len(self._urls)])
            made += 1
            try:
                self._read(http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=5))
            except (OSError, http.client.HTTPException, ValueError):
                self._stop.wait(_AGAIN_S)

    def _read(self, connection: http.client.HTTPConnection) -> None:
        body: dict[str, Any] = {"format": "binary", "auto.offset.reset": "latest"}
        name = _ask(connection, "POST", f"/consumers/{self._name}", body)["instance_id"]
        base = f"/consumers/{self._name}/instances/{name}"
        _ask(connection, "POST", f"{base}/subscription", {"topics": [self._topic]})
        while not self._stop.is_set():
            records = _ask(connection, "GET", f"{base}/records", None)
            at = time.monotonic()
            with self._lock:
                for partition in {record["partition"] for record in records or ()}:
                    self.got.setdefault(partition, []).append(at)
        _ask(connection, "DELETE", base, None)

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
        since = time.monotonic() - seconds
        with self._lock:
            return sum(times[-1] > since for times in self.got.values()) == partitions

    def longest_silence(self, since: float, until: float) -> tuple[float, float]:
        """Return the longest time without a record for anybody, and for the worst partition, in seconds."""
        with self._lock:
            every = [at for times in self.got.values() for at in times]
            worst = max((_longest(times, since, until) for times in self.got.values()), default=until - since)
        return _longest(every, since, until), worst


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
