"""Files of Parquet that were tampered with are refused by the process that looks into them, or break it alone."""

from __future__ import annotations

import io
import json
import random
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kedge.evidence.border.load_generator import _look_into
from kedge.evidence.border.untrusted import UntrustedError
from kedge.evidence.tables import arrow_schema
from kedge.evidence.writing import to_table
from tests.hostile_agent import NAME, load
from tests.untrusted import ROOT
from verify.load.actors import processes

pytestmark = pytest.mark.process

PATH = f"evidence/ledger/{NAME}-0.parquet"
#: Reads each file as the process does, and says what came of it; a crash says nothing more.
READ = """
import json, sys
from pathlib import Path
from kedge.evidence.border.untrusted import UntrustedError
from kedge.evidence.border.table import look_into
values = json.load(sys.stdin)
for path in sorted(Path(sys.argv[1]).glob("*.parquet")):
    print("begun", path.name, flush=True)
    try:
        look_into(path, "ledger", values)
    except UntrustedError as error:
        assert str(error).isprintable()
    print("done", path.name, flush=True)
"""


def good() -> bytes:
    columns = {
        "producer": 0, "seq": [0, 1, 2], "topic": "t", "crc": 1, "bytes": 100, "intended_us": 1, "outcome": "acked",
        "via": "kafka", "error": ["a", None, "b"], "partition": 0, "offset": 5,
    }  # fmt: skip
    buffer = io.BytesIO()
    pq.write_table(to_table(arrow_schema("ledger"), columns), buffer)
    return buffer.getvalue()


def tampered(draw: random.Random, content: bytes) -> bytes:
    """Return it with some bytes otherwise: mostly at its end, where its columns are described."""
    made = bytearray(content)
    for _ in range(draw.randrange(1, 6)):
        at = (
            draw.randrange(len(made))
            if draw.random() < 0.3
            else draw.randrange(len(made) * 2 // 3, len(made))
        )
        made[at] = draw.choice([0, 1, 0x7F, 0x80, 0xFF, made[at] ^ 1 << draw.randrange(8)])
    if draw.random() < 0.1:
        del made[draw.randrange(len(made)) :]
    return bytes(made)


def test_a_table_that_was_tampered_with_is_a_refusal_and_no_other_error(tmp_path: Path) -> None:

    draw, content = random.Random(30), good()
    for number in range(400):
        (tmp_path / f"{number:03}.parquet").write_bytes(tampered(draw, content))
    own = processes(load())[NAME].tables["ledger"]
    values = json.dumps({name: sorted(known) for name, known in own.items()})
    left = 400
    while left:  # who breaks the reader is put aside, and the others are read
        done = subprocess.run(
            [sys.executable, "-c", READ, str(tmp_path)],
            input=values, capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr[-2_000:]
        said = done.stdout.splitlines()
        if done.returncode == 0:
            return
        assert done.returncode < 0, done.stderr
        (tmp_path / said[-1].split()[1]).unlink()
        left -= 1
    pytest.fail("every file broke the reader")


def test_a_small_file_that_is_gigabytes_in_memory_is_refused_within_bounds(tmp_path: Path) -> None:
    """One text of 2 MB in each of 1,300 rows, of which a dictionary makes a few bytes."""
    rows, schema = 1_300, arrow_schema("ledger")
    table = pq.read_table(io.BytesIO(good())).slice(0, 1).take([0] * rows)
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * (2 << 20)]))
    path = tmp_path / PATH
    path.parent.mkdir(parents=True)
    pq.write_table(
        table.set_column(schema.get_field_index("error"), "error", texts),
        path,
        compression="zstd",
        store_schema=False,
    )
    assert path.stat().st_size < 100_000
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with pytest.raises(UntrustedError, match="kafka-producer-0-0"):
        _look_into(tmp_path, {PATH: (NAME, "ledger")}, processes(load()))
    # In KiB, of the largest child so far: another test may have had a larger one.
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert most in (before, min(most, 1_200 << 10))


def test_a_table_as_large_as_a_writer_makes_one_is_taken(tmp_path: Path) -> None:
    """A million rows in one group, with numbers that no compression makes small."""
    rows, schema, draw = 1_000_000, arrow_schema("ledger"), np.random.default_rng(7)
    table = pq.read_table(io.BytesIO(good())).slice(0, 1).take(pa.array(np.zeros(rows, dtype=np.int64)))
    for name in ("seq", "intended_us", "sent_us", "acked_us", "offset"):
        field, numbers = schema.field(name), pa.array(draw.integers(0, 2**40, rows))
        table = table.set_column(schema.get_field_index(name), field, numbers.cast(field.type))
    path = tmp_path / PATH
    path.parent.mkdir(parents=True)
    pq.write_table(table.cast(schema), path, row_group_size=rows)
    _look_into(tmp_path, {PATH: (NAME, "ledger")}, processes(load()))
