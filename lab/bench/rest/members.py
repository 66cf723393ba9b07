"""What members and connections of a vendor's proxy cost, from its archive, beside a broker on loopback.

    python -m lab.bench.rest.members ARCHIVE leave|connections [--set key=value ...]

leave: two proxies have the consumers of one group. One of them is stopped by SIGTERM, or after its consumers
were deleted (``--delete``), and its clients make new ones at the other: how long each partition got
nothing. connections: clients that produce on a connection each: threads, descriptors and memory. Each line of
output is JSON.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from lab.bench.rest.real import BINARY, Client, Site
from lab.services.brokers import Broker, kafka_jars, running_broker
from lab.services.rest_proxies import RunningProxy, unpack

_TOPIC: Final = "measured"
_PARTITIONS: Final = 12
_CONSUMERS: Final = 4
_RATE: Final = 600  # records/s over all partitions: each gets one every 20 ms
_SETTLED_S: Final = 10.0
_WATCHED_S: Final = 60.0
_READ_MS: Final = 200
_BODY: Final = {"records": [{"value": "eA==" * 25}] * 100}


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 2 when the machine has no jars of a broker."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archive", type=Path)
    parser.add_argument("part", choices=["leave", "connections"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("--heap", default="512m", help="-Xms and -Xmx of a proxy")
    parser.add_argument("--delete", action="store_true", help="leave: delete the consumers before the stop")
    parser.add_argument("--watch", type=float, default=_WATCHED_S, help="leave: seconds after the stop")
    parser.add_argument(
        "--clients", type=int, action="append", help="connections: how many; repeated, in turn"
    )
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args(arguments)
    jars = kafka_jars()
    if jars is None:
        print("no jars of a broker are cached: make setup", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        (home := Path(folder) / "home").mkdir()
        site = Site(unpack(options.archive, home), Path(folder), jars)
        part = {"leave": _leave, "connections": _connections}[options.part]
        for _ in range(options.repeat):
            with running_broker(jars, heap_mb=512) as broker:
                broker.create_topic(_TOPIC, partitions=_PARTITIONS)
                for found in part(site, broker, options):
                    about = {"archive": options.archive.name, "set": options.settings}
                    print(json.dumps(about | found), flush=True)
    return 0


class _Consumer(threading.Thread):
    """Reads and commits without a pause; where its instance is gone, it makes a new one at the next proxy."""

    def __init__(self, number: int, urls: Sequence[str], site: Site, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._urls, self._at, self._site, self._over = urls, number % len(urls), site, over
        self._number, self._made = number, 0
        #: When each partition delivered something.
        self.delivered: dict[int, list[float]] = defaultdict(list)
        self.refused = 0
        #: Where its instance is, to be deleted by others.
        self.place: tuple[str, str] | None = None

    def run(self) -> None:
        """Read until it is over."""
        while not self._over.is_set():
            url = self._urls[self._at]
            try:
                client = Client(url, 10)
                base = self._make(client)
                self.place = (url, base)
                while not self._over.is_set():
                    self._read(client, base)
            except (OSError, http.client.HTTPException, LookupError, ValueError):
                self._at = (self._at + 1) % len(self._urls)
                self._over.wait(0.1)

    def _make(self, client: Client) -> str:
        self._made += 1
        own_commits: dict[str, Any] = (
            {"enable.auto.commit": False} if self._site.bridge else {"auto.commit.enable": "false"}
        )
        name = f"c{self._number}-{self._made}"
        body = {"name": name, "format": "binary", "auto.offset.reset": "earliest", **own_commits}
        status, text = client.ask("POST", "/consumers/left", body)
        if status != http.client.OK:
            raise ValueError(text)
        client.ask("POST", f"/consumers/left/instances/{name}/subscription", {"topics": [_TOPIC]})
        return f"/consumers/left/instances/{name}"

    def _read(self, client: Client, base: str) -> None:
        status, text = client.ask("GET", f"{base}/records?timeout={_READ_MS}", accept=BINARY)
        if status != http.client.OK:
            raise ValueError(text)
        at, last = time.monotonic(), dict[int, int]()
        for record in json.loads(text):
            self.delivered[record["partition"]].append(at)
            last[record["partition"]] = record["offset"]
        if not last:
            return
        adds = 1 if self._site.bridge else 0
        offsets = [{"topic": _TOPIC, "partition": p, "offset": o + adds} for p, o in last.items()]
        status, _ = client.ask("POST", f"{base}/offsets", {"offsets": offsets})
        self.refused += status >= http.client.BAD_REQUEST


def _leave(site: Site, broker: Broker, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    over = threading.Event()
    producer = threading.Thread(target=_go_on_producing, args=(broker.bootstrap_servers, over), daemon=True)
    with (
        site.proxy(broker.bootstrap_servers, options) as stopped,
        site.proxy(broker.bootstrap_servers, options) as left,
    ):
        consumers = [_Consumer(n, (stopped.url, left.url), site, over) for n in range(_CONSUMERS)]
        for each in (producer, *consumers):
            each.start()
        deadline = time.monotonic() + _WATCHED_S
        while len(_times(consumers)) < _PARTITIONS:
            if time.monotonic() > deadline:
                raise TimeoutError("not every partition delivers")
            time.sleep(0.1)
        time.sleep(_SETTLED_S)  # a fixed part of the measurement
        began = time.monotonic()
        if options.delete:
            for url, base in [c.place for c in consumers if c.place and c.place[0] == stopped.url]:
                Client(url, 10).ask("DELETE", base)
        deleted = time.monotonic() - began
        stopped.process.terminate()
        stopped.process.wait(90)
        ended = time.monotonic() - began
        time.sleep(options.watch)
        over.set()
        until = time.monotonic()
        for each in (producer, *consumers):
            each.join()
    gaps = [_gap(times, began, until) for times in _times(consumers).values()]
    yield {
        "deleted": options.delete,
        "delete_s": round(deleted, 2),
        "stopped_after_s": round(ended, 2),
        "worst_gap_s": round(max(gaps), 2),
        "median_gap_s": round(statistics.median(gaps), 2),
        "refused_commits": sum(c.refused for c in consumers),
    }


def _times(consumers: Sequence[_Consumer]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for each in consumers:
        for partition, times in list(each.delivered.items()):
            found[partition] += times
    return found


def _gap(times: list[float], began: float, until: float) -> float:
    """Return the longest time without a delivery between the stop and the end."""
    inside = [began, *sorted(t for t in times if t > began), until]
    return max(after - before for before, after in itertools.pairwise(inside))


def _go_on_producing(servers: str, over: threading.Event) -> None:
    producer, number = Producer({"bootstrap.servers": servers, "linger.ms": 5}), 0
    while not over.wait(1 / 50):
        for _ in range(_RATE // 50):
            producer.produce(_TOPIC, b"x" * 100, partition=number % _PARTITIONS)
            number += 1
        producer.poll(0)
    producer.flush(10)


def _connections(site: Site, broker: Broker, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with site.proxy(broker.bootstrap_servers, options) as proxy:
        clients: list[Client] = []
        yield {"clients": 0} | _used(proxy)
        for count in options.clients or [50, 200]:
            clients += [Client(proxy.url, 60) for _ in range(count - len(clients))]
            for _ in range(3):
                for each in clients:
                    each.ask("POST", f"/topics/{_TOPIC}", _BODY)
            yield {"clients": count} | _used(proxy)


def _used(proxy: RunningProxy) -> dict[str, int]:
    process = Path(f"/proc/{proxy.process.pid}")
    told = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return {
        "threads": int(told["Threads"]),
        "descriptors": sum(1 for _ in (process / "fd").iterdir()),
        "rss_mib": int(told["VmRSS"].split()[0]) // 1024,
    }


if __name__ == "__main__":
    sys.exit(main())
