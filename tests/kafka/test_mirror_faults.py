"""What goes wrong between data centres, done to real MirrorMaker processes with the plan's settings.

Each fault has a topic of its own; at the end the audit looks at all of them, and has to find the same.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lab.services.brokers import log_tail
from tests.awaiting import await_that
from tests.kafka.mirror_site import PARTITIONS, Site, Writer, audited, await_all, held, read, site

__all__ = ["site"]

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400), pytest.mark.long]

CUT_S, DOWN_S = 30, 60


def test_a_process_that_is_killed_loses_nothing_and_repeats_only_what_it_had_not_committed(
    site: Site,
) -> None:
    topic = "killed"
    site.topics(topic)
    victim, _ = site.mirror(topic, 0), site.mirror(topic, 1)
    with Writer(site, topic) as writer:
        await_that(lambda: min(site.committed(topic).values()) > 0, "each partition is committed")
        before = site.committed(topic)
        # Something has to be mirrored and not committed when it dies.
        sent = writer.written
        await_that(lambda: held(site.target.bootstrap_servers, topic) > sent, "more was mirrored")
        victim.kill()
        victim.wait()
        # As its unit does: the same process again, with the same identity.
        site.mirror(topic, 0)
        await_that(lambda: writer.written > sent + 20_000, "records go on")
    await_all(site, topic)
    source, target = (read(b, topic) for b in (site.source.bootstrap_servers, site.target.bootstrap_servers))
    again = [value for value, places in target.items() if len(places) > 1]
    too_old = [value for value in again if source[value][0][1] < before[source[value][0][0]]]
    assert not too_old, "repeated although it was committed before the kill"
    (site.folder / "killed.json").write_text(json.dumps(sum(len(target[value]) - 1 for value in again)))


def test_a_link_that_is_cut_and_a_cluster_that_is_down_lose_and_repeat_nothing(site: Site) -> None:
    topic = "outages"
    site.topics(topic)
    process = site.mirror(topic)
    with Writer(site, topic) as writer:
        await_that(lambda: held(site.target.bootstrap_servers, topic) > 0, "records arrive")
        site.link.cut()
        time.sleep(CUT_S)  # the fault's own length, nothing is waited for
        cut_off = writer.written
        site.link.mend()
        await_that(
            lambda: held(site.target.bootstrap_servers, topic) > cut_off, "what was cut off has come through"
        )
        site.target.kill()
        time.sleep(DOWN_S)  # as above
        site.target.start()
    await_all(site, topic)
    assert process.poll() is None, site.log(topic)
    copies = Counter(len(places) for places in read(site.target.bootstrap_servers, topic).values())
    assert set(copies) == {1}


def test_a_record_that_the_target_refuses_ends_the_process_and_is_not_passed_over(site: Site) -> None:
    topic = "small"
    site.topics(topic, {"max.message.bytes": "10000"}, partitions=1)
    producer = Producer({"bootstrap.servers": site.source.bootstrap_servers})
    noise = random.Random(1)
    for number in range(3):
        producer.produce(topic, f"record {number}".encode())
    producer.flush(10)
    process = site.mirror(topic)
    await_that(lambda: held(site.target.bootstrap_servers, topic) == 3, "the small ones are mirrored")
    producer.produce(topic, noise.randbytes(50_000))
    producer.produce(topic, b"record 4")
    producer.flush(10)
    await_that(lambda: process.poll() is not None, "the process ends")
    assert process.returncode != 0 or "RecordTooLargeException" in site.log(topic)
    assert "RecordTooLargeException" in site.log(topic), log_tail(site.folder / "small-0" / "log")
    # Nothing behind the refused record counts as mirrored: whoever starts the process again meets it again.
    assert site.committed(topic)[0] <= 3


def test_the_audit_finds_of_each_fault_what_it_did(site: Site, tmp_path: Path) -> None:
    """Last in the module: it reads what the others left."""
    flows = [name for name in ("killed", "outages", "small") if (site.folder / f"{name}-0").exists()]
    assert flows == ["killed", "outages", "small"], "the faults were not all done"
    status, found = audited(site, {"killed": PARTITIONS, "outages": PARTITIONS, "small": 1}, tmp_path)
    assert status == 1
    # The refused record, and what came behind it, unless that was under way already.
    assert found["anomalies"]["missing"]["count"] in (1, 2)
    assert {example["flow"] for example in found["anomalies"]["missing"]["examples"]} == {"small"}
    repeated = json.loads((site.folder / "killed.json").read_text())
    assert found["measured"]["duplicated"] == repeated
    assert found["measured"]["reordered"] == 0
