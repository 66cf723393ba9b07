"""A host that makes load, and belongs to somebody else, costs its own evidence and nothing more."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kedge.deploy.generator_bundle import code
from kedge.evidence.border import table
from kedge.evidence.border.load_generator import FILE_BYTES, LINE_BYTES, take_files
from kedge.evidence.border.untrusted import UntrustedError
from kedge.evidence.load_options import LoadError
from kedge.evidence.tables import arrow_schema
from kedge.evidence.writing import to_table
from tests.awaiting import await_that
from tests.hostile_agent import NAME, OVER, ROW, Agents, answering, file, line, load
from verify.collect.hosts import read_access
from verify.load.actors import processes
from verify.load.board import Cell, Head
from verify.process import now_us

pytestmark = pytest.mark.process

LEDGER = f"evidence/ledger/{NAME}-0.parquet"
END = file("")
GOOD = {
    "producer": 0,
    "seq": [0, 1],
    "topic": "t",
    "crc": 1,
    "bytes": 100,
    "intended_us": 1,
    "outcome": "unknown",
    "via": "kafka",
}


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "inventory.yml").write_text("all: {hosts: {h: {ansible_host: 10.0.0.1}}}")
    return Agents(folder)


def ledger(schema: pa.Schema | None = None, **columns: Any) -> bytes:
    """Return a file of a ledger, some of its columns otherwise."""
    rows = to_table(arrow_schema("ledger"), {**GOOD, **columns})
    buffer = io.BytesIO()
    pq.write_table(rows.cast(schema) if schema else rows, buffer)
    return buffer.getvalue()


def left(folder: Path) -> set[str]:
    """Return all that lies in a folder, without what the parent itself writes."""
    own = {"load.board", "inventory.yml", f"logs/{NAME}.log", "logs/generator-load1.log"}
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()} - own


def test_evidence_and_log_of_a_process_come_to_their_places(agents: Agents) -> None:
    sent = line(OVER) + file(LEDGER, ledger()) + file(f"logs/{NAME}.log", b"done\n") + END
    assert agents.sending(sent).workers[NAME].wait(30) == 0
    assert left(agents.folder) == {LEDGER}
    assert agents.log() == "done\n"
    assert pq.read_table(agents.folder / LEDGER)["seq"].to_pylist() == [0, 1]


@pytest.mark.parametrize(
    "name",
    [
        "inventory.yml",
        "slo.yml",
        "evidence/run.json",
        f"../{NAME}-0.parquet",
        f"/tmp/{NAME}-0.parquet",
        f"evidence/../evidence/ledger/{NAME}-0.parquet",
        f"evidence/deliveries/{NAME}-0.parquet",
        "evidence/ledger/kafka-producer-1-0.parquet",
        f"evidence/ledger/{NAME}-0.parquet\n",
        f"evidence/ledger/{NAME}-\u0663.parquet",
        "logs/kafka-producer-1.log",
        "logs/../inventory.yml",
        "\x00",
    ],
)
def test_a_host_names_no_file_of_the_run_and_none_of_another(agents: Agents, name: str) -> None:
    before = (agents.folder / "inventory.yml").read_text()
    sent = line(OVER) + file(LEDGER, ledger()) + file(name, b"#!/bin/sh\n") + END
    generator = agents.sending(sent)
    assert generator.workers[NAME].wait(30) == 255
    assert "a file that no process of it writes" in generator.refused
    assert left(agents.folder) == set()
    assert (agents.folder / "inventory.yml").read_text() == before


def test_an_archive_of_a_host_is_not_unpacked(agents: Agents) -> None:
    """An executable inventory came this way, and ran as whoever verified."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        script = b"#!/bin/sh\ntouch owned\n"
        member = tarfile.TarInfo("inventory.yml")
        member.size, member.mode = len(script), 0o755
        tar.addfile(member, io.BytesIO(script))
    generator = agents.sending(line(OVER) + archive.getvalue())
    assert generator.workers[NAME].wait(30) == 255
    assert "no name and size of a file" in generator.refused
    assert read_access(str(agents.folder / "inventory.yml"), ["h"])[0].address == "10.0.0.1"
    assert left(agents.folder) == set()


@pytest.mark.parametrize("key", ["said", "ended", "cells"])
@pytest.mark.parametrize("name", ["../../outside/x", "kafka-producer-1", "watch", "", "a\x1b[31m"])
def test_a_host_speaks_for_its_own_processes_alone(agents: Agents, key: str, name: str) -> None:
    content: Any = {"said": "x", "ended": 1, "cells": ROW}[key]
    generator = agents.sending(line(OVER | {"over": False, key: {name: content}}))
    assert generator.workers[NAME].wait(30) == 255
    assert generator.refused.isprintable()
    assert left(agents.folder) == set()
    assert not (agents.folder.parent / "outside").exists()


@pytest.mark.parametrize(
    "sent",
    [
        b"[" * 100_000 + b"\n",
        b'{"cells": {}, "said": {}, "ended": {}, "over": NaN}\n',
        b"\xff\xfe\x00\n",
        b"null\n",
        b"[]\n",
        b"{}\n",
        line(OVER | {"cells": {NAME: ROW[:-1]}}),
        line(OVER | {"cells": {NAME: [1e300, *ROW[1:]]}}),
        line(OVER | {"cells": {NAME: [2**70, *ROW[1:]]}}),
        line(OVER | {"cells": {NAME: "x"}}),
        line(OVER | {"cells": {NAME: [None] * len(ROW)}}),
        line(OVER | {"ended": {NAME: "0"}}),
        line(OVER | {"ended": []}),
        line(OVER | {"more": 1}),
        b"x" * (LINE_BYTES + 2),
        line(OVER) + line({"file": LEDGER, "bytes": -1}),
        line(OVER) + line({"file": LEDGER, "bytes": FILE_BYTES + 1}),
        line(OVER) + line({"file": LEDGER, "bytes": 10}) + b"short",
        line(OVER) + file(LEDGER, ledger()),
        line(OVER) + file(LEDGER, ledger()) + file(LEDGER, ledger()) + END,
    ],
)
def test_what_is_no_report_is_refused_and_the_host_named(agents: Agents, sent: bytes) -> None:
    generator = agents.sending(sent)
    assert generator.workers[NAME].wait(30) == 255
    assert generator.refused.startswith("what it sent cannot be taken: ")
    assert agents.log().startswith("load_generator load1 is lost: what it sent cannot be taken: ")
    assert left(agents.folder) == set()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"PAR1" + b"\xff" * 60 + b"PAR1",
        ledger()[:-20],
        ledger(producer=1),
        ledger(topic="another"),
        ledger(via="rest"),
        ledger(outcome="open"),
        ledger(seq=[-1, 0]),
        ledger(error="\x1b[31m"),
        ledger(error="x" * 3_000),
        ledger(pa.schema([f.with_nullable(True) for f in arrow_schema("ledger")])),
        ledger(bytes=99),
    ],
)
def test_a_table_that_is_not_the_processs_own_is_refused(tmp_path: Path, content: bytes) -> None:
    own = processes(load())[NAME].tables["ledger"]
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UntrustedError):
        table.look_into(tmp_path / "x", "ledger", {column: sorted(values) for column, values in own.items()})


def test_a_table_that_is_refused_comes_to_no_place(agents: Agents) -> None:
    generator = agents.sending(line(OVER) + file(LEDGER, ledger(producer=1)) + END)
    assert generator.workers[NAME].wait(30) == 255
    assert LEDGER in generator.refused
    assert left(agents.folder) == set()


def test_no_more_records_are_counted_than_were_due(agents: Agents) -> None:
    agents.board.head[Head.GO] = now_us() - 1_000_000
    row = list(ROW)
    row[Cell.SENT] = 1 << 40
    generator = agents.sending(line(OVER | {"over": False, "cells": {NAME: row}}))
    assert generator.workers[NAME].wait(30) == 255
    assert "says that it sent 1,099,511,627,776 records" in generator.refused
    assert agents.board.cells(NAME)[Cell.SENT] == 0


@pytest.mark.parametrize("back_s", [11, 3600])
def test_a_clock_that_is_set_back_makes_no_honest_host_a_hostile_one(
    agents: Agents, monkeypatch: pytest.MonkeyPatch, back_s: int
) -> None:
    go = agents.board.head[Head.GO] = now_us()
    row = list(ROW)
    row[Cell.SENT] = 50
    sent = line(OVER | {"over": False, "cells": {NAME: row}}).decode().strip()
    set_back = agents.folder.parent / "set-back"
    wait = f"until test -e {set_back}; do sleep 0.02; done"
    generator = agents.begun(f"{answering(code())}; {wait}; echo '{sent}'; exec sleep 60")
    monkeypatch.setattr("verify.load.generator_hosts.now_us", lambda: int(go) - back_s * 1_000_000)
    set_back.touch()
    try:
        await_that(lambda: agents.board.cells(NAME)[Cell.SENT] == 50 or generator.refused, "it is counted")
        assert generator.refused == ""
    finally:
        generator.kill()


def test_the_files_of_a_host_have_a_bound_together(tmp_path: Path) -> None:
    pipe = io.BytesIO(file(LEDGER, b"x" * 60) + file(LEDGER.replace("-0.", "-1."), b"x" * 60))
    with pytest.raises(UntrustedError, match="more than its processes can have written"):
        take_files(pipe, {NAME: processes(load())[NAME]}, tmp_path, 100)


def test_what_crashes_or_uses_up_a_reader_is_the_readers_own_process(tmp_path: Path) -> None:
    wanted = {"x.parquet": {"table": "ledger", "values": {}}}
    huge = to_table(arrow_schema("ledger"), {**GOOD, "seq": list(range(table.ROWS + 1))})
    pq.write_table(huge, tmp_path / "x.parquet")
    done = subprocess.run(
        [sys.executable, "-m", "kedge.evidence.border.table", str(tmp_path)],
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "x.parquet: it has more than 2,000,000 rows\n")


def test_the_standard_error_of_a_host_cannot_fill_the_disk(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verify.load.generator_hosts.LOG_BYTES", 10_000)
    generator = agents.begun(f"{answering(code())}; exec yes x >&2")
    assert generator.workers[NAME].wait(30) == 255
    assert (agents.folder / "logs" / "generator-load1.log").stat().st_size <= 10_000


@pytest.mark.parametrize("arrived", ["", "printf '{'; ", """printf '{"clock": 1, "code": "x"}'; """])
def test_a_line_that_does_not_end_is_not_waited_for(
    agents: Agents, monkeypatch: pytest.MonkeyPatch, arrived: str
) -> None:
    monkeypatch.setattr("verify.load.generator_hosts._ANSWER_S", 0.2)
    with pytest.raises(LoadError, match=r"load1 does not begin: it ends no line within 0\.2 s$"):
        agents.begun(f"{arrived}exec sleep 60")
