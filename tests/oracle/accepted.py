"""What components accept: ranges of their keys, and values that they refuse beside another one.

From Kafka's documentation of brokers, topics and clients, kafka-rest's and rest-utils' of their configuration, and
Linux's of sysctl. Nothing here is imported from the planner.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.oracle.reading import Plan, Settings, value

INT, LONG = 2**31 - 1, 2**63 - 1
#: Kafka documentation: the largest value of a key, by its end; a key that ends so and is not here takes a long.
ACCEPTED: Mapping[str, tuple[float, float]] = {
    "batch.size": (0, INT),
    "max.request.size": (0, INT),
    "request.timeout.ms": (0, INT),
    "delivery.timeout.ms": (0, INT),
    "session.timeout.ms": (6_000, 1_800_000),  # group.min and group.max.session.timeout.ms of brokers
    "heartbeat.interval.ms": (1, INT),
    "fetch.max.bytes": (0, INT),
    "fetch.max.wait.ms": (0, INT),
    "max.partition.fetch.bytes": (0, INT),
    "max.poll.records": (1, INT),
    "send.buffer.bytes": (-1, INT),
    "receive.buffer.bytes": (-1, INT),
    "max.block.ms": (0, LONG),
    "linger.ms": (0, LONG),
    "buffer.memory": (0, LONG),
    "commit.interval.ms": (0, LONG),
    "tasks.max": (1, INT),
    "num.stream.threads": (1, INT),
    "replication.factor": (1, 32_767),
    "partitions": (1, INT),
    "consumer.threads": (-1, INT),
    "consumer.request.max.bytes": (0, LONG),
    "consumer.request.timeout.ms": (0, INT),
    "consumer.instance.timeout.ms": (-1, INT),
    "thread.pool.max": (1, INT),
    "thread.pool.min": (1, INT),
    "request.queue.capacity": (128, INT),
    "server.connection.limit": (0, INT),
    "idle.timeout.ms": (0, LONG),
    # Linux: these are ints; systemd raises fs.nr_open, the most that a process may open, to 1073741816 at boot.
    "net.core.rmem_max": (2_304, INT),
    "net.core.wmem_max": (4_608, INT),
    "net.core.somaxconn": (0, INT),
    "vm.max_map_count": (0, INT),
    "LimitNOFILE": (1, 1_073_741_816),
    "TasksMax": (1, 2**22),  # pid_max of a 64-bit kernel
}
KERNEL_TRIPLES = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")


class Refused(NamedTuple):
    """A planned value that its component would refuse."""

    where: str
    key: str
    value: str
    why: str


def refused(plan: Plan) -> Iterator[Refused]:
    """Yield the values of a plan that its components would refuse to start with; none of a plan with errors."""
    for host, of_host in plan["hosts"].items():
        java = of_host["services"].get("java", {"instances": []})["instances"]
        release = next((s["value"] for i in java for s in i["settings"] if s["key"] == "release"), "17")
        for service, of_service in of_host["services"].items():
            for each in of_service["instances"]:
                where = f"{host} {service}@{each['name']}"
                settings = {s["key"]: s for s in each["settings"]}
                yield from _out_of_range(where, settings)
                yield from _at_odds(where, settings)
                yield from _old_java(where, settings, release)
    for topics in plan["topics"].values():
        for name, topic in topics.items():
            yield from _out_of_range(f"topic {name}", {s["key"]: s for s in topic["settings"]})
    for name, client in plan["clients"].items():
        settings = {s["key"]: s for s in client["settings"]}
        if not any(k.startswith("queue.buffering") for k in settings):
            yield from _at_odds(f"client {name}", settings)


def accepts(key: str) -> tuple[float, float] | None:
    """Return the least and the largest value that a key takes; None where nothing is known of it."""
    ends = [end for end in ACCEPTED if key == end or key.endswith(f".{end}")]
    return ACCEPTED[max(ends, key=len)] if ends else None


def _out_of_range(where: str, settings: Settings) -> Iterator[Refused]:
    for key, setting in settings.items():
        written = setting["value"]
        parts = written.split() if key in KERNEL_TRIPLES else [written]
        low, high = (0, INT) if key in KERNEL_TRIPLES else accepts(key) or (-math.inf, math.inf)
        for part in parts:
            if re.fullmatch(r"-?\d+", part) and not low <= int(part) <= high:
                yield Refused(where, key, written, f"takes {low:.0f} to {high:.0f}")


def _at_odds(where: str, settings: Settings) -> Iterator[Refused]:
    """Yield values that a client refuses beside another one."""
    for end in [k for k in settings if k.endswith("delivery.timeout.ms")]:
        prefix = end.removesuffix("delivery.timeout.ms")
        linger = value(settings, f"{prefix}linger.ms", 0)
        request = value(settings, f"{prefix}request.timeout.ms", 30_000)
        if float(settings[end]["value"]) < linger + request:
            yield Refused(
                where,
                end,
                settings[end]["value"],
                f"is below linger.ms + request.timeout.ms, {linger + request:.0f}",
            )
    for end in [k for k in settings if k.endswith("heartbeat.interval.ms") and not k.startswith("group.")]:
        session = value(settings, end.replace("heartbeat.interval", "session.timeout"), 45_000)
        if float(settings[end]["value"]) >= session:
            yield Refused(
                where, end, settings[end]["value"], f"is not below session.timeout.ms, {session:.0f}"
            )
    flags = " ".join(s["value"] for k, s in settings.items() if k.endswith("_OPTS"))
    low, high = re.search(r"-Xms(\d+)m", flags), re.search(r"-Xmx(\d+)m", flags)
    if low and high and int(low[1]) > int(high[1]):
        yield Refused(where, "-Xms", low[1], f"is above -Xmx, {high[1]}")
    least, most = value(settings, "thread.pool.min", 0), value(settings, "thread.pool.max", math.inf)
    if least > most:
        yield Refused(where, "thread.pool.min", f"{least:.0f}", f"is above thread.pool.max, {most:.0f}")


def _old_java(where: str, settings: Settings, release: str) -> Iterator[Refused]:
    """Yield flags that the host's Java does not know: unified logging came with 9 (JEP 158)."""
    for key, setting in settings.items():
        if key.endswith("_OPTS") and "-Xlog:" in setting["value"] and int(release) < 9:
            yield Refused(where, "-Xlog", release, "is no flag of Java 8")
