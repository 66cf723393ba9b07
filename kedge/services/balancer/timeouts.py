"""HAProxy's timeouts: how long a request may take, and so how long reloads and stops wait for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from kedge.plan.plan import PlannedInstance
from kedge.plan.service import PlannedInstances
from kedge.plan.settings import Basis, Choice, Sheet
from kedge.plan.values import int_or_none
from kedge.services.balancer.health_checks import FALL
from kedge.services.balancer.security import FILE, UNIT
from kedge.services.rest.distribution import SERVICE as REST

OBSERVED: Final = "REST proxy facts, Observed on running proxies"
_MANUAL: Final = "HAProxy 2.6 configuration manual"
_FACTS: Final = "REST proxy facts, Consumer instances behind HAProxy"
_CLIENT_S: Final = 60
_CHECK_S: Final = 5
#: How long a record may wait for metadata, and then for its delivery: defaults of the Java client.
_PRODUCE_MS: Final = {"producer.max.block.ms": 60_000, "producer.delivery.timeout.ms": 120_000}
_PRODUCE_MARGIN_S: Final = 30
_STOP_MORE_S: Final = 5
#: What does not follow from the inventory: key, value, reason, source, basis.
_FIXED: Final[tuple[tuple[str, str, str, str, Basis], ...]] = (
    (
        "timeout connect",
        "5s",
        "a little above the 3 s after which a lost packet of a new connection is sent again",
        f"{_MANUAL}, timeout connect",
        "documented",
    ),
    (
        "timeout check",
        f"{_CHECK_S}s",
        f"a produce request during a change of leader may take seconds; {FALL} checks that hang mark an "
        f"instance down after {FALL * _CHECK_S} s, refused connections sooner",
        f"{_MANUAL}, timeout check",
        "estimate",
    ),
    (
        "tcp-response inspect-delay",
        "1s",
        "how long the body of an answer that makes a consumer is waited for; its head and body come together",
        _FACTS,
        "estimate",
    ),
)


def put_timeouts(sheet: Sheet, instances: Sequence[PlannedInstance]) -> None:
    """Plan how long a request, a connection and a check may take, and how long a stop lets requests end."""
    produce, polls = _longest_produce_s(instances), longest_poll_ms(instances)
    longest = longest_request_s(instances)
    sheet.put(
        FILE,
        "timeout server",
        "balancer.timeouts",
        Choice(
            f"{longest}s",
            f"a record may take {produce} s where no broker answers, a read {polls} ms: the balancer must "
            "not give up before the proxy does",
            OBSERVED,
            "estimate",
        ),
    )
    because = f"an old process of HAProxy lets requests end for as long as one may take, {longest} s"
    sheet.put(
        FILE, "hard-stop-after", "balancer.timeouts", Choice(f"{longest}s", because, OBSERVED, "derived")
    )
    because = f"a stop lets requests end, for {longest} s at most; systemd waits as long and a little more"
    sheet.put(
        UNIT,
        "TimeoutStopSec",
        "rollout.stop",
        Choice(longest + _STOP_MORE_S, because, OBSERVED, "estimate"),
    )
    idle = f"an estimate: a client's connection without a request is kept for {_CLIENT_S} s"
    for key in ("timeout client", "timeout http-keep-alive"):
        sheet.put(
            FILE, key, "balancer.timeouts", Choice(f"{_CLIENT_S}s", idle, f"{_MANUAL}, {key}", "estimate")
        )
    for key, value, because, source, basis in _FIXED:
        sheet.put(FILE, key, "balancer.fixed", Choice(value, because, source, basis))


def proxies_of(services: PlannedInstances) -> list[PlannedInstance]:
    """Return the planned proxies of all hosts."""
    return [i for of_host in services.values() for i in of_host.get(REST, ())]


def longest_request_s(instances: Sequence[PlannedInstance]) -> int:
    """Return for how long a request may be answered before the balancer gives it up, in whole seconds."""
    produce, polls = _longest_produce_s(instances), longest_poll_ms(instances)
    return max(_CLIENT_S, produce + _PRODUCE_MARGIN_S, 2 * polls // 1000)


def longest_poll_ms(instances: Iterable[PlannedInstance]) -> int:
    """Return for how long a read may wait for records, in milliseconds."""
    return max((int_or_none(i.value("consumer.request.timeout.ms")) or 0 for i in instances), default=0)


def _longest_produce_s(instances: Iterable[PlannedInstance]) -> int:
    """Return for how long a record may wait for its metadata and for its delivery, in whole seconds."""

    def wait_ms(instance: PlannedInstance) -> int:
        return sum(
            int_or_none(instance.value(key)) or int_or_none(instance.value(f"kafka.{key}")) or default
            for key, default in _PRODUCE_MS.items()
        )

    return math.ceil(max(map(wait_ms, instances), default=0) / 1000)
