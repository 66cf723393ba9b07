"""Rows for what a producer that died had in flight: their outcome is unknown, and the ledger says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from kedge.evidence.writing import write_table
from verify.load.actors import Lane
from verify.load.records import Encoder
from verify.load.schedule import Longs, due_us

REASON = "the producer's process ended before it wrote what became of the record"


def missing(evidence: Path, lane: Lane, sent: int) -> Longs:
    """Return the seqs below ``sent`` (records that may have left) for which the ledger has no row."""
    told = np.zeros(sent, bool)
    for path in (evidence / "ledger").glob(f"{lane.actor}-*.parquet"):
        seq = pq.read_table(path, columns=["seq"])["seq"].to_numpy()
        told[seq[(seq >= 0) & (seq < sent)]] = True
    return np.flatnonzero(~told).astype(np.int64)


def mend_ledger(evidence: Path, tag: bytes, lane: Lane, sent: int, start_us: int) -> int:
    """Add unknown rows for the records that may have left and have none; return how many."""
    seq = missing(evidence, lane, sent)
    if not len(seq):
        return 0
    intended = due_us(start_us, lane.rate, seq, lane.per_request)
    _, crc = Encoder(tag, lane.producer, lane.record_bytes).encode(seq, intended)
    columns = {
        "producer": lane.producer,
        "seq": seq,
        "topic": lane.topic,
        "crc": crc,
        "bytes": lane.record_bytes,
        "intended_us": intended,
        "outcome": "unknown",
        "error": REASON,
        "via": lane.via,
    }
    write_table(evidence, "ledger", f"{lane.actor}-mended", columns)
    return len(seq)
