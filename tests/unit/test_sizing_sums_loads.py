"""Sums of loads, sizes and links that several rules share: what one kind of a service asks, every kind does."""

from __future__ import annotations

import pytest

from tests.planned import findings, mirrors
from tests.rest_inventories import rest

LINK = {"host_link_mbit_per_s": 1000}

# REST proxies


def test_bytes_that_readers_fetch_are_held_against_the_link() -> None:
    workload = {"consumers": 1_500, "record_bytes": 100_000, "delivery_latency_ms": 500}
    (found,) = findings(rest(workload=workload, cores=1_000, common=LINK), "rest.link", "warning")
    assert "1500 readers of 100 records/s each (assumed) take 15000.0 MB/s" in found.message
    assert "say in kafka_rest_workload.reader_records_per_s what one reads" in found.fix
    assert "160 times as many hosts" in found.fix
    said = workload | {"reader_records_per_s": 100}
    assert findings(rest(workload=said, cores=1_000, common=LINK), "rest.link", "error")
    slow = workload | {"consumers": 900, "reader_records_per_s": 1}
    assert findings(rest(workload=slow, cores=1_000, common=LINK), "rest.link") == []
    # Produced and read together they are more: 90 and 40 MB/s.
    both = slow | {"consumers": 400, "records_per_s": 900}
    assert findings(rest(workload=both, cores=1_000, common=LINK), "rest.link", "error")


# Mirrors


@pytest.mark.parametrize("processes", [None, 1], ids=str)
def test_a_worker_that_its_cores_do_not_sustain_is_found(processes: int | None) -> None:
    flow = {"mb_per_s": 280, "processes": processes}
    kind = {"kind": "mirror_maker_2", "version": "4.3.1"}
    (found,) = findings(mirrors(1, cores=2, flow=flow, **kind), "mirror.cores", "warning")
    assert "about 12 cores at 22.8 MB/s each, and its hosts have 2" in found.message
    assert findings(mirrors(2, cores=16, flow=flow, **kind), "mirror.cores") == []
