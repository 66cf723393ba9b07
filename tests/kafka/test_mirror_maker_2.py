"""MirrorMaker 2 with the plan's settings: it goes on where other processes ended, and copies exactly once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.awaiting import await_that
from tests.kafka.mirror_site import (
    PARTITIONS,
    Site,
    Writer,
    audited,
    await_all,
    copies,
    held,
    in_order,
    missing,
    read,
    site,
)
from tests.kafka.modules import run_module

__all__ = ["site"]
#: What a plan gives a process. Connect waits for a rebalance (60 s) before it ends a herder that is in one.
STOP_S = 120
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400), pytest.mark.long]


def test_a_flow_that_moves_from_classic_loses_nothing_and_repeats_nothing(site: Site, tmp_path: Path) -> None:
    topic = "moved"
    site.topics(topic)
    with Writer(site, topic) as writer:
        classic = site.mirror(topic)
        await_that(lambda: held(site.target.bootstrap_servers, topic) > 5000, "classic mirrors")
        # An orderly end: what was read is sent, acknowledged and committed.
        classic.terminate()
        classic.wait(60)
        at_the_move = held(site.target.bootstrap_servers, topic)
        site.mirror_2(topic, 1)
        await_that(
            lambda: held(site.target.bootstrap_servers, topic) > at_the_move + 5000, "MirrorMaker 2 mirrors"
        )
        del writer
    await_all(site, topic)
    assert copies(site, topic) == {1}
    assert in_order(site, topic)
    status, found = audited(site, {topic: PARTITIONS}, tmp_path)
    assert status == 0, found
    assert found["verdict"] == "pass"
    assert found["measured"]["source_records"] == held(site.source.bootstrap_servers, topic)
    assert found["measured"]["duplicated"] == 0


def test_a_flow_that_takes_over_from_a_foreign_mirror_maker_2_goes_on_at_its_offsets(site: Site) -> None:
    topic = "foreign"
    site.topics(topic)
    internal = {
        f"{kind}.storage.topic": f"mm2-{kind}s.leaf.internal" for kind in ("config", "offset", "status")
    }
    own = {"agg.group.id": "leaf-mm2", "leaf.consumer.group.id": "connect-theirs"} | internal
    target = {"bootstrap_servers": site.target.bootstrap_servers}
    asked = {
        "bootstrap_servers": site.source.bootstrap_servers,
        "flow": topic,
        "topics": [topic],
        "offsets_topic": "mm2-offsets.leaf.internal",
        "target": target,
        "own_offsets": f"mm2-offsets.{topic}.internal",
        "into": f"mirror-maker-{topic}",
        "seconds": 30,
    }
    with Writer(site, topic):
        theirs = site.mirror_2(topic, 0, settings=own)
        await_that(lambda: held(site.target.bootstrap_servers, topic) > 5000, "the foreign worker mirrors")
        theirs.terminate()
        theirs.wait(STOP_S)
        alias = run_module("kafka_mirror_positions", asked | {"alias": "west", "stopped": True})
        assert "has positions of other clusters than west" in alias["msg"]
        taken = run_module("kafka_mirror_positions", asked | {"alias": "leaf", "stopped": True})
        assert (taken["failed"], taken["positions"]) == (False, PARTITIONS), taken
        at_the_move = held(site.target.bootstrap_servers, topic)
        site.mirror_2(topic, 1)
        await_that(lambda: held(site.target.bootstrap_servers, topic) > at_the_move + 5000, "ours mirrors")
    await_all(site, topic)
    assert copies(site, topic) == {1}
    assert in_order(site, topic)
    # What ours has in a topic of its own would count, should theirs go on after a failure.
    later = run_module("kafka_mirror_positions", asked | {"alias": "leaf"}, check=True)
    assert later["refused"] == ""


def test_a_flow_that_promises_exactly_once_keeps_it_when_a_worker_is_killed(site: Site) -> None:
    topic = "once"
    site.topics(topic)
    with Writer(site, topic):
        victim = site.mirror_2(topic, 0, exactly_once=True)
        site.mirror_2(topic, 1, exactly_once=True)
        await_that(lambda: held(site.target.bootstrap_servers, topic) > 5000, "both mirror")
        victim.kill()
        victim.wait()
        before = held(site.target.bootstrap_servers, topic)
        # Its tasks wait for it as long as the plan says, then the other worker has them.
        await_that(lambda: held(site.target.bootstrap_servers, topic) > before + 20_000, "the other goes on")
    await_all(site, topic)
    assert copies(site, topic) == {1}
    assert in_order(site, topic)


def test_a_flow_whose_workers_all_stop_turns_exactly_once_on_and_off_without_loss_or_repetition(
    site: Site,
) -> None:
    topic = "turned"
    site.topics(topic)
    with Writer(site, topic):
        for number, exactly_once in enumerate((False, True, False)):
            before = held(site.target.bootstrap_servers, topic)
            workers = [site.mirror_2(topic, 2 * number + n, exactly_once=exactly_once) for n in range(2)]
            await_that(
                lambda before=before: held(site.target.bootstrap_servers, topic) > before + 5000,
                f"the workers mirror, exactly_once {exactly_once}",
            )
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait(STOP_S)
        site.mirror_2(topic, 6)
    await_all(site, topic)
    assert copies(site, topic) == {1}
    assert in_order(site, topic)


def test_only_a_worker_without_transactions_passes_over_the_records_of_an_aborted_one(site: Site) -> None:
    topic = "aborted"
    site.topics(topic)
    servers = site.source.bootstrap_servers, site.target.bootstrap_servers
    writer = Producer({"bootstrap.servers": servers[0]})

    def write(first: int) -> None:
        for number in range(first, first + 1000):
            writer.produce(topic, f"record {number}".encode(), partition=number % PARTITIONS)
        assert writer.flush(30) == 0

    write(0)
    worker = site.mirror_2(topic, 0, exactly_once=True)
    await_all(site, topic)
    for number, exactly_once in ((1, True), (2, False)):
        worker.terminate()
        worker.wait(STOP_S)
        write(1000 * number)
        abort_offsets(servers[1], topic, 250 * (number + 1) - 1)
        worker = site.mirror_2(topic, number, exactly_once=exactly_once)
        if exactly_once:
            await_all(site, topic)
    write(3000)
    await_that(lambda: b"record 3999" in read(servers[1], topic), "the last record is mirrored")
    assert missing(site, topic) == {f"record {number}".encode() for number in range(2000, 3000)}


def abort_offsets(bootstrap_servers: str, flow: str, offset: int) -> None:
    """Leave behind what a worker does that is killed before its transaction ends: offsets, and no commit."""
    # The partitioner is that of the worker's producer: the last value of a key counts within one partition.
    own = {"transactional.id": f"killed {offset}", "partitioner": "murmur2_random"}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **own})
    producer.init_transactions(30)
    producer.begin_transaction()
    topic = f"mm2-offsets.{flow}.internal"
    for partition in range(PARTITIONS):
        key = ["MirrorSourceConnector", {"cluster": "leaf", "partition": partition, "topic": flow}]
        producer.produce(topic, json.dumps({"offset": offset}), json.dumps(key, separators=(",", ":")))
    producer.flush(30)
    producer.abort_transaction(30)
