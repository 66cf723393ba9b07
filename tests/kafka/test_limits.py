"""The limits of a living broker: its leaders, and the files and maps of its process."""

from __future__ import annotations

import json
import subprocess

import pytest
from confluent_kafka.admin import AdminClient

from kedge.services.topics.cluster_limits import LEADERS_WARNING
from tests.kafka.crashable import CrashableBroker
from verify.limits import COMMAND, broker_uses, main

pytestmark = pytest.mark.kafka


def test_leaders_of_a_broker_are_counted_and_replication_is_measured(
    broker: CrashableBroker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--bootstrap-servers", broker.bootstrap_servers, "--cluster", "leaf"]
    assert main([*words, "--measure", "--format", "json"]) == 0
    rows = {(row["where"], row["what"]): row for row in json.loads(capsys.readouterr().out)}
    leaders = rows["broker 1", "leaders"]
    assert leaders["found"] >= 4, topic
    assert leaders["most"] == LEADERS_WARNING
    # One copy has nobody to wait for.
    assert rows["leaf", "ms that replication is expected to add"]["found"] == 0
    assert "acks=all" in rows["leaf", "ms that replication was measured to add"]["because"]
    left = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10).topics
    assert not [name for name in left if name.startswith("kedge-measure-replication")]


def test_files_and_maps_of_the_running_process_are_read(broker: CrashableBroker, topic: str) -> None:
    done = subprocess.run(["sh", "-c", COMMAND], capture_output=True, text=True, check=True)
    uses = broker_uses("here", done.stdout.splitlines())
    assert [use for use in uses if use.files > 20 and use.maps > 20], topic
    assert broker.bootstrap_servers
