"""What one proxy of a vendor does, from its archive, beside a broker of its own on loopback.

    python -m lab.bench.rest.real ARCHIVE reads|group|memory|idle|outage|stop|cost [--set key=value ...]

reads: one consumer on twelve partitions reads a backlog: MB/s of values, how large answers are, and what it
takes of the processors, here and there. group: what consumers of a group (``--members``, 4) that read 5,000
records/s as they come take of the proxy's processors, and how long records take, in turns of 20 s, the first
two left out; ``--burst`` records come together. memory: what a fresh proxy with two readers has resident
under a small load, and its rates at full speed. idle: what two proxies with 80 consumers have resident after
a minute. outage: how long produce requests take that cannot succeed. stop: what requests get that are in
flight on SIGTERM. ``--set`` gives the proxy settings in its own keys; repeated, it gives several at once.
Each line of output is JSON.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from lab.bench.rest.cases import Produce
from lab.bench.rest.drive import produce
from lab.bench.rest.restarts import Group, steadily
from lab.bench.streams.figures import percentiles
from lab.services.brokers import Broker, kafka_jars, running_broker
from lab.services.rest_proxies import RunningProxy, running_proxy, unpack
from verify.process import cpu_us as own_cpu_us

#: How long the load of a stop runs before TERM: a fixed part of the measurement, not a wait for anything.
_LOADED_S: Final = 8.0
#: How long a turn of a group lasts, and how many turns are left out as warm-up.
_TURN_S: Final = 20.0
_WARM_TURNS: Final = 2
_ARRIVING_PER_S: Final = 5_000
_LINGER_MS: Final = 5
_RECENT_S: Final = 3.0
#: The small loads of ``memory``, in order: requests/s, records a request, seconds. Compilers count calls, so
#: the first one has many.
_SMALL_LOADS: Final = ((600, 3, 10.0), (16, 100, 20.0))
#: Then at full speed, each for a time that does not count, and one that does.
_FULL_LOADS: Final = (Produce(100, clients=4), Produce(1000, clients=8))
_FULL_S: Final = 10.0
#: Of ``idle``: consumers, requests/s of each proxy, records a request, seconds, and what keeps a core busy.
_IDLE_CONSUMERS: Final = 80
_IDLE_LOAD: Final = (15, 100, 60.0)
#: Of ``cost``: records a request, and bytes a record, unless a request had more than the last of these; how
#: long each is sent, and a fresh process before them.
_COST_RECORDS: Final = (1, 10, 100, 1000)
_COST_BYTES: Final = (100, 1_000, 10_000, 100_000)
_COST_MOST: Final = 10_000_000
_COST_S: Final = 3.0
_COST_WARM_S: Final = 20.0
_BUSY: Final = "import time\nend = time.monotonic() + 25\nwhile time.monotonic() < end: pass"
_V2: Final = "application/vnd.kafka.v2+json"
BINARY: Final = "application/vnd.kafka.binary.v2+json"
_TOPIC: Final = "measured"
_PARTITIONS: Final = 12
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 2 when the machine has no jars of a broker."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archive", type=Path)
    parser.add_argument("part", choices=list(_PARTS))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("--heap", default="1g", help="-Xms and -Xmx of the proxy, or flags in their place")
    parser.add_argument("--record-bytes", type=int, default=1000)
    parser.add_argument("--backlog-mb", type=int, default=400)
    parser.add_argument("--max-bytes", type=int, action="append", help="of each read; repeated, in rotation")
    parser.add_argument("--timeout-ms", type=int, help="of each read")
    parser.add_argument(
        "--cut-after", type=float, help="seconds after SIGTERM, from which on connections are ended (root)"
    )
    parser.add_argument("--burst", type=int, default=1, help="of group: records that come together")
    parser.add_argument("--members", type=int, default=4, help="of group: consumers (default 4)")
    parser.add_argument(
        "--busy", type=int, default=0, help="of idle: processes that never rest while consumers join"
    )
    parser.add_argument(
        "--records", type=int, action="append", help="of cost: of each request; repeated, one after the other"
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--ahead", action="store_true", help="ask for the next records before these are decoded"
    )
    options = parser.parse_args(arguments)
    jars = kafka_jars()
    if jars is None:
        print("no jars of a broker are cached: make setup", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        (home := Path(folder) / "home").mkdir()
        top = unpack(options.archive, home)
        with running_broker(jars, heap_mb=768) as broker:
            for found in _PARTS[options.part](Site(top, Path(folder), jars), broker, options):
                print(
                    json.dumps({"archive": options.archive.name, "set": options.settings} | found), flush=True
                )
    return 0


class Site:
    """Where a proxy is unpacked, and how one is started."""

    def __init__(self, home: Path, folder: Path, jars: Path) -> None:
        self.home, self.folder, self.jars = home, folder, jars
        self.bridge = (home / "bin" / "kafka_bridge_run.sh").exists()

    @contextmanager
    def proxy(self, servers: str, options: argparse.Namespace) -> Iterator[RunningProxy]:
        """Run a proxy with the settings asked for."""
        prefix = "kafka." if self.bridge else ""
        settings = dict(each.split("=", 1) for each in options.settings)
        given = options.heap
        heap = given if given.startswith("-") else f"-Xms{given} -Xmx{given}"
        environment = {"KAFKAREST_HEAP_OPTS": heap, "JAVA_OPTS": heap}
        properties = {f"{prefix}bootstrap.servers": servers} | settings
        work = Path(tempfile.mkdtemp(dir=self.folder))
        with running_proxy(self.home, work, properties, environment) as proxy:
            yield proxy


class Client:
    """One connection to a proxy."""

    def __init__(self, url: str, timeout_s: float = 400) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout_s)

    def ask(self, method: str, path: str, body: Any = None, accept: str = _V2) -> tuple[int, bytes]:
        """Return status and body; the connection is kept."""
        kind = BINARY if path.startswith("/topics") else _V2
        text = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, text, {"Content-Type": kind, "Accept": accept})
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def _fill(broker: Broker, record_bytes: int, megabytes: int) -> None:
    broker.create_topic(_TOPIC, partitions=_PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
        }
    )
    values = [os.urandom(record_bytes) for _ in range(100)]
    for number in range(megabytes * 1_000_000 // record_bytes):
        while True:
            try:
                producer.produce(_TOPIC, values[number % 100], partition=number % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if not number % 1000:
            producer.poll(0)
    producer.flush()


def _used_s(pid: int) -> float:
    """Return the seconds of processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident_mib(pid: int, which: str = "VmRSS") -> int:
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith(which))
    return int(line.split()[1]) // 1024


def _reads(site: Site, broker: Broker, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    _fill(broker, options.record_bytes, options.backlog_mb)
    cases = list(product(options.max_bytes or [0], (False, True) if options.ahead else (False,)))
    with site.proxy(broker.bootstrap_servers, options) as proxy:
        for turn in range(options.repeat + 1):
            for max_bytes, ahead in cases if turn else cases[:1]:  # the first one warms the process up
                found = _read_all(site, proxy, options, max_bytes, ahead)
                if turn:
                    yield {
                        "record_bytes": options.record_bytes,
                        "max_bytes": max_bytes,
                        "ahead": ahead,
                    } | found


def _read_all(
    site: Site, proxy: RunningProxy, options: argparse.Namespace, max_bytes: int, ahead: bool
) -> dict[str, Any]:
    """Read the backlog by a new instance, and tell of all reads but the first that had records."""
    client = Client(proxy.url)
    own_commits = {"enable.auto.commit": False} if site.bridge else {"auto.commit.enable": "false"}
    body = {"format": "binary", "auto.offset.reset": "earliest", **own_commits}
    group = f"/consumers/g{time.time_ns()}"
    _, text = client.ask("POST", group, body)
    base = f"{group}/instances/{json.loads(text)['instance_id']}"
    client.ask("POST", f"{base}/subscription", {"topics": [_TOPIC]})
    limits = {"max_bytes": max_bytes, "timeout": options.timeout_ms}
    path = f"{base}/records?{urlencode({key: value for key, value in limits.items() if value})}"
    wanted = options.backlog_mb * 1_000_000 // options.record_bytes
    pid = proxy.process.pid
    got = first = 0
    began = there = here = waited = decoded = 0.0
    sizes: list[int] = []
    # Long enough for settings that read 2 MB/s, with what follows from what was read until then.
    deadline = time.monotonic() + 40

    def ask() -> tuple[int, bytes, float]:
        at = time.monotonic()
        status, text = client.ask("GET", path, accept=BINARY)
        return status, text, time.monotonic() - at

    with ThreadPoolExecutor(1) as one:
        asked = one.submit(ask)
        while got < wanted and time.monotonic() < deadline:
            status, text, took = asked.result()
            if ahead:
                asked = one.submit(ask)
            if status != 200:
                return {"failed": f"HTTP {status} {text[:200].decode(errors='replace')}"}
            at = time.monotonic()
            records = json.loads(text)
            spent = time.monotonic() - at
            if not ahead:
                asked = one.submit(ask)
            if not records:
                continue
            got += len(records)
            if not first:
                first, began, there, here = got, time.monotonic(), _used_s(pid), own_cpu_us() / 1e6
                continue
            decoded += spent
            waited += took
            sizes.append(len(text))
        seconds = time.monotonic() - began
        used = {"proxy": _used_s(pid) - there, "client": own_cpu_us() / 1e6 - here}
        asked.result()
    client.ask("DELETE", base)
    megabytes = (got - first) * options.record_bytes / 1e6
    if not sizes:
        return {"failed": "all came in one answer: a larger --backlog-mb is needed"}
    return {
        "mb_per_s": round(megabytes / seconds, 1),
        "seconds": round(seconds, 1),
        "reads": len(sizes),
        "largest_answer_mb": round(max(sizes) / 1e6, 1),
        "median_answer_mb": round(statistics.median(sizes) / 1e6, 2),
        "waiting": round(waited / seconds, 2),
        "decoding": round(decoded / seconds, 2),
        "cpu_s_per_100_mb": {who: round(each / megabytes * 100, 2) for who, each in used.items()},
        "peak_rss_mib": _resident_mib(pid, "VmHWM"),
    }


def _group(site: Site, broker: Broker, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Read what comes by a group, and tell what a record took of the proxy's processors, turn by turn."""
    broker.create_topic(_TOPIC, partitions=_PARTITIONS)
    with (
        site.proxy(broker.bootstrap_servers, options) as proxy,
        steadily(
            broker.bootstrap_servers,
            _TOPIC,
            _PARTITIONS,
            _ARRIVING_PER_S,
            record_bytes=options.record_bytes,
            linger_ms=_LINGER_MS,
            burst=options.burst,
        ) as written,
        Group((proxy.url,), _TOPIC, options.members, timed=True) as group,
    ):
        pid = proxy.process.pid
        for turn in range(_WARM_TURNS + options.repeat):
            used, before = _used_s(pid), written[0]
            group.took_ms.clear()
            time.sleep(_TURN_S)  # the turn itself: what is used while it lasts is measured
            used, records = _used_s(pid) - used, written[0] - before
            if not records or not group.reads(_PARTITIONS, _RECENT_S):
                yield {"turn": turn, "failed": "not every partition was read"}
            elif turn >= _WARM_TURNS:
                yield {
                    "turn": turn,
                    "records": records,
                    "cpu_us_a_record": round(used / records * 1e6, 1),
                    "delivery": percentiles(group.took_ms),
                }


def _memory(site: Site, broker: Broker, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Load fresh proxies a little and then fully; yield their resident memory, and rates at full speed."""
    broker.create_topic(_TOPIC, partitions=_PARTITIONS)
    for _ in range(options.repeat):
        with site.proxy(broker.bootstrap_servers, options) as proxy, Group((proxy.url,), _TOPIC, 2):
            pid = proxy.process.pid
            for load in _SMALL_LOADS:
                _at_rate(proxy.url, *load, options.record_bytes)
            found: dict[str, Any] = {"resident_mib": _resident_mib(pid)}
            for full in _FULL_LOADS:
                for _ in range(2):
                    reported = produce((proxy.url,), _TOPIC, full, options.record_bytes, _FULL_S)
                found[f"records_per_s_by_{full.records}"] = round(reported["records_per_s"])
            yield found | {"resident_at_full_speed_mib": _resident_mib(pid)}


def _idle(site: Site, broker: Broker, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Give two fresh proxies a group that has little to read; yield what each has resident then."""
    broker.create_topic(_TOPIC, partitions=_PARTITIONS)
    for _ in range(options.repeat):
        with (
            site.proxy(broker.bootstrap_servers, options) as one,
            site.proxy(broker.bootstrap_servers, options) as other,
            ThreadPoolExecutor(2) as senders,
        ):
            busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(options.busy)]
            urls = (one.url, other.url)
            sent = [senders.submit(_at_rate, url, *_IDLE_LOAD, options.record_bytes) for url in urls]
            with Group(urls, _TOPIC, _IDLE_CONSUMERS):
                for each in sent:
                    each.result()
                yield {"resident_mib": [_resident_mib(proxy.process.pid) for proxy in (one, other)]}
            for process in busy:
                process.wait()


def _at_rate(url: str, requests_per_s: int, records: int, seconds: float, record_bytes: int) -> None:
    """Send requests at a rate, each when it is due."""
    client = Client(url)
    body = {"records": [{"value": base64.b64encode(os.urandom(record_bytes)).decode()}] * records}
    began = time.monotonic()
    for number in range(int(requests_per_s * seconds)):
        time.sleep(max(0.0, began + number / requests_per_s - time.monotonic()))
        status, text = client.ask("POST", f"/topics/{_TOPIC}", body)
        if status != 200:
            raise RuntimeError(f"HTTP {status} {text[:200].decode(errors='replace')}")


def _cost(site: Site, broker: Broker, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield what requests took of the proxy's processors, and the costs that fit best."""
    broker.create_topic(_TOPIC, partitions=_PARTITIONS)
    asked = product(options.records or _COST_RECORDS, _COST_BYTES)
    cases = [(records, bytes_) for records, bytes_ in asked if records * bytes_ <= _COST_MOST]
    found: dict[tuple[int, int], list[float]] = {case: [] for case in cases}
    with site.proxy(broker.bootstrap_servers, options) as proxy:
        produce((proxy.url,), _TOPIC, Produce(100, clients=4), _COST_BYTES[0], _COST_WARM_S)
        for turn in range(options.repeat + 1):
            for records, bytes_ in cases:
                used, before = _used_s(proxy.process.pid), _written(broker)
                load = Produce(records, clients=4)
                reported = produce((proxy.url,), _TOPIC, load, bytes_, _COST_S)
                # All that was written counts, also what was answered after the time.
                requests = (_written(broker) - before) / records
                used = _used_s(proxy.process.pid) - used
                if turn:
                    found[records, bytes_].append(used / requests * 1e6)
                    yield {
                        "records": records,
                        "record_bytes": bytes_,
                        "requests": round(requests),
                        "records_per_s": round(reported["records_per_s"]),
                        "cpu_us_a_request": round(found[records, bytes_][-1], 1),
                    }
    if len({records for records, _ in cases}) > 1:  # else a request and its records are one
        yield {"fit": costs({case: statistics.median(each) for case, each in found.items()})}


def costs(cpu_us: Mapping[tuple[int, int], float]) -> dict[str, float]:
    """Return what a request, a record and a byte take, by records a request and bytes a record.

    The sum of the squares of the relative errors is the least. ``farthest`` is the largest ratio of what was
    measured and the sum, or the other way round.
    """
    sizes = [(1, records, records * bytes_) for records, bytes_ in cpu_us]
    took = np.array(list(cpu_us.values()))
    fit = np.linalg.lstsq(np.array(sizes) / took[:, None], np.ones(len(took)), rcond=None)[0]
    ratios = np.array(sizes) @ fit / took
    return {
        "request_us": round(float(fit[0]), 1),
        "record_us": round(float(fit[1]), 2),
        "byte_ns": round(float(fit[2]) * 1000, 2),
        "farthest": round(float(max(ratios.max(), 1 / ratios.min())), 2),
    }


def _written(broker: Broker) -> int:
    """Return how many records the topic has been given."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "ends"})
    try:
        places = (TopicPartition(_TOPIC, number) for number in range(_PARTITIONS))
        return sum(consumer.get_watermark_offsets(place, 30)[1] for place in places)
    finally:
        consumer.close()


def _outage(site: Site, broker: Broker, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Produce to a topic that is not there, then, warm, with the broker gone."""
    broker.create_topic(_TOPIC)
    with site.proxy(broker.bootstrap_servers, options) as proxy:
        client = Client(proxy.url)

        def asked(what: str, topic: str, records: int) -> dict[str, Any]:
            began = time.monotonic()
            status, text = client.ask("POST", f"/topics/{topic}", {"records": [{"value": "eA=="}] * records})
            took = round(time.monotonic() - began, 1)
            return {
                "what": what,
                "records": records,
                "seconds": took,
                "status": status,
                "said": text[:150].decode(),
            }

        yield asked("warm", _TOPIC, 1)
        yield asked("unknown topic", "no-such-topic", 1)
        yield asked("unknown topic", "no-such-topic", 3)
        yield asked("warm", _TOPIC, 1)
        os.kill(broker.pid, signal.SIGKILL)
        yield asked("broker gone", _TOPIC, 1)
        yield asked("broker gone", _TOPIC, 3)
        yield asked("broker gone", _TOPIC, 1)


def _stop(site: Site, broker: Broker, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Produce and read without a pause, some on kept connections, and stop the proxy."""
    broker.create_topic(_TOPIC, partitions=_PARTITIONS)
    for _ in range(options.repeat):
        with site.proxy(broker.bootstrap_servers, options) as proxy:
            seen: list[tuple[float, str]] = []
            over = threading.Event()
            threads = [
                *(threading.Thread(target=_go_on_producing, args=(proxy.url, seen, over)) for _ in range(8)),
                *(
                    threading.Thread(target=_go_on_reading, args=(proxy.url, f"g{n}", seen, over))
                    for n in range(4)
                ),
            ]
            for each in threads:
                each.start()
            time.sleep(_LOADED_S)
            seen.clear()
            began = time.monotonic()
            proxy.process.send_signal(signal.SIGTERM)
            while options.cut_after is not None and proxy.process.poll() is None:
                if time.monotonic() - began >= options.cut_after:
                    _cut(proxy.url)
                time.sleep(0.05)
            proxy.process.wait(90)
            ended = time.monotonic()
            over.set()
            for each in threads:
                each.join()
        answers = Counter(what for at, what in seen if at >= began)
        emptied = sorted(round(at - began, 2) for at, what in seen if "empty" in what)
        yield {"stopped_after_s": round(ended - began, 2), "answers": dict(answers), "empty_at_s": emptied}


def _cut(url: str) -> None:
    """Have the kernel end the connections to a port; both sides get a reset."""
    port = urlsplit(url).port
    subprocess.run(["ss", "-HK", "-t", "sport", "=", f":{port}"], check=True, stdout=subprocess.DEVNULL)


def _told(what: str, status: int, text: bytes) -> str:
    return f"{what} {status}{'' if text else ' empty'}"


def _go_on_producing(url: str, seen: list[tuple[float, str]], over: threading.Event) -> None:
    client = Client(url, 30)
    while not over.is_set():
        try:
            status, text = client.ask("POST", f"/topics/{_TOPIC}", {"records": [{"value": "eA=="}] * 10})
            seen.append((time.monotonic(), _told("produce", status, text)))
        except (OSError, http.client.HTTPException) as error:
            seen.append((time.monotonic(), f"produce {type(error).__name__}"))
            client = Client(url, 30)
            over.wait(0.2)


def _go_on_reading(url: str, group: str, seen: list[tuple[float, str]], over: threading.Event) -> None:
    client = Client(url, 30)
    _, text = client.ask("POST", f"/consumers/{group}", {"format": "binary", "auto.offset.reset": "latest"})
    base = f"/consumers/{group}/instances/{json.loads(text)['instance_id']}"
    client.ask("POST", f"{base}/subscription", {"topics": [_TOPIC]})
    while not over.is_set():
        try:
            status, text = client.ask("GET", f"{base}/records", accept=BINARY)
            seen.append((time.monotonic(), _told("read", status, text)))
        except (OSError, http.client.HTTPException) as error:
            seen.append((time.monotonic(), f"read {type(error).__name__}"))
            client = Client(url, 30)
            over.wait(0.2)


_PARTS: Final = {
    "reads": _reads,
    "group": _group,
    "memory": _memory,
    "idle": _idle,
    "outage": _outage,
    "stop": _stop,
    "cost": _cost,
}

if __name__ == "__main__":
    sys.exit(main())
