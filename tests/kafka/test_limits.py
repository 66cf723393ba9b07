"""The limits of a living broker: its leaders, and the files and maps of its process."""

from __future__ import annotations

import subprocess

import pytest

from sizing.topics import LEADERS_WARNING
from tests.kafka.crashable import CrashableBroker
from verify.limits import COMMAND, main, of_host

pytestmark = pytest.mark.kafka


def test_leaders_of_a_broker_are_counted(
    broker: CrashableBroker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--bootstrap-servers", broker.bootstrap_servers, "--cluster", "leaf"]) == 0
    lines = [line.split("│") for line in capsys.readouterr().out.splitlines() if "leaders" in line]
    (broker_1,) = lines
    assert int(broker_1[3]) >= 4, topic
    assert int(broker_1[4]) == LEADERS_WARNING


def test_files_and_maps_of_the_running_process_are_read(broker: CrashableBroker, topic: str) -> None:
    done = subprocess.run(["sh", "-c", COMMAND], capture_output=True, text=True, check=True)
    rows = of_host("here", done.stdout.splitlines())
    assert [row for row in rows if row.what.startswith("files open") and row.found > 20], topic
    assert [row for row in rows if row.what.startswith("memory maps") and row.found > 20]
    assert broker.bootstrap_servers
