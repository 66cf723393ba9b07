"""What a group of a vendor's proxy waits for while another group of the same proxy rebalances.

    python -m lab.bench.rest.waits ARCHIVE [--threads N] [--protocol classic|consumer]

Group A reads and commits through one proxy without a pause. A plain consumer of group B has every partition
and then polls no more, so that the members of B in the proxy wait for it. What these do meanwhile is a turn:
reads (they read and commit) and leaves (their clients vanish, and the proxy closes them). Each line of output
is JSON: the longest times of A in seconds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer

from lab.bench.rest.real import BINARY, Client, Site
from lab.bench.rest.restarts import steadily
from lab.services.brokers import kafka_jars, running_broker
from lab.services.rest_proxies import unpack

_JSON: Final = "application/vnd.kafka.v2+json"
_TOPIC: Final = "measured"
_PARTITIONS: Final = 6
_RATE: Final = 300
_INSTANCE_TIMEOUT_MS: Final = 8_000
#: A member joins in its first reads; then its client vanishes.
_READS_BEFORE: Final = 3
_ANSWER_S: Final = 120.0
#: How long each turn lasts: fixed parts of the measurement. The last one waits for the instances to expire.
_TURNS_S: Final = {"alone": 5.0, "reads": 8.0, "leaves": 45.0}


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 2 when the machine has no jars of a broker."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archive", type=Path)
    parser.add_argument("--threads", type=int, default=50, help="consumer.threads (default 50)")
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic")
    parser.add_argument("--members", type=int, default=3, help="of B, in the proxy (default 3)")
    options = parser.parse_args(arguments)
    jars = kafka_jars()
    if jars is None:
        print("no jars of a broker are cached: make setup", file=sys.stderr)
        return 2
    options.heap = "512m"
    options.settings = [
        f"consumer.threads={options.threads}",
        f"consumer.instance.timeout.ms={_INSTANCE_TIMEOUT_MS}",
        *(["consumer.group.protocol=consumer"] if options.protocol == "consumer" else []),
    ]
    with tempfile.TemporaryDirectory() as folder:
        (home := Path(folder) / "home").mkdir()
        site = Site(unpack(options.archive, home), Path(folder), jars)
        about = {"archive": options.archive.name, "members": options.members, "set": options.settings}
        with (
            running_broker(jars, heap_mb=512) as broker,
            site.proxy(broker.bootstrap_servers, options) as proxy,
        ):
            broker.create_topic(_TOPIC, partitions=_PARTITIONS)
            over = threading.Event()
            a = _Reader(proxy.url, over)
            with steadily(broker.bootstrap_servers, _TOPIC, _PARTITIONS, _RATE):
                a.start()
                if not a.reads.wait(60):
                    raise TimeoutError("group A reads nothing")
                for turn in _TURNS_S:
                    a.begin(turn)
                    others = _turn(turn, broker.bootstrap_servers, proxy.url, options)
                    print(json.dumps(about | {"turn": turn} | a.longest(turn) | others), flush=True)
                over.set()
    return 0


class _Reader(threading.Thread):
    """Group A: reads, commits what it read, and keeps how long each took."""

    def __init__(self, url: str, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._client, self._over = Client(url, _ANSWER_S), over
        self._turn, self._since = "warm", time.monotonic()
        #: What has been asked and not answered, and when.
        self._asked: tuple[str, float] | None = None
        self._found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.reads = threading.Event()

    def run(self) -> None:
        """Read and commit until it is over."""
        base = _member(self._client, "a", "a")
        while not self._over.is_set():
            records = json.loads(self._timed("read", "GET", f"{base}/records?timeout=500") or "[]")
            if not records:
                continue
            self.reads.set()
            self._keep("delivery_gap", self._since)
            self._since = time.monotonic()
            self._timed("commit", "POST", f"{base}/offsets")

    def _timed(self, what: str, method: str, path: str) -> bytes:
        self._asked = what, (at := time.monotonic())
        status, text = self._client.ask(method, path, accept=BINARY if method == "GET" else _JSON)
        self._asked = None
        self._keep(what, at)
        if status != http.client.OK:
            self._found[self._turn]["refused"] += 1
            return b""
        return text

    def _keep(self, what: str, since: float) -> None:
        found = self._found[self._turn]
        found[what] = max(found[what], time.monotonic() - since)

    def begin(self, turn: str) -> None:
        """Count from here on as part of a turn."""
        self._turn = turn

    def longest(self, turn: str) -> dict[str, float]:
        """Return the longest times of a turn in seconds, with what still waits for its answer."""
        self._keep("delivery_gap", self._since)
        if asked := self._asked:
            self._keep(*asked)
        return {key: round(value, 2) for key, value in sorted(self._found[turn].items())}


def _member(client: Client, group: str, name: str) -> str:
    body = {"name": name, "format": "binary", "auto.offset.reset": "latest", "auto.commit.enable": "false"}
    status, text = client.ask("POST", f"/consumers/{group}", body)
    if status != http.client.OK:
        raise ValueError(text)
    base = f"/consumers/{group}/instances/{name}"
    client.ask("POST", f"{base}/subscription", {"topics": [_TOPIC]})
    return base


def _turn(turn: str, servers: str, url: str, options: argparse.Namespace) -> dict[str, Any]:
    """Let the members of B do what the turn says; return their own longest answer in seconds."""
    ends = time.monotonic() + _TURNS_S[turn]
    if turn == "alone":
        time.sleep(_TURNS_S[turn])
        return {}
    longest = [0.0]
    with _holding(servers, f"b-{turn}", options.protocol):
        members = [
            threading.Thread(target=_behave, args=(turn, url, f"m{n}", ends, longest), daemon=True)
            for n in range(options.members)
        ]
        for each in members:
            each.start()
        time.sleep(max(0.0, ends - time.monotonic()))
    return {"b_answer": round(longest[0], 2)}


def _behave(turn: str, url: str, name: str, ends: float, longest: list[float]) -> None:
    client = Client(url, _ANSWER_S)

    def ask(method: str, path: str, accept: str = _JSON) -> None:
        at = time.monotonic()
        client.ask(method, path, accept=accept)
        longest[0] = max(longest[0], time.monotonic() - at)

    with suppress(OSError, http.client.HTTPException):
        base = _member(client, f"b-{turn}", name)
        asked = 0
        while time.monotonic() < ends and (turn == "reads" or asked < _READS_BEFORE):
            ask("GET", f"{base}/records?timeout=500", BINARY)
            if turn == "reads":
                ask("POST", f"{base}/offsets")
            asked += 1


@contextmanager
def _holding(servers: str, group: str, protocol: str) -> Iterator[None]:
    """Have a member of the group that was assigned everything and does not poll."""
    joined = threading.Event()
    holder = Consumer({"bootstrap.servers": servers, "group.id": group, "group.protocol": protocol})
    holder.subscribe([_TOPIC], on_assign=lambda *_: joined.set(), on_revoke=lambda *_: None)
    while not joined.is_set():
        holder.poll(0.1)
    try:
        yield
    finally:
        holder.close()


if __name__ == "__main__":
    sys.exit(main())
