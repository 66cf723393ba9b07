"""The load in the dialect of each vendor's proxy whose archive is at hand (KEDGE_REST_ARCHIVES), against a broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.services.rest.distributions import DISTRIBUTIONS
from lab.services.rest_proxies import VendorArchive, running_proxy, unpack
from tests.contract.answers import ANSWERS
from tests.kafka.crashable import CrashableBroker
from tests.kafka.loads import LoadRun, assert_ledger_is_true

pytestmark = [pytest.mark.kafka, pytest.mark.promise("load and consumers in its dialect, delivered once")]

RATE = 500


def test_every_record_is_delivered_once_and_committed_in_the_dialect_of_its_record(
    vendor: VendorArchive,
    load_run: Callable[..., LoadRun],
    broker: CrashableBroker,
    topic: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = unpack(vendor.file, tmp_path_factory.mktemp("home"))
    written = ANSWERS[vendor.distribution].properties(broker.bootstrap_servers, "one")
    # A cold client on a busy machine needs longer for its first record than the contract gives it.
    properties = {key: value for key, value in written.items() if not key.endswith("max.block.ms")}
    part = {
        "topic": topic,
        "group": f"rest-{topic}",
        "records_per_s": RATE,
        "records_per_request": 50,
        "consumers": 2,
        "dialect": DISTRIBUTIONS[vendor.distribution].dialect.model_dump(exclude_defaults=True),
    }
    with running_proxy(home, Path(tmp_path_factory.mktemp("proxy")), properties) as proxy:
        run = load_run(rest=part | {"url": proxy.url}, min_records=3 * RATE, drain_s=60).start()
        run.enough()
        assert run.ended() == 0, run.output.read_text()
    ledger, truth = run.table("ledger"), run.in_topic(topic)
    assert_ledger_is_true(ledger, truth)
    assert set(ledger["outcome"]) == {"acked"}
    # The load ends in order only when what was committed is the end of the topic, not one before or after it.
    assert len(run.table("deliveries")) == len(truth) == len(ledger)
    assert run.state()["recreated"] == 0
