"""The order of records that were sent by REST, of one producer in one partition.

The functions run in Spark's Python workers and depend on numpy and pyarrow alone.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

SCHEMA: Final = (
    "topic string, partition int, producer int, seq long, offset long, after_seq long, after_offset long"
)
_KEYS: Final = ("topic", "partition", "producer")


def out_of_order(rows: Any) -> Any:
    """Return the records that stand before one that they had to follow, with that one's place.

    Requests in flight at once have no order. What is promised: the records of one request (same time of
    sending, and instance) keep the order of its array; and a request that was sent after another had been
    answered lies behind it.

    Args:
        rows: an Arrow table of topic, partition and producer (the same in all rows), seq, offset, sent_us,
            acked_us, instance: acknowledged records, each once.
    """
    seq, offset, acked = (rows[name].to_numpy() for name in ("seq", "offset", "acked_us"))
    unsent = rows["sent_us"].is_null().to_numpy()
    sent = rows["sent_us"].fill_null(0).to_numpy()
    instance = rows["instance"].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    found, after = _within(seq, offset, sent, instance, unsent)
    late, before = _behind(offset, sent, acked, unsent)
    # A record may stand wrongly in both ways: once is enough.
    which, first = np.unique(np.concatenate((found, late)), return_index=True)
    other = np.concatenate((after, before))[first]
    columns = {name: rows[name].take(pa.array(which)) for name in (*_KEYS, "seq", "offset")}
    return pa.table(columns | {"after_seq": pa.array(seq[other]), "after_offset": pa.array(offset[other])})


def _within(seq: Any, offset: Any, sent: Any, instance: Any, unsent: Any) -> tuple[Any, Any]:
    """Return rows with a lower number than the one before them in their request, and the one before."""
    order = np.lexsort((offset, instance, sent, unsent))
    one, two = order[:-1], order[1:]
    same = (sent[one] == sent[two]) & (instance[one] == instance[two]) & (unsent[one] == unsent[two])
    wrong = same & (seq[two] < seq[one])
    return two[wrong], one[wrong]


def _behind(offset: Any, sent: Any, acked: Any, unsent: Any) -> tuple[Any, Any]:
    """Return rows before the last that had been answered when they were sent, and that last one."""
    by_answer = np.argsort(acked, kind="stable")
    last = np.maximum.accumulate(offset[by_answer])
    # How many had been answered before it was sent; what comes in the same microsecond has not.
    answered = np.searchsorted(acked[by_answer], sent, side="left")
    some = np.flatnonzero((answered > 0) & ~unsent)
    some = some[last[answered[some] - 1] > offset[some]]
    by_place = np.argsort(offset, kind="stable")
    other = by_place[np.searchsorted(offset[by_place], last[answered[some] - 1])]
    return some, other
