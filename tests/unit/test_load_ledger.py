"""The ledger: an outcome for every record that was meant to be sent, and never a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from kedge.evidence.load_options import LoadSpec
from kedge.evidence.record import run_tag
from kedge.evidence.writing import EvidenceWriter
from verify.load.actors import Lane
from verify.load.board import Board, Cell
from verify.load.ledger import ACKED, FAILED, NEVER_SENT, NO_ANSWER, UNKNOWN, Ledger
from verify.load.progress import costs
from verify.load.unfinished import REASON, mend_ledger, missing

LANE = Lane("kafka-producer-0", 0, "kafka", "t", 1000.0, 50, 1)
BLOCK = 4


class Book:
    """A ledger with two blocks opened, and its rows read back."""

    def __init__(self, folder: Path) -> None:
        self.evidence = folder
        self.cells = np.zeros(len(Cell), np.int64)
        self.writer = EvidenceWriter(folder, "ledger", LANE.actor)
        self.ledger = Ledger(self.writer, LANE, self.cells, BLOCK)
        for first in (0, BLOCK):
            self.ledger.add(first, np.arange(first, first + BLOCK) * 10, np.arange(BLOCK) + 100)

    def rows(self, end: int) -> pd.DataFrame:
        self.ledger.close(end)
        self.writer.close()
        return read(self.evidence)


def read(evidence: Path) -> pd.DataFrame:
    return pq.read_table(evidence / "ledger").to_pandas().sort_values("seq").set_index("seq")


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def acked(book: Book, seq: list[int], offset: list[int], at_us: int = 77) -> None:
    book.ledger.settle(np.array(seq), ACKED, np.zeros(len(seq), np.int32), np.array(offset), at_us)


def test_a_generators_own_time_is_what_its_service_did_not_cause(book: Book) -> None:
    # Due at 0, 10, 20 and 30; the service took nothing until 15.
    book.ledger.sent(0, 4, 40, free_us=15)
    acked(book, [0, 3], [10, 13], at_us=100)
    assert book.cells[Cell.OWN_US] == 25 + 10
    assert book.cells[Cell.TOOK_US] == 100 + 70
    # Of what has no answer nothing is known.
    book.ledger.settle(np.array([1, 2]), UNKNOWN)
    assert book.cells[Cell.OWN_US] == 25 + 10


def test_acknowledgements_that_took_too_long_are_counted_after_the_warm_up(tmp_path: Path) -> None:
    cells = np.zeros(len(Cell), np.int64)
    ledger = Ledger(EvidenceWriter(tmp_path, "ledger", LANE.actor), LANE, cells, BLOCK)
    load = {"run_id": "r", "cluster": "c", "bootstrap_servers": "x:1", "warm_up_s": 1e-5, "late_ms": 0.07}
    ledger.count_late(0, LoadSpec.model_validate(load))
    ledger.add(0, np.arange(BLOCK) * 10, np.zeros(BLOCK, np.int64))
    ledger.sent(0, BLOCK, 40)
    # Due at 0, which is in the warm-up, 10, 20 and 30.
    ledger.settle(np.array([0, 1, 2]), ACKED, np.zeros(3, np.int32), np.arange(3), 95)
    ledger.settle(np.array([3]), UNKNOWN)
    assert cells[Cell.LATE] == 2
    ledger.add(BLOCK, np.arange(BLOCK) * 10 + 40, np.zeros(BLOCK, np.int64))
    ledger.settle(np.array([BLOCK]), ACKED, np.zeros(1, np.int32), np.arange(1), 100)
    assert cells[Cell.LATE] == 2


def test_the_time_of_a_full_block_of_today_fits_its_cell(tmp_path: Path) -> None:
    # Times since the epoch of 8,192 records do not fit 64 bits when they are added up; what they took does.
    due_us, count, cells = 1_795_000_000_000_000, 8192, np.zeros(len(Cell), np.int64)
    ledger = Ledger(EvidenceWriter(tmp_path, "ledger", LANE.actor), LANE, cells, count)
    ledger.add(0, np.full(count, due_us), np.zeros(count, np.int64))
    ledger.sent(0, count, due_us + 100)
    ledger.settle(np.arange(count), ACKED, np.zeros(count, np.int32), np.arange(count), due_us + 300)
    assert (cells[Cell.OWN_US], cells[Cell.TOOK_US]) == (100 * count, 300 * count)


def test_the_load_tells_its_own_share_of_the_time_of_each_kind(tmp_path: Path) -> None:
    part = {"topic": "t", "records_per_s": 1, "producers": 2, "consumers": 0}
    load = LoadSpec.model_validate({"run_id": "r", "cluster": "c", "bootstrap_servers": "x:1", "kafka": part})
    board = Board(tmp_path, ["kafka-producer-0", "kafka-producer-1"], create=True)
    for number, own_ms in enumerate((10, 30)):
        cells = board.cells(f"kafka-producer-{number}")
        cells[Cell.SENT] = cells[Cell.ACKED] = 100
        cells[Cell.OWN_US], cells[Cell.TOOK_US] = 100 * own_ms * 1000, 100 * 80 * 1000
    told = costs(load, board)["kafka-producer"]
    assert (told["own_share"], told["own_ms"], told["records"]) == (0.25, 20.0, 200)


def test_acked_record_has_its_place_and_time(book: Book) -> None:
    book.ledger.sent(0, 4, 50)
    acked(book, [2, 1], [12, 11])
    rows = book.rows(3)
    assert rows.loc[2, ["partition", "offset", "acked_us", "sent_us", "outcome"]].tolist() == [
        0,
        12,
        77,
        50,
        "acked",
    ]
    assert rows.loc[1, ["intended_us", "crc", "bytes", "topic", "via"]].tolist() == [
        10,
        101,
        50,
        "t",
        "kafka",
    ]


def test_answers_of_several_blocks_at_once_find_their_records(book: Book) -> None:
    book.ledger.sent(0, 4, 50)
    book.ledger.sent(4, 8, 60)
    acked(book, [7, 0, 4, 3, 1, 2, 5, 6], [7, 0, 4, 3, 1, 2, 5, 6])
    rows = book.rows(8)
    assert rows["offset"].tolist() == list(range(8))
    assert rows["sent_us"].tolist() == [50] * 4 + [60] * 4
    assert book.cells[Cell.ACKED] == 8
    assert book.cells[Cell.BYTES] == 8 * LANE.record_bytes


def test_record_sent_without_an_answer_is_unknown_and_one_never_sent_failed(book: Book) -> None:
    book.ledger.sent(0, 2, 50)
    acked(book, [0], [10])
    rows = book.rows(3)
    assert rows["outcome"].tolist() == ["acked", "unknown", "failed"]
    assert rows["error"].fillna("").tolist() == ["", NO_ANSWER, NEVER_SENT]
    assert rows["offset"].isna().tolist() == [False, True, True]
    assert rows["sent_us"].isna().tolist() == [False, False, True]


def test_record_that_was_not_due_before_the_end_has_no_row(book: Book) -> None:
    book.ledger.sent(0, 4, 50)
    acked(book, [0, 1, 2, 3], [0, 1, 2, 3])
    assert book.rows(5).index.tolist() == [0, 1, 2, 3, 4]


def test_first_answer_counts(book: Book) -> None:
    book.ledger.sent(0, 4, 50)
    acked(book, [0], [10])
    book.ledger.settle(np.array([0]), UNKNOWN, error="late")
    rows = book.rows(1)
    assert rows.loc[0, "outcome"] == "acked"
    assert rows["error"].isna().all()
    assert book.cells[Cell.UNKNOWN] == 0


def test_failed_record_says_why_and_who_answered(book: Book) -> None:
    book.ledger.sent(0, 4, 50)
    book.ledger.settle(np.array([0, 1, 2, 3]), FAILED, at_us=9, error="too large", instance="10.0.0.1:8082")
    rows = book.rows(4)
    assert set(rows["error"]) == {"too large"}
    assert set(rows["instance"]) == {"10.0.0.1:8082"}
    assert rows["acked_us"].isna().all()
    assert book.cells[Cell.FAILED] == 4


def test_mending_gives_unknown_rows_to_what_a_dead_producer_had_sent(book: Book, tmp_path: Path) -> None:
    book.ledger.sent(0, 4, 50)
    acked(book, [0, 1, 2, 3], [0, 1, 2, 3])
    book.writer.flush()  # the block that was settled is on disk; then the process dies with 4 and 5 in flight
    start_us = 1_000_000
    assert missing(tmp_path, LANE, 6).tolist() == [4, 5]
    assert mend_ledger(tmp_path, run_tag("r"), LANE, 6, start_us) == 2
    rows = read(tmp_path)
    assert rows["outcome"].tolist() == ["acked"] * 4 + ["unknown"] * 2
    assert rows.loc[5, ["error", "intended_us"]].tolist() == [REASON, start_us + 5000]
    assert mend_ledger(tmp_path, run_tag("r"), LANE, 6, start_us) == 0


def test_board_is_seen_by_whoever_opens_it(tmp_path: Path) -> None:
    Board(tmp_path, ["a", "b"], create=True).cells("b")[Cell.SENT] = 7
    board = Board(tmp_path, ["a", "b"])
    assert board.cells("b")[Cell.SENT] == 7
    assert board.total(Cell.SENT) == 7
    seen: Any = board.head
    assert not seen.any()
