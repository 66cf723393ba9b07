"""Evidence files: whole or not there, numbered on, and never against the contract."""

from __future__ import annotations

import errno
import os
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from kedge.evidence.errors import EvidenceError
from kedge.evidence.files import replace_text
from kedge.evidence.listing import files_of
from kedge.evidence.release import RUN_SCHEMA
from kedge.evidence.run import Cluster, parse_run
from kedge.evidence.tables import arrow_schema
from kedge.evidence.writing import EvidenceWriter, rows_to_columns, to_table, write_table
from spark_checks.engine.spark_types import TABLES
from tests.kills import killed_at

STATE: dict[str, Any] = {"group": "g", "state": "Stable", "members": 2, "assigned": 12}


def read(evidence: Path, table: str) -> Any:
    return pq.ParquetDataset(evidence / table, schema=arrow_schema(table)).read()


def test_rows_come_back_with_the_schema_of_the_contract(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path, "group_states", "w")
    writer.append({**STATE, "at_us": [1, 2]})
    writer.append({**STATE, "at_us": np.array([3])})
    writer.close()
    table = read(tmp_path, "group_states")
    assert table.schema.equals(arrow_schema("group_states"))
    assert table["at_us"].to_pylist() == [1, 2, 3]
    assert table["group"].to_pylist() == ["g"] * 3


def test_a_file_that_is_replaced_is_whole_wherever_its_writer_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    replace_text(file, "old", private=True)
    assert file.stat().st_mode & 0o777 == 0o600
    for at in count():
        with killed_at(tmp_path, at) as kill:
            replace_text(file, "new")
        assert file.read_text() == ("old" if kill.killed else "new")
        if not kill.killed:
            break
    assert at > 1


def test_a_file_for_which_the_disk_is_too_full_is_named_and_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.json"
    replace_text(file, "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=str(file)):
        replace_text(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_takes_rows(tmp_path: Path, name: str) -> None:
    values = {"string": "x", "int32": 1, "int64": 1, "double": 0.5, "bool": True}
    row = {field.name: values[str(field.type)] for field in arrow_schema(name)}
    write_table(tmp_path, name, "w", rows_to_columns(name, [row, row]))
    assert read(tmp_path, name).num_rows == 2


def test_masked_values_are_nulls() -> None:
    seq = np.ma.MaskedArray(np.array([1, 2]), [False, True])
    columns = {"group": "g", "consumer": "c", "topic": "t", "partition": [0, 1], "offset": [5, 6]}
    table = to_table(arrow_schema("deliveries"), {**columns, "seq": seq, "received_us": 1, "via": "kafka"})
    assert table["seq"].to_pylist() == [1, None]
    assert table["producer"].to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({**STATE, "at_us": [1], "nonsense": 1}, "no such column: nonsense"),
        ({**STATE}, "number of rows"),
        ({"group": "g", "at_us": [1]}, "column state is missing"),
        ({**STATE, "at_us": [1], "state": [None]}, "column state has 1 nulls"),
    ],
)
def test_columns_against_the_contract_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_table(arrow_schema("group_states"), columns)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        to_table(arrow_schema("group_states"), {**STATE, "at_us": [1, 2], "members": [1, 2, 3]})


def test_file_is_begun_when_its_time_has_come(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path, "group_states", "w", rotate_s=0)
    for at_us in range(3):
        writer.append({**STATE, "at_us": [at_us]})
    writer.flush()
    assert names(tmp_path) == ["w-0.parquet", "w-1.parquet", "w-2.parquet"]
    writer.close()


def test_a_writer_that_ends_merges_its_files_and_keeps_the_order_of_rows(tmp_path: Path) -> None:
    for begin in (0, 12):
        writer = EvidenceWriter(tmp_path, "group_states", "w", rotate_s=0)
        for at_us in range(begin, begin + 12):
            writer.append({**STATE, "at_us": [at_us]})
        writer.close()
    # What an earlier writer of the name left is not touched.
    assert names(tmp_path) == ["w-0.parquet", "w-1.parquet"]
    rows = [pq.read_table(tmp_path / "group_states" / name)["at_us"].to_pylist() for name in names(tmp_path)]
    assert rows == [[*range(12)], [*range(12, 24)]]


def test_files_are_merged_up_to_the_rows_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = EvidenceWriter(tmp_path, "group_states", "w", rotate_s=0)
    for at_us in range(5):
        writer.append({**STATE, "at_us": [at_us]})
    monkeypatch.setattr("kedge.evidence.writing.ROTATE_ROWS", 2)
    writer.close()
    assert names(tmp_path) == ["w-0.parquet", "w-2.parquet", "w-4.parquet"]


def test_files_that_cannot_be_merged_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = EvidenceWriter(tmp_path, "group_states", "w", rotate_s=0)
    for at_us in range(2):
        writer.append({**STATE, "at_us": [at_us]})
    writer.flush()

    def full(_table: Any, path: Path, **_options: Any) -> None:
        path.write_bytes(b"PAR1 and then the disk was full")
        raise OSError("no space left on device")

    monkeypatch.setattr("kedge.evidence.writing.pq.write_table", full)
    writer.close()
    assert names(tmp_path) == ["w-0.parquet", "w-1.parquet"]
    assert sorted(read(tmp_path, "group_states")["at_us"].to_pylist()) == [0, 1]


def names(evidence: Path) -> list[str]:
    """Return the files of the table of group states that a reader looks at."""
    return sorted(path.name for path in (evidence / "group_states").glob("[!._]*"))


def test_files_are_listed_with_their_rows_as_they_are_closed_and_after_a_merge(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path, "group_states", "w", rotate_s=0)
    for at_us in range(3):
        writer.append({**STATE, "at_us": [at_us, at_us]})
    writer.flush()
    assert files_of(tmp_path) == {"group_states": {f"w-{number}.parquet": 2 for number in range(3)}}
    writer.close()
    write_table(tmp_path, "settings", "collect", rows_to_columns("settings", []))
    assert files_of(tmp_path) == {"group_states": {"w-0.parquet": 6}, "settings": {"collect-0.parquet": 0}}


def test_a_file_whose_writer_was_killed_before_it_listed_it_counts_as_it_is(tmp_path: Path) -> None:
    for at_us in (1, 2):
        write_table(tmp_path, "group_states", "w", {**STATE, "at_us": [at_us]})
    folder = tmp_path / "group_states"
    listed = folder / "_w.files"
    # Killed in the middle of a line, and another one of its name went on.
    listed.write_text(listed.read_text()[:-4])
    write_table(tmp_path, "group_states", "w", {**STATE, "at_us": [3, 4]})
    (folder / "w-0.parquet").unlink()
    assert files_of(tmp_path) == {"group_states": {"w-0.parquet": 1, "w-1.parquet": 1, "w-2.parquet": 2}}


def test_rows_are_durable_only_once_their_file_is_there(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path, "group_states", "w", rotate_s=3600)
    writer.append({**STATE, "at_us": [1]})
    number = writer.newest()
    assert not writer.durable(number)
    writer.flush()
    assert writer.durable(number)
    assert (tmp_path / "group_states" / f"w-{number}.parquet").is_file()
    # Nothing was gathered since: all that was appended is safe.
    assert writer.newest() == number
    writer.append({**STATE, "at_us": [2]})
    assert writer.newest() == number + 1
    writer.close()


def test_a_later_writer_of_the_name_keeps_what_the_first_one_wrote(tmp_path: Path) -> None:
    for at_us in (1, 2):
        writer = EvidenceWriter(tmp_path, "group_states", "w")
        writer.append({**STATE, "at_us": [at_us]})
        writer.close()
    assert sorted(read(tmp_path, "group_states")["at_us"].to_pylist()) == [1, 2]


def test_half_written_file_is_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_table: Any, path: Path, **_options: Any) -> None:
        path.write_bytes(b"PAR1 and then the disk was full")
        raise OSError("no space left on device")

    monkeypatch.setattr("kedge.evidence.writing.pq.write_table", broken)
    writer = EvidenceWriter(tmp_path, "group_states", "w")
    writer.append({**STATE, "at_us": [1]})
    with pytest.raises(OSError, match="no space"):
        writer.close()
    assert [path.name for path in (tmp_path / "group_states").iterdir() if path.name[0] != "."] == []


def test_writer_that_cannot_write_says_so_at_the_next_rows(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path, "group_states", "w", rotate_s=3600)
    writer.append({**STATE, "at_us": ["not a number"]})
    writer.rotate()
    with pytest.raises((ValueError, TypeError)):
        writer.flush()


#: run.json as it was written before its form had a version.
OLDER_RUN = """{
  "run_id": "20260101T000000Z", "started_us": 1, "ended_us": 9, "warm_up_us": 2, "measured_until_us": 8,
  "clusters": {"leaf": {"bootstrap_servers": "leaf:9092"}},
  "topics": [{"cluster": "leaf", "topic": "orders", "partitions": 1, "start_offsets": {"0": 0}, "end_offsets": {"0": 5}}],
  "producers": {"1": {"via": "kafka", "topic": "orders"}}, "groups": {}
}"""


def test_a_run_from_before_its_form_had_a_version_is_read_as_now() -> None:
    now = OLDER_RUN.replace("{", f'{{"schema": {RUN_SCHEMA},', 1)
    assert parse_run(OLDER_RUN, "run.json") == parse_run(now, "run.json")


def test_a_run_of_a_later_form_is_refused() -> None:
    later = OLDER_RUN.replace("{", f'{{"schema": {RUN_SCHEMA + 1},', 1)
    with pytest.raises(EvidenceError, match=r"run\.json: schema: 2 is of a later release"):
        parse_run(later, "run.json")


def test_of_the_client_of_somebody_elses_run_what_connects_is_taken_and_nothing_that_runs() -> None:
    connects = {
        "bootstrap.servers": "k:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.principal": "kit/host@EXAMPLE.NET",
        "ssl.ca.location": "/etc/ca.pem",
        "socket.timeout.ms": 1000,
    }
    runs = {
        "plugin.library.paths": "/tmp/evil.so",
        "sasl.kerberos.kinit.cmd": "id",
        "ssl.engine.location": "/tmp/evil.so",
        "ssl.providers": "evil",
        "debug": "all",
    }
    assert Cluster(bootstrap_servers="k:9092", client=connects | runs).client == connects
    with pytest.raises(ValidationError, match="a shell reads it"):
        Cluster(bootstrap_servers="k:9092", client={"sasl.kerberos.principal": "a; id"})
