"""What a sum is, when it holds, and the numbers of the documents and measurements that sums are made of."""

from __future__ import annotations

from typing import NamedTuple

from tests.oracle.reading import Plan, Settings, value

MIB, GIB = 1024**2, 1024**3
MBIT = 1_000_000 / 8
DAY_MS = 86_400_000
ORDER = {"note": 0, "warning": 1, "error": 2}

#: Kafka documentation: defaults that count where a plan leaves a key out.
FETCH_MAX, PARTITION_FETCH, PRODUCER_BUFFER, REQUEST_SIZE = 50 * MIB, MIB, 32 * MIB, MIB
MESSAGE_MAX, SEGMENT, SEGMENT_MS, RETENTION_MS = 1_048_588, GIB, 7 * DAY_MS, 7 * DAY_MS
#: guide: consumer.request.max.bytes.
READ_MAX = 64 * MIB
#: measured, real proxies, warm: what a request, a record and a byte take of a core, in seconds; of the bridge.
COST, COST_OF_BRIDGE = (400e-6, 5.4e-6, 6.4e-9), (1060e-6, 17e-6, 15e-9)
#: measured, REST proxy: a reader of 100 records/s takes this share of a core, with fetch.min.bytes=1 and without.
READ, READER_AT_ONCE, READER = 100, 0.23, 0.07
#: measured, REST proxy: live heap and memory outside it of no instance; of an idle one; answers are three times
#: consumer.request.max.bytes.
PROXY_LIVE, PROXY_OUTSIDE, IDLE_LIVE, IDLE_OUTSIDE, ANSWER = 22, 220, 0.3, 0.2, 3
#: measured, MirrorMaker: 435,224 records/s of 104.8 bytes on two cores, in bytes/s a core.
MIRRORED = 22.8e6
#: measured, Streams: descriptors a database; memtables of 1 MiB a writing database starved.
DESCRIPTORS, STARVED_MIB = 7.4, 1
#: Restoring where nobody measured it: what the plan assumes, and says so.
RESTORE_MB_PER_S = 20
#: throughput: leaders on a broker (2 to 4000), partitions in a cluster (low tens of thousands), handles seen.
LEADERS, LEADERS_MOST, PARTITIONS_MOST, HANDLES_SEEN = 2_000, 4_000, 30_000, 30_000
#: Kafka documentation, Hardware and OS: descriptors of a broker.
BROKER_FILES = 100_000


class Sum(NamedTuple):
    """What a workload takes beside what there is of it.

    ``enough`` is the least severity of a finding that makes the plan right where it takes more; below an error
    one of ``rules`` has to report it.
    """

    limit: str
    where: str
    needs: float
    has: float
    said: str
    enough: str = "error"
    rules: tuple[str, ...] = ()


def over(each: Sum) -> bool:
    """Return whether a workload takes more than there is, beyond the last bits of a float."""
    return each.needs > each.has * (1 + 1e-9)


def reported(each: Sum, plan: Plan) -> bool:
    """Return whether the plan refuses the inventory, or one of the rules finds what the sum does."""
    return any(
        f["severity"] == "error"
        or (ORDER[f["severity"]] >= ORDER[each.enough] and f["rule"].startswith(each.rules or "-"))
        for f in plan["findings"]
    )


def fetched_mib(brokers: int | None, partitions: float, settings: Settings) -> float:
    """Return what a consumer may have fetched (KIP-81), in MiB; of one broker where nobody says how many."""
    most = (brokers or 1) * value(settings, "fetch.max.bytes", FETCH_MAX)
    return min(most, partitions * value(settings, "max.partition.fetch.bytes", PARTITION_FETCH)) / MIB
