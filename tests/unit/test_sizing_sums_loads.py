"""Sums of loads, sizes and links that several rules share: what one kind of a service asks, every kind does."""

from __future__ import annotations

import pytest

from tests.planned import findings, mirrors

# Mirrors


@pytest.mark.parametrize("processes", [None, 1], ids=str)
def test_a_worker_that_its_cores_do_not_sustain_is_found(processes: int | None) -> None:
    flow = {"mb_per_s": 280, "processes": processes}
    kind = {"kind": "mirror_maker_2", "version": "4.3.1"}
    (found,) = findings(mirrors(1, cores=2, flow=flow, **kind), "mirror.cores", "warning")
    assert "about 12 cores at 22.8 MB/s each, and its hosts have 2" in found.message
    assert findings(mirrors(2, cores=16, flow=flow, **kind), "mirror.cores") == []
