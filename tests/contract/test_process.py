from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from lab.services.brokers import Broker
from lab.services.rest_proxies import RunningProxy, launch, running_proxy
from tests.awaiting import await_that
from tests.contract.rest_client import BINARY, Consumer, b64, offsets, produce

LINGER_MS = "1500"

Start = Callable[[dict[str, str]], AbstractContextManager[RunningProxy]]


def await_group(broker: Broker, group: str, state: ConsumerGroupState, limit_s: float) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    await_that(
        lambda: admin.describe_consumer_groups([group])[group].result(timeout=10).state == state,
        f"the group is {state.name}",
        limit_s,
    )


class InFlight:
    """A request that is being served: sent whole, and followed by one that was answered."""

    def __init__(self, proxy: RunningProxy, method: str, url: str, **request: Any) -> None:
        self.answer: httpx.Response | None = None
        self.failure: httpx.TransportError | None = None
        sent = threading.Event()

        def trace(name: str, _: dict[str, Any]) -> None:
            if name == "http11.receive_response_headers.started":
                sent.set()

        def run() -> None:
            try:
                with httpx.Client(timeout=30) as rest:
                    self.answer = rest.request(method, url, extensions={"trace": trace}, **request)
            except httpx.TransportError as failure:
                self.failure = failure

        self.thread = threading.Thread(target=run)
        self.thread.start()
        assert sent.wait(10)
        httpx.get(proxy.url)

    def finish(self) -> None:
        self.thread.join(30)
        assert not self.thread.is_alive()


def slow_produce(proxy: RunningProxy) -> InFlight:
    """Produce to a proxy whose producer lingers."""
    return InFlight(
        proxy,
        "POST",
        f"{proxy.url}/topics/contract.topic",
        json={"records": [{"value": b64(b"x")}]},
        headers={"Content-Type": BINARY},
    )


def warm(proxy: RunningProxy) -> None:
    """Let the producer exist and know the topic, so that only its linger takes time."""
    with httpx.Client(base_url=proxy.url, timeout=30) as rest:
        offsets(produce(rest, "contract.topic", [{"value": "eA=="}]))


def takes_connections(proxy: RunningProxy) -> bool:
    try:
        httpx.get(proxy.url, timeout=5)
    except httpx.ConnectError:
        return False
    except httpx.TransportError:
        return True
    return True


def test_process_is_java_with_the_variables_of_the_start_script(
    sandbox_home: Path, broker: Broker, tmp_path: Path
) -> None:
    environment = {
        "KAFKAREST_HEAP_OPTS": "-Xms64m -Xmx128m",
        "KAFKAREST_JVM_PERFORMANCE_OPTS": "-XX:+UseG1GC -XX:MaxGCPauseMillis=30",
        "KAFKAREST_OPTS": "-Done=1",
    }
    properties = {"bootstrap.servers": broker.bootstrap_servers}
    with running_proxy(sandbox_home, tmp_path, properties, environment) as proxy:
        command = Path(f"/proc/{proxy.process.pid}/cmdline").read_text().split("\0")
        assert Path(command[0]).name == "java"
        assert command[1:5] == ["-Xms64m", "-Xmx128m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=30"]
        assert command.index("-cp") < command.index("-Done=1")
        assert (tmp_path / "logs" / "kafka-rest.log").stat().st_size > 0
        listening = subprocess.run(
            ["ss", "-Hltnp"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        mine = [line.split() for line in listening if f"pid={proxy.process.pid}," in line]
        assert [line[2] for line in mine] == ["50"], "one listener, with the backlog of the real proxy"


def test_another_backlog_is_a_trait_that_is_switched(own_proxy: Start) -> None:
    with own_proxy({"sandbox.backlog": "7"}) as proxy:
        lines = subprocess.run(
            ["ss", "-Hltnp"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert [x.split()[2] for x in lines if f"pid={proxy.process.pid}," in x] == ["7"]


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"bootstrap.servers": ""}, "bootstrap.servers is blank"),
        ({"bootstrap.servers": "b:1", "consumer.threads": "many"}, "consumer.threads=many"),
        ({"bootstrap.servers": "b:1", "listeners": "ftp://127.0.0.1:1"}, "listeners="),
    ],
)
def test_unusable_file_ends_the_start_with_one_line(
    sandbox_home: Path, tmp_path: Path, properties: dict[str, str], complaint: str
) -> None:
    proxy = launch(sandbox_home, tmp_path, properties)
    assert proxy.process.wait(30) == 1
    lines = proxy.log.read_text().splitlines()
    assert len(lines) == 1
    assert complaint in lines[0]


def test_taken_port_ends_the_start(own_proxy: Start, sandbox_home: Path, tmp_path: Path) -> None:
    with own_proxy({}) as first:
        properties = {"bootstrap.servers": "b:1", "listeners": first.url}
        second = launch(sandbox_home, tmp_path / "second", properties)
        assert second.process.wait(30) == 1
        assert "Address already in use" in second.log.read_text().splitlines()[-1]


def test_unknown_keys_are_warned_of_once(own_proxy: Start) -> None:
    with own_proxy({"consumer.treads": "5", "tread.pool.max": "5"}) as proxy:
        warnings = [line for line in proxy.log.read_text().splitlines() if "unknown keys" in line]
        assert len(warnings) == 1
        assert "consumer.treads, tread.pool.max" in warnings[0]


def test_produce_without_a_broker_is_200_with_the_error_inside(sandbox_home: Path, tmp_path: Path) -> None:
    properties = {"bootstrap.servers": "127.0.0.1:1", "producer.max.block.ms": "500"}
    with running_proxy(sandbox_home, tmp_path, properties) as proxy:
        assert httpx.get(proxy.url).status_code == 200
        with httpx.Client(base_url=proxy.url, timeout=30) as rest:
            answer = produce(rest, "t", [{"value": "eA=="}] * 100)
    assert answer.status_code == 200
    assert [each["error_code"] for each in answer.json()["offsets"]] == [50003] * 100


def test_idle_instance_expires_and_leaves_its_group(own_proxy: Start, broker: Broker, group: str) -> None:
    with (
        own_proxy({"consumer.instance.timeout.ms": "1500"}) as proxy,
        httpx.Client(base_url=proxy.url) as rest,
    ):
        reader = Consumer(rest, group)
        reader.subscribe("contract.topic")
        reader.read_until(lambda _: bool(reader.assignment()))
        await_group(broker, group, ConsumerGroupState.EMPTY, limit_s=10)
        assert reader.get_records().json()["error_code"] == 40403


@pytest.mark.parametrize(("polled", "next_read"), [("false", 2), ("true", 5)])
def test_commit_covers_what_was_returned_or_with_the_trait_what_was_fetched(
    own_proxy: Start, broker: Broker, group: str, polled: str, next_read: int
) -> None:
    topic = f"commit-{group}"
    broker.create_topic(topic)
    with (
        own_proxy({"sandbox.commit.polled": polled, "fetch.min.bytes": "1"}) as proxy,
        httpx.Client(base_url=proxy.url) as rest,
    ):
        offsets(produce(rest, topic, [{"value": b64(bytes(1000))}] * 5))
        first = Consumer(rest, group)
        first.subscribe(topic)
        got = first.read_until(bool, max_bytes=2500)
        assert [each["offset"] for each in got] == [0, 1]
        first.commit()
        first.delete()
        offsets(produce(rest, topic, [{"value": "eA=="}]))
        second = Consumer(rest, group)
        second.subscribe(topic)
        assert second.read_until(bool)[0]["offset"] == next_read
        second.delete()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_stop_leaves_the_groups(own_proxy: Start, broker: Broker, group: str, protocol: str) -> None:
    with own_proxy({"consumer.group.protocol": protocol}) as proxy:
        with httpx.Client(base_url=proxy.url) as rest:
            reader = Consumer(rest, group)
            reader.subscribe("contract.topic")
            reader.read_until(lambda _: bool(reader.assignment()))
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(10) == 143
        await_group(broker, group, ConsumerGroupState.EMPTY, limit_s=3)


def test_sigterm_lets_requests_in_flight_finish(own_proxy: Start) -> None:
    with own_proxy({"producer.linger.ms": LINGER_MS}) as proxy:
        warm(proxy)
        request = slow_produce(proxy)
        proxy.process.send_signal(signal.SIGTERM)
        assert takes_connections(proxy)
        request.finish()
        assert proxy.process.wait(10) == 143
        assert request.answer is not None, request.failure
        assert len(offsets(request.answer)) == 1
        assert not takes_connections(proxy)


def test_long_poll_in_flight_is_answered_on_sigterm(own_proxy: Start, group: str) -> None:
    with own_proxy({"consumer.request.timeout.ms": "20000"}) as proxy:
        with httpx.Client(base_url=proxy.url) as rest:
            reader = Consumer(rest, group)
        reader.subscribe("contract.topic")
        reader.read_until(lambda _: bool(reader.assignment()), timeout=500)
        polling = InFlight(
            proxy, "GET", f"{reader.base_uri}/records?timeout=20000", headers={"Accept": BINARY}
        )
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(10) == 143
        polling.finish()
        assert polling.answer is not None, polling.failure
        assert polling.answer.status_code == 200


def test_requests_in_flight_get_200_without_a_body_where_that_trait_is_on(
    own_proxy: Start, group: str
) -> None:
    """Kept connections are served until the time for a stop is over: neither answer is an acknowledgement."""
    properties = {
        "sandbox.sigterm": "empty",
        "shutdown.graceful.ms": "500",
        "producer.linger.ms": "5000",
        "consumer.request.timeout.ms": "20000",
    }
    with own_proxy(properties) as proxy:
        with httpx.Client(base_url=proxy.url) as rest:
            reader = Consumer(rest, group)
        reader.subscribe("contract.topic")
        reader.read_until(lambda _: bool(reader.assignment()), timeout=500)
        warm(proxy)
        path = f"{reader.base_uri}/records?timeout=20000"
        requests = [slow_produce(proxy), InFlight(proxy, "GET", path, headers={"Accept": BINARY})]
        proxy.process.send_signal(signal.SIGTERM)
        for each in requests:
            each.finish()
            assert each.answer is not None, each.failure
            assert (each.answer.status_code, each.answer.content) == (200, b"")
        assert proxy.process.wait(20) == 143


def test_listener_is_gone_at_once_where_that_trait_is_on(own_proxy: Start) -> None:
    properties = {"sandbox.sigterm": "close", "producer.linger.ms": LINGER_MS}
    with own_proxy(properties) as proxy:
        warm(proxy)
        request = slow_produce(proxy)
        proxy.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 1
        while takes_connections(proxy):
            assert time.monotonic() < deadline
        assert proxy.process.poll() is None
        request.finish()
        assert request.answer is not None, request.failure
        assert proxy.process.wait(10) == 143


def test_requests_in_flight_are_dropped_where_that_trait_is_on(own_proxy: Start) -> None:
    with own_proxy({"sandbox.sigterm": "drop", "producer.linger.ms": LINGER_MS}) as proxy:
        warm(proxy)
        request = slow_produce(proxy)
        proxy.process.send_signal(signal.SIGTERM)
        request.finish()
        assert request.answer is None
        assert proxy.process.wait(10) == 143
