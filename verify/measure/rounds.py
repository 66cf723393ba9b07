"""The rounds of a measurement: a topic, a phase of producing, a phase of consuming, and the topic is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kedge.evidence.release import RUN_SCHEMA
from kedge.evidence.writing import write_json
from verify.collect.hosts import Access
from verify.collect.remote import on_all
from verify.measure.config import ClientWork, MeasureError, Measurement
from verify.measure.topics import check_replication, connect, left_over, temporary_topic
from verify.measure.utilization import COMMAND, Counters, load, parse, this_machine
from verify.process import Ending, now_us

_READY_S: Final = 60.0
#: Beyond the window a producer waits for its last answers, and a consumer closes.
_END_S: Final = 30.0
#: From the order to start until the start, so that every process has it in time.
_LEAD_US: Final = 300_000

Say = Callable[[str], None]


class InterruptedMeasureError(Exception):
    """SIGTERM or SIGINT came before the end; temporary topics are gone all the same."""


@dataclass
class RunSoFar:
    """What run.json says of the rounds so far."""

    asked: Measurement
    started_us: int
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def document(self, targets: Sequence[dict[str, Any]], ended: bool) -> dict[str, Any]:
        """Return run.json: a run without topics to audit, as they are gone, and its measurement."""
        windows = [(r["from_us"], r["until_us"]) for r in self.rounds] or [
            (self.started_us, self.started_us + 1)
        ]
        asked = self.asked.model_dump(mode="json", exclude={"client"})
        return {
            "schema": RUN_SCHEMA,
            "run_id": self.asked.run_id,
            "started_us": self.started_us,
            "ended_us": now_us() if ended else None,
            "warm_up_us": 0,
            "measured_until_us": max(until for _, until in windows),
            "clusters": {self.asked.cluster: {"bootstrap_servers": self.asked.bootstrap_servers}},
            "topics": [],
            "producers": {},
            "groups": {},
            "measurement": {**asked, "rounds": self.rounds, "targets": list(targets)},
        }


def measure(
    asked: Measurement,
    run_dir: Path,
    brokers: Sequence[Access],
    targets: Sequence[dict[str, Any]],
    ending: Ending,
    say: Say,
) -> None:
    """Measure; leaves evidence/ in the run's folder.

    Repetitions go round the points of the curve, so that what else happens on the cluster meanwhile falls on
    all of them. At the end the largest point is measured once more with acks=1, where that tells what the
    copies cost.

    Raises:
        MeasureError: something has to be mended; nothing is left on the cluster.
        InterruptedMeasureError: when told to end.
    """
    client = connect(asked.bootstrap_servers, dict(asked.client))
    check_replication(client, asked.cluster, asked.replication)
    for name in left_over(client, asked.cluster):
        say(f"topic {name} is of another measurement: one that runs now, or was killed; delete it then")
    evidence = run_dir / "evidence"
    evidence.mkdir(parents=True, exist_ok=True)
    run = RunSoFar(asked, now_us())
    for repetition in range(1, asked.repetitions + 1):
        for count in asked.partitions:
            name = asked.topic(count, repetition)
            with temporary_topic(client, name, count, asked.replication):
                for phase in ("produce", "consume"):
                    work = [ClientWork(measurement=asked, phase=phase, topic=name, partitions=count,
                                 repetition=repetition, number=n, evidence=evidence)
                            for n in range(asked.clients)]  # fmt: skip
                    run.rounds.append(_phase(work, brokers, ending))
                    write_json(evidence / "run.json", run.document(targets, ended=False))
            say(f"{name}: done, {repetition} of {asked.repetitions}")
    if asked.replication > 1 and asked.acks == "all":
        run.rounds.append(_leader_alone(client, asked, evidence, brokers, ending))
        say("the leader alone (acks=1): done")
    write_json(evidence / "run.json", run.document(targets, ended=True))


def _leader_alone(
    client: Any, asked: Measurement, evidence: Path, brokers: Sequence[Access], ending: Ending
) -> dict[str, Any]:
    """Produce to the largest number of partitions without waiting for the copies."""
    count, repetition = max(asked.partitions), asked.repetitions + 1
    alone = asked.model_copy(update={"acks": "1"})
    name = asked.topic(count, repetition)
    with temporary_topic(client, name, count, asked.replication):
        work = [ClientWork(measurement=alone, phase="produce", topic=name, partitions=count,
                           repetition=repetition, number=n, evidence=evidence)
                for n in range(asked.clients)]  # fmt: skip
        return {**_phase(work, brokers, ending), "acks": "1"}


def _phase(work: Sequence[ClientWork], brokers: Sequence[Access], ending: Ending) -> dict[str, Any]:
    """Run one phase; return its entry of run.json: the window, and how busy clients and hosts were."""
    asked, first = work[0].measurement, work[0]
    clients = [_start(each) for each in work]
    try:
        _await_ready(clients, ending)
        start_us = now_us() + _LEAD_US
        for client in clients:
            _tell(client, str(start_us))
        from_us = start_us + round(asked.warm_up_s * 1e6)
        until_us = from_us + round(asked.seconds * 1e6)
        _wait_until(from_us, clients, ending)
        before = _readings(brokers)
        _wait_until(until_us - 100_000, clients, ending)
        after = _readings(brokers)
        busy = [_answer(client, ending) for client in clients]
    finally:
        for client in clients:
            if client.poll() is None:
                client.terminate()
        for client in clients:
            client.wait()
    loads = [load(name, role, before[name, role], after[name, role]).as_row()
             for name, role in before if (name, role) in after]  # fmt: skip
    return {
        "topic": first.topic,
        "partitions": first.partitions,
        "repetition": first.repetition,
        "phase": first.phase,
        "acks": asked.acks,
        "from_us": from_us,
        "until_us": until_us,
        "client_busy": max(busy),
        "loads": loads,
    }


def _start(work: ClientWork) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "verify.measure.worker", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C reaches a terminal's whole group: the children are told by their parent.
        start_new_session=True,
    )
    _tell(process, work.model_dump_json())
    return process


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise MeasureError(_last_words(process)) from None


def _await_ready(clients: Sequence[subprocess.Popen[str]], ending: Ending) -> None:
    with ThreadPoolExecutor(len(clients)) as pool:
        answers = [pool.submit(_line, client) for client in clients]
        deadline = time.monotonic() + _READY_S
        while not all(answer.done() for answer in answers):
            if ending or time.monotonic() >= deadline:
                for client in clients:
                    client.terminate()
                _stop_if(ending)
                raise MeasureError(f"a client of the measurement is not ready after {_READY_S:.0f} s")
            time.sleep(0.02)
    for client, answer in zip(clients, answers, strict=True):
        if answer.result() != "ready":
            raise MeasureError(_last_words(client))


def _line(client: subprocess.Popen[str]) -> str:
    assert client.stdout is not None
    return client.stdout.readline().strip()


def _answer(client: subprocess.Popen[str], ending: Ending) -> float:
    try:
        output, errors = client.communicate(timeout=_END_S)
    except subprocess.TimeoutExpired:
        raise MeasureError("a client of the measurement does not end") from None
    _stop_if(ending)
    if client.returncode or not output.strip():
        raise MeasureError(f"a client of the measurement ended: {_last(errors)}")
    return float(json.loads(output.splitlines()[-1])["busy"])


def _last_words(client: subprocess.Popen[str]) -> str:
    client.terminate()
    _, errors = client.communicate()
    return f"a client of the measurement ended: {_last(errors)}"


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _stop_if(ending: Ending) -> None:
    if ending:
        raise InterruptedMeasureError("interrupted; the temporary topic is removed")


def _wait_until(at_us: int, clients: Sequence[subprocess.Popen[str]], ending: Ending) -> None:
    while now_us() < at_us:
        _stop_if(ending)
        gone = next((client for client in clients if client.poll() is not None), None)
        if gone is not None:
            raise MeasureError(_last_words(gone))
        time.sleep(min(0.05, max(0.0, (at_us - now_us()) / 1e6)))


def _readings(brokers: Sequence[Access]) -> dict[tuple[str, str], Counters]:
    """Read this machine and the brokers' hosts; one that does not answer is left out."""
    found = {("this machine", "clients"): this_machine()}
    answers = on_all(brokers, lambda _host, shell: parse(shell(COMMAND))) if brokers else {}
    for name, reading in answers.items():
        if isinstance(reading, Counters):
            found[name, "broker"] = reading
    return found
