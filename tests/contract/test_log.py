"""The log of a proxy under the logging that the plan gives it: bounded, however much comes."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from kedge.deploy.rendering import render_settings
from kedge.services.planning import make_plan
from lab.services.rest_proxies import running_proxy
from tests.contract.rest_client import produce
from tests.rest_inventories import rest

FILES, FILE_BYTES = 10, 20_000


def wordy_logging(logs: Path) -> str:
    """log4j2.properties as planned, but for its level and the size of its files, which fill at once."""
    plan = make_plan(rest(version="8.3.1", log_mib=10, instances_per_host=1)).to_json()
    (instance,) = plan["hosts"]["rest1"]["services"]["kafka_rest"]["instances"]
    own = [s for s in instance["settings"] if s["file"].endswith("/log4j2.properties")]
    text = render_settings("log4j2.properties", own)
    changes = {"=1MB": f"={FILE_BYTES}", "level=INFO": "level=TRACE", "/var/log/kafka-rest/8082": str(logs)}
    for planned, here in changes.items():
        assert planned in text
        text = text.replace(planned, here)
    return text


def test_a_log_that_floods_keeps_to_its_files(sandbox_home: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (tmp_path / "log4j2.properties").write_text(wordy_logging(logs))
    options = {"KAFKAREST_LOG4J_OPTS": f"-Dlog4j2.configurationFile={tmp_path}/log4j2.properties"}
    properties = {"bootstrap.servers": "127.0.0.1:1", "producer.max.block.ms": "100"}

    def written() -> int:
        """What was written in all: the journal, which takes this in a deployment, has every line too."""
        return proxy.log.stat().st_size

    with (
        running_proxy(sandbox_home, tmp_path, properties, options) as proxy,
        httpx.Client(base_url=proxy.url, timeout=60) as client,
    ):
        deadline = time.monotonic() + 60
        while written() < 3 * FILES * FILE_BYTES:
            assert time.monotonic() < deadline, f"{written()} bytes within a minute"
            produce(client, "t", [{"value": "eA=="}])
    # Looked at when the proxy has ended, for while it rolls a file over one of them is between two names.
    files = {file.name: file.stat().st_size for file in logs.iterdir() if "kafka-rest" in file.name}
    # The last line of a file may go beyond its size.
    assert len(files) == FILES, files
    assert sum(files.values()) < FILES * FILE_BYTES * 1.5, files
