"""The node of the MapR double: its stream, its service under Warden, its configuration."""

from __future__ import annotations

import json
from typing import Any

testinfra_hosts = ["ansible://rest1"]
CONFIG = "/opt/mapr/kafka-rest/kafka-rest-5.1.2/config"


def test_the_stream_was_created_with_its_planned_partitions(host: Any) -> None:
    found = json.loads(host.check_output("maprcli stream info -path /streams/test"))
    # Ten a node, on two nodes; the default would be one.
    assert (found["-defaultpartitions"], found["-autocreate"]) == ("20", "true")


def test_warden_runs_the_proxy_and_systemd_does_not(host: Any) -> None:
    (row,) = json.loads(host.check_output("maprcli service list -node rest1 -json"))["data"]
    assert (row["name"], row["state"]) == ("kafka-rest", 2)
    assert not host.service("kafka-rest@8082").is_running
    assert not host.service("kafka-rest@8082").is_enabled


def test_the_package_reads_the_configuration_in_force_and_keeps_its_own_beside_it(host: Any) -> None:
    for name in ("kafka-rest.properties", "log4j.properties"):
        # The link itself: where it leads in the end changes with every release.
        assert host.check_output("readlink %s", f"{CONFIG}/{name}") == f"/etc/kafka-rest/8082/{name}"
    assert host.file(f"{CONFIG}/kafka-rest.properties.package").is_file
    assert (
        "streams.default.stream=/streams/test" in host.file(f"{CONFIG}/kafka-rest.properties").content_string
    )
