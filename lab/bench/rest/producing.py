"""What might make producing through kafka-rest quicker, each compared with what the plan leaves as it is.

    python -m lab.bench.rest.producing ARCHIVE balancer|producer|far|instances [--blocks N] [--seconds S]

balancer: how HAProxy keeps its connections to the proxy: HTTP/1.1 and ``http-reuse safe``, its defaults,
against connections that are always reused and HTTP/2. producer: linger, batches and compression of the
proxy's producer, against its defaults. far: the same with a round trip of ``--round-trip-ms`` to the
broker. instances: one process against two and four.

Proxies from their archive with a heap that grows, one broker, records of metrics, all on loopback. All
variants run side by side, warm, and take turns at each load. Prints a row for each figure that is judged, as
compare.yml does. Exit 0; 1 where a variant collapsed, 2 where something is missing or a proxy
refuses a request while it warms up.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from kedge.plan.jvm_flags import growing_heap
from kedge.setup.packages import find
from kedge.trials.table import from_json, row
from lab.bench.mirror.workloads import metrics
from lab.bench.rest.cases import Produce
from lab.bench.rest.drive import ProxyRefusedError, produce
from lab.bench.turns import Measured, TurnError, steady, take_turns
from lab.fleet import toxiproxy
from lab.services.brokers import Broker, end_process, kafka_jars, running_broker
from lab.services.rest_proxies import RunningProxy, await_answer, running_proxy, unpack
from lab.services.serving import free_ports

#: The addresses of a variant's proxies, or of the balancer before them. The first variant is compared with.
Variants = Mapping[str, tuple[str, ...]]
#: Of the backend, and of its server.
_BALANCERS: Final = {
    "defaults": ("http-reuse safe", ""),
    "always": ("http-reuse always", ""),
    "http2": ("http-reuse safe", "proto h2"),
}
_PRODUCERS: Final[Mapping[str, Mapping[str, str]]] = {
    "defaults": {},
    "linger_0": {"producer.linger.ms": "0"},
    "linger_20": {"producer.linger.ms": "20"},
    "batch_128k": {"producer.batch.size": "131072"},
    "lz4": {"producer.compression.type": "lz4"},
    "both": {"producer.batch.size": "131072", "producer.compression.type": "lz4"},
}
_PROCESSES: Final = {"one": 1, "two": 2, "four": 4}
#: Processes of clients; drive.produce has as many for four addresses.
_CLIENTS: Final = 4
_LOADS: Final = {
    "by_1": Produce(1, clients=32),
    "by_100": Produce(100, clients=32),
    "opened": Produce(10, clients=32, session=False),
}
_TOPIC: Final = "measured"
#: Metrics of about 100 bytes. Each request has the same first ones, so it compresses better than real ones.
_VALUES: Final = tuple(value for _, value in metrics(100))
_WARM_S: Final = 10.0
_HAPROXY: Final = """\
global
    maxconn 2000
defaults
    mode http
    option http-keep-alive
    timeout client 60s
    timeout http-keep-alive 60s
    timeout connect 5s
    timeout server 60s
frontend rest
    bind 127.0.0.1:{port}
    default_backend rest
backend rest
    balance leastconn
    option redispatch 1
    retry-on conn-failure
    {reuse}
    server proxy {proxy} {options}
"""


@dataclass(frozen=True)
class Site:
    """Where variants run: the unpacked proxy, a folder, and the broker with its far listeners."""

    home: Path
    folder: Path
    broker: Broker
    far: tuple[int, int]
    round_trip_ms: float


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 2 where something that it needs is not there."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.rest.producing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("archive", type=Path)
    parser.add_argument("part", choices=list(_PARTS))
    parser.add_argument("--blocks", type=int, default=4, help="each variant there and back (default 4)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each load in a turn (default 6)")
    parser.add_argument(
        "--round-trip-ms", type=float, default=60.0, help="of far, to the broker (default 60)"
    )
    options = parser.parse_args(arguments)
    jars = kafka_jars()
    if jars is None:
        _say("lab.bench.rest.producing: the jars of a broker are not cached: make bench")
        return 2
    if missing := _missing(options.part):
        _say(f"lab.bench.rest.producing: {missing}")
        return 2
    running, loads = _PARTS[options.part]
    with tempfile.TemporaryDirectory(prefix="kedge-bench-producing-") as name, ExitStack() as stack:
        listens, advertises = free_ports(2)
        far = (listens, advertises)
        broker = stack.enter_context(running_broker(jars, 768, far=far))
        broker.create_topic(_TOPIC, partitions=12)
        home = unpack(options.archive, Path(name) / "software")
        if not (home / "bin" / "kafka-rest-start").exists():
            _say(f"lab.bench.rest.producing: {options.archive} is not of kafka-rest")
            return 2
        variants = stack.enter_context(running(Site(home, Path(name), broker, far, options.round_trip_ms)))

        def sent(variant: str, load: str, seconds: float) -> dict[str, float]:
            urls = variants[variant] * (_CLIENTS // len(variants[variant]))
            return produce(urls, _TOPIC, _LOADS[load], 0, seconds, _VALUES)

        def rate(variant: str, load: str) -> float:
            # The first requests of processes that started together take seconds.
            return sent(variant, load, max(_WARM_S, options.seconds))["records_per_s"]

        def turn(variant: str) -> Measured:
            try:
                found = {load: sent(variant, load, options.seconds) for load in loads}
            except ProxyRefusedError as error:
                raise TurnError(str(error)) from error
            rates = {load: {"mean_records_per_s": one["records_per_s"]} for load, one in found.items()}
            return {
                "throughput": rates,
                "latency": {load: {"ack_p99_ms": one["p99_ms"]} for load, one in found.items()},
            }

        try:
            for variant, load in product(variants, loads):
                _say(f"warming up: {variant}, {load}")
                steady(partial(rate, variant, load))
        except ProxyRefusedError as error:
            _say(f"lab.bench.rest.producing: {error}")
            return 2
        report = take_turns(tuple(variants), options.blocks, turn, _say)
    for variant, figures in report["figures"].items():
        for one in map(from_json, figures):
            if one.chance is not None:
                print(f"{variant:12} {'; '.join(row(one))}")
    for variant, times in report["collapsed"].items():
        if times:
            print(f"{variant:12} collapsed in {times} turns")
    return 1 if any(report["collapsed"].values()) else 0


def _missing(part: str) -> str:
    """Return which program a part needs and this machine has not."""
    if part == "balancer" and find("haproxy") is None:
        return "HAProxy is missing: make bench"
    return toxiproxy.PROGRAM.obstacle() if part == "far" else ""


@contextmanager
def _of_balancer(site: Site) -> Iterator[Variants]:
    program = str(find("haproxy"))
    with ExitStack() as stack:
        proxy = stack.enter_context(_proxy(site, "proxy", {}))
        yield {
            name: (stack.enter_context(balancer(program, site.folder / name, proxy, *how)),)
            for name, how in _BALANCERS.items()
        }


@contextmanager
def _of_producer(site: Site) -> Iterator[Variants]:
    with ExitStack() as stack:
        yield {name: (stack.enter_context(_proxy(site, name, own)),) for name, own in _PRODUCERS.items()}


@contextmanager
def _of_far(site: Site) -> Iterator[Variants]:
    listens, advertised = site.far
    (api,) = free_ports(1)
    way = toxiproxy.Way(f"127.0.0.1:{advertised}", f"127.0.0.1:{listens}")
    with toxiproxy.running([way], site.round_trip_ms, api), ExitStack() as stack:
        brokers = {"bootstrap.servers": way.listen}
        yield {
            name: (stack.enter_context(_proxy(site, name, brokers | dict(own))),)
            for name, own in _PRODUCERS.items()
        }


@contextmanager
def _of_instances(site: Site) -> Iterator[Variants]:
    with ExitStack() as stack:
        yield {
            name: tuple(stack.enter_context(_proxy(site, f"{name}-{n}", {})) for n in range(count))
            for name, count in _PROCESSES.items()
        }


_PARTS: Final[Mapping[str, tuple[Callable[[Site], AbstractContextManager[Variants]], tuple[str, ...]]]] = {
    "balancer": (_of_balancer, ("by_100", "opened")),
    "producer": (_of_producer, ("by_100",)),
    "far": (_of_far, ("by_100",)),
    "instances": (_of_instances, ("by_1", "by_100")),
}


@contextmanager
def _proxy(site: Site, name: str, own: Mapping[str, str]) -> Iterator[str]:
    settings = {"bootstrap.servers": site.broker.bootstrap_servers, "id": name} | dict(own)
    heap = {"KAFKAREST_HEAP_OPTS": growing_heap(1024, slowly=True)}
    with running_proxy(site.home, site.folder / name, settings, heap) as proxy:
        yield proxy.url


@contextmanager
def balancer(program: str, folder: Path, proxy: str, reuse: str, options: str) -> Iterator[str]:
    """Run HAProxy in front of a proxy until the block ends; yield its address once it answers."""
    folder.mkdir()
    (port,) = free_ports(1)
    file, log, url = folder / "haproxy.cfg", folder / "log", f"http://127.0.0.1:{port}"
    place = proxy.removeprefix("http://")
    file.write_text(_HAPROXY.format(port=port, reuse=reuse, proxy=place, options=options), encoding="utf-8")
    with log.open("wb") as output:
        process = subprocess.Popen([program, "-db", "-f", str(file)], stdout=output, stderr=output)
    try:
        await_answer(RunningProxy(url, process, log))
        yield url
    finally:
        end_process(process)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
