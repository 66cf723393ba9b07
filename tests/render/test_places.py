"""Commands without a playbook find a cluster of an inventory, its login included, which no document has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from verify.addresses import PlaceError, find

INVENTORY = """
all:
  hosts:
    localhost: {ansible_connection: local}
  vars:
    host_cores: 2
    host_memory_mib: 4096
    word: open-sesame
    kafka_clusters:
      leaf:
        version: 4.3.1
        bootstrap_servers: "leaf:9092"
        broker_count: 3
        security: {protocol: SASL_PLAINTEXT, mechanism: PLAIN, user: kedge, password: "{{ word }}"}
      agg: {version: 4.3.1, bootstrap_servers: "agg:9092", broker_count: 1}
    kafka_topics:
      - {name: orders, cluster: leaf, partitions: 3}
      - {name: copies, cluster: agg, partitions: 3}
"""


@pytest.mark.process
def test_a_cluster_is_found_with_its_login_and_the_plan_holds_none(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(INVENTORY)
    place = find(inventory, "leaf")
    assert place.bootstrap_servers == "leaf:9092"
    assert (place.client["sasl.username"], place.client["sasl.password"]) == ("kedge", "open-sesame")
    assert "open-sesame" not in json.dumps(place.plan)
    with pytest.raises(PlaceError, match="has the clusters leaf, agg: say which with --cluster"):
        find(inventory, None)
