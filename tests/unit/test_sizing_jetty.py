"""The server inside the proxy: threads, queue, time-outs and limits from concurrency and cores."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.services.planning import make_plan
from tests.rest_inventories import of_rule, planned, rest

BUSY = {"consumers": 600, "concurrent_requests": 400, "records_per_s": 50_000, "connections": 900}


def test_threads_hold_requests_long_polls_and_jettys_own() -> None:
    inventory = rest(1, BUSY, instances_per_host=2)
    # 200 requests, 300 long polls, 2 acceptors and 8 selectors on 16 cores.
    assert planned(inventory, "thread.pool.max") == "510"
    assert planned(inventory, "thread.pool.min") == "32"
    assert planned(rest(1), "thread.pool.max") == "200"


def test_the_queue_holds_what_clients_still_wait_for() -> None:
    # 500 requests/s over two instances, for 30 s.
    assert planned(rest(1, BUSY, instances_per_host=2), "request.queue.capacity") == "7500"
    assert planned(rest(1), "request.queue.capacity") == "1000"


def test_connections_are_limited_to_twice_those_of_the_host_where_they_are_known() -> None:
    assert planned(rest(1, BUSY), "server.connection.limit") == "1800"
    assert planned(rest(1), "server.connection.limit") == ""


def test_an_idle_connection_outlives_a_long_poll() -> None:
    assert planned(rest(1, {"delivery_latency_ms": 60_000}), "idle.timeout.ms") == "120000"
    assert planned(rest(1), "idle.timeout.ms") == "30000"


@pytest.mark.parametrize(
    ("settings", "severity", "rule"),
    [
        ({"thread.pool.max": 4, "thread.pool.min": 4}, "error", "jetty.threads"),
        ({"thread.pool.max": 100, "thread.pool.min": 101}, "error", "jetty.threads"),
        ({"thread.pool.max": 300}, "warning", "jetty.threads"),
        ({"request.queue.capacity": 100}, "error", "jetty.queue"),
    ],
)
def test_own_values_that_the_server_cannot_work_with_are_found(
    settings: dict[str, Any], severity: str, rule: str
) -> None:
    assert of_rule(make_plan(rest(1, BUSY, settings=settings, instances_per_host=2)), rule, severity)


def test_a_short_idle_time_is_no_error() -> None:
    # Jetty 9.4 and 12 close no connection of HTTP/1.1 while its request is being answered.
    assert not of_rule(make_plan(rest(1, settings={"idle.timeout.ms": 900})), "jetty.idle", "error")


def test_compression_and_http2_are_planned_and_a_persons_value_wins() -> None:
    assert planned(rest(1), "compression.enable") == "true"
    assert planned(rest(1), "http2.enabled") == "true"
    assert planned(rest(1, settings={"compression.enable": False}), "compression.enable") == "false"
