"""Batches and records above what the target takes: what becomes of them, by batch.size and by version.

A producer fills a batch by the size that it expects it to be compressed to, from what it has seen of the topic.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial

import pytest
from confluent_kafka import Producer

from lab.bench.mirror.batches import Batches, batches_of
from tests.awaiting import await_that
from tests.kafka.mirror_site import Site, await_all, copies, held, in_order, site

__all__ = ["site"]
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400), pytest.mark.long]

LIMIT = 1_000_000
PARTITIONS = 40
#: An expectation sinks by 0.005 a batch, so that after these many it is what the batches are.
ENOUGH_BATCHES = 250
#: So long as all that a test writes is on its way; a commit would send what is there of a batch.
LINGER_MS, NO_COMMIT_MS = 2000, 300_000
SPLIT = "splitting and retrying"
NOISE = random.Random(1)


def write(site: Site, topics: Iterable[str], values: Iterable[tuple[int, bytes]], **settings: object) -> None:
    """Write (partition, value) to each topic of the source.

    With a key by partition, or the mirror would put all that is there into a batch of one partition.
    """
    producer = Producer({"bootstrap.servers": site.source.bootstrap_servers, "linger.ms": 50, **settings})
    for partition, value in values:
        for topic in topics:
            producer.produce(topic, value, str(partition), partition)
    assert producer.flush(30) == 0


def noise(count: int) -> list[tuple[int, bytes]]:
    """Return records of 10 kB that do not compress, all of one partition."""
    return [(0, NOISE.randbytes(10_000)) for _ in range(count)]


def stored(site: Site, topic: str) -> Batches:
    """Return what the target's log holds of a topic."""
    return batches_of(site.target.folder / "data", topic)


def all_stored(site: Site, topics: Iterable[str], records: int) -> bool:
    """Whether each topic has that many records."""
    return all(stored(site, topic).records >= records for topic in topics)


def test_what_compresses_no_more_outgrows_the_limit_unless_batch_size_follows_the_best_compression(
    site: Site,
) -> None:
    # As the article had it first; the plan without a measured ratio; and with the ratio of this data.
    sizes = {"naive": LIMIT, "unmeasured": LIMIT * 5 // 100, "measured": LIMIT * 5 // 1000}
    for topic, size in sizes.items():
        site.topics(topic, {"max.message.bytes": str(LIMIT)}, PARTITIONS)
        site.mirror(
            topic, commit_ms=NO_COMMIT_MS, batch_size=size, max_request_size=LIMIT, linger_ms=LINGER_MS
        )
    written = 0
    while min(stored(site, topic).count for topic in sizes) < ENOUGH_BATCHES:
        alike = (f"{written + n:09d} {'the same again ' * 66}".encode() for n in range(PARTITIONS * 20))
        write(site, sizes, ((n % PARTITIONS, value) for n, value in enumerate(alike)))
        written += PARTITIONS * 20
        await_that(partial(all_stored, site, sizes, written), "a burst is mirrored")
    write(site, sizes, noise(300))
    for topic in sizes:
        await_all(site, topic)
    refused = {topic: site.log(topic).count(SPLIT) for topic in sizes}
    assert refused["naive"] > 0, refused
    assert refused["unmeasured"] > 0, refused
    assert refused["measured"] == 0, refused
    # A refused batch is split and sent again: it costs the way twice, and nothing is lost or changes places.
    for topic in sizes:
        assert copies(site, topic) == {1}
        assert in_order(site, topic)


def test_a_batch_size_above_the_limit_stops_a_classic_mirror_for_ever_and_not_one_of_this_version(
    site: Site,
) -> None:
    limit = {"max.message.bytes": str(LIMIT // 2)}
    for topic in ("stuck", "halved", "planned"):
        site.topics(topic, limit, 1)
    own = {"producer_settings": {"batch.size": LIMIT, "linger.ms": LINGER_MS}}
    stuck = site.mirror("stuck", batch_size=LIMIT, linger_ms=LINGER_MS)
    site.mirror("planned", batch_size=LIMIT // 2 * 5 // 100, linger_ms=LINGER_MS)
    site.mirror_2("halved", **own)
    write(site, ("stuck", "halved", "planned"), noise(300))
    await_all(site, "planned")
    assert SPLIT not in site.log("planned")
    await_all(site, "halved")
    assert copies(site, "halved") == {1}
    # Split by batch.size, the half is the whole again.
    await_that(lambda: site.log("stuck").count(SPLIT) > 100, "the same batch is refused again and again")
    assert held(site.target.bootstrap_servers, "stuck") == 0
    assert stuck.poll() is None


def test_one_record_that_is_small_by_compression_alone_ends_the_process_unless_max_request_size_lets_it_pass(
    site: Site,
) -> None:
    topic = "redundant"
    site.topics(topic, {"max.message.bytes": str(LIMIT)}, 1)
    large = {"compression.type": "zstd", "message.max.bytes": 10 * LIMIT}
    write(
        site, [topic], [(0, b"before"), (0, b"the same again " * (3 * LIMIT // 15)), (0, b"behind")], **large
    )
    process = site.mirror(topic, max_request_size=LIMIT)
    await_that(lambda: process.poll() is not None, "the process ends")
    assert "RecordTooLargeException" in site.log(topic)
    # What is compared with max.request.size is the record as it is, with the target's limit the batch as sent.
    site.mirror(topic, max_request_size=5 * LIMIT)
    await_all(site, topic)
