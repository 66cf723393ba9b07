"""Loads whose processes run on other hosts: a double of ssh runs them here, by clocks that are ahead."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.awaiting import await_that
from tests.kafka.loads import LoadRun, assert_ledger_is_true
from tests.kafka.test_kafka_load import RATE, kafka

pytestmark = pytest.mark.kafka

FILES = Path(__file__).resolve().parents[1] / "doubles" / "files"
HOSTS = ["load1", "load2"]
AHEAD_S = 100
#: What a clock that is corrected by round trips on one machine may still be off by.
CLOSE_US = 1_000_000


@pytest.fixture
def hosts(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have ssh be the double, and hosts whose clocks are ahead; return their inventory."""
    folder = tmp_path_factory.mktemp("hosts")
    shutil.copy(FILES / "ssh", folder / "ssh")
    (folder / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "python3").chmod(0o755)
    (folder / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "real = time.time_ns\n"
        "if 'KEDGE_AFAR' in os.environ:\n"
        f"    time.time_ns = lambda: real() + {AHEAD_S} * 10**9\n"
    )
    ssh = folder / "ssh"
    ssh.write_text(
        ssh.read_text().replace("exec python3", f"exec env KEDGE_AFAR=1 PYTHONPATH={folder} python3")
    )
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    inventory = folder / "inventory.ini"
    inventory.write_text("\n".join(["[load_generator]", *HOSTS]) + "\n")
    return str(inventory)


def started(load_run: Callable[..., LoadRun], inventory: str, **parts: Any) -> LoadRun:
    return load_run(generators=HOSTS, **parts).start("--inventory", inventory)


def test_hosts_share_a_load_and_their_records_are_accounted_for_by_one_clock(
    load_run: Callable[..., LoadRun], topic: str, hosts: str
) -> None:
    run = started(load_run, hosts, kafka=kafka(topic), min_records=8000)
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    ledger, truth, deliveries = run.table("ledger"), run.in_topic(topic), run.table("deliveries")
    assert len(ledger) == len(truth) == len(deliveries) >= 8000
    assert_ledger_is_true(ledger, truth)
    facts = run.run_json()
    assert facts["started_us"] <= ledger["intended_us"].min() < facts["started_us"] + CLOSE_US
    assert (ledger["sent_us"] > ledger["intended_us"] - CLOSE_US).all()
    assert deliveries["received_us"].max() < facts["ended_us"] + CLOSE_US
    assert facts["cost"]["kafka-producer"]["cpu_s"] > 0
    for clock in facts["generators"].values():
        assert abs(clock["offset_us"] - AHEAD_S * 1_000_000) < CLOSE_US
    # Each host has the producer and the consumer of one number; their logs came along.
    assert (run.folder / "logs" / "kafka-producer-1.log").exists()


def test_a_host_that_is_lost_ends_the_load_with_its_name_and_leaves_nothing_running(
    load_run: Callable[..., LoadRun], topic: str, hosts: str
) -> None:
    run = started(load_run, hosts, kafka=kafka(topic))
    run.await_acked(RATE)
    assert run.process is not None
    agents = [
        process
        for process in psutil.Process(run.process.pid).children(recursive=True)
        if "verify.load.agent" in process.cmdline()
    ]
    children = [child for agent in agents for child in agent.children()]
    assert len(children) == 4
    agents[0].kill()
    assert run.ended() == 1
    assert "is lost: the connection ended" in run.output.read_text()
    await_that(lambda: not any(child.is_running() for child in children), "nothing is left running")
    assert run.state()["phase"] == "failed"


def test_what_a_host_lacks_is_said_before_anything_is_sent(
    load_run: Callable[..., LoadRun], topic: str, hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(hosts).parent
    (folder / "ssh").write_text("#!/bin/sh\necho 'sh: 1: /opt/kedge/load-agent: not found' >&2\nexit 127\n")
    run = started(load_run, hosts, kafka=kafka(topic))
    assert run.ended() == 2
    said = run.output.read_text()
    assert (
        "load_generator load1 does not begin: sh: 1: /opt/kedge/load-agent: not found; deploy.yml brings"
        in said
    )
    assert run.in_topic(topic).empty


def test_hosts_need_an_inventory(load_run: Callable[..., LoadRun], topic: str) -> None:
    run = load_run(generators=HOSTS, kafka=kafka(topic)).start()
    assert run.ended() == 2
    assert "--inventory is missing: it says how load1, load2 are reached" in run.output.read_text()


#: Passes on what the agent of load2 says until there is a file, and then something else.
TURNS = """
import os, subprocess, sys
if os.environ.pop("KEDGE_AFAR_HOST") != "load2":
    os.execvp("python3", ["python3", "-m", "verify.load.agent"])
with subprocess.Popen(["python3", "-m", "verify.load.agent"], stdout=subprocess.PIPE) as agent:
    for line in agent.stdout:
        if os.path.exists(sys.argv[1]):
            line = b'{"cells": {"../../x": [1]}, "said": {}, "ended": {}, "over": false}\\n'
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
"""


def test_a_host_that_turns_to_garbage_costs_its_evidence_and_not_the_run(
    load_run: Callable[..., LoadRun], topic: str, hosts: str
) -> None:
    folder = Path(hosts).parent
    (folder / "turns.py").write_text(TURNS)
    ssh = folder / "ssh"
    script = ssh.read_text().replace("-m verify.load.agent", f"{folder}/turns.py {folder}/now")
    # The host is the word before the command.
    script = script.replace(
        "exec env", 'for word; do before=$host; host=$word; done\nexec env "KEDGE_AFAR_HOST=$before"'
    )
    ssh.write_text(script)
    run = started(load_run, hosts, kafka=kafka(topic), min_records=8000)
    run.await_acked(RATE)
    (folder / "now").touch()
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    facts, ledger, truth = run.run_json(), run.table("ledger"), run.in_topic(topic)
    assert list(facts["refused"]) == ["load2"]
    assert "actors that nobody asked for" in facts["refused"]["load2"]
    assert "load_generator load2: what it sent cannot be taken" in run.output.read_text()
    assert facts["ended_us"] is not None
    # load1 has the first producer; of the second one's records it is only known that they may have left.
    outcomes = ledger.groupby("producer")["outcome"].agg(set).to_dict()
    assert outcomes == {0: {"acked"}, 1: {"unknown"}}
    mine = truth[truth["producer"] == 0]
    assert_ledger_is_true(ledger[ledger["producer"] == 0], mine)
    assert not list(run.folder.rglob("*from-generator*"))
