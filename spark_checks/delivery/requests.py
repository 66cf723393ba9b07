"""The order of records of a producer in a partition, as far as its interface promises it.

The functions run in Spark's Python workers and depend on numpy and pyarrow alone.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SCHEMA: Final = (
    "kind string, topic string, partition int, producer int, seq long, offset long, after_seq long, "
    "after_offset long, via string"
)
_KEYS: Final = ("topic", "partition", "producer")


def disordered(rows: Any) -> Any:
    """Return the records that stand before one that they had to follow, with that one's place.

    An idempotent producer keeps its order: the next record in a partition has a higher number. Of REST see
    :func:`by_request`.

    Args:
        rows: an Arrow table of topic, partition, producer, via, seq, offset, sent_us, acked_us, instance:
            acknowledged records, each once; of a partition and producer all that count.

    Returns:
        An Arrow table of the columns of :data:`SCHEMA`.
    """
    by_rest = pc.equal(rows["via"], "rest")
    found = [
        _found(name, part)
        for name, part in (("kafka", rows.filter(pc.invert(by_rest))), ("rest", rows.filter(by_rest)))
    ]
    return pa.concat_tables(found)


def _found(via: str, rows: Any) -> Any:
    which, other = [], []
    numbered = rows.select(_KEYS).append_column("row", pa.array(np.arange(len(rows))))
    for mine in numbered.group_by(list(_KEYS), use_threads=False).aggregate([("row", "list")])["row_list"]:
        at = mine.values.to_numpy()
        found, after = (by_request if via == "rest" else by_sequence)(rows.take(mine.values))
        which.append(at[found])
        other.append(at[after])
    nothing = [np.empty(0, np.int64)]
    wrong, before = (rows.take(pa.array(np.concatenate(nothing + some))) for some in (which, other))
    columns = {name: wrong[name] for name in (*_KEYS, "seq", "offset")}
    columns |= {"after_seq": before["seq"], "after_offset": before["offset"]}
    said = {"kind": pa.repeat("reordered", len(wrong)), **columns, "via": wrong["via"]}
    return pa.table(said)


def by_sequence(rows: Any) -> tuple[Any, Any]:
    """Return which rows of a partition and producer have a lower number than the one before, and that one."""
    order = np.argsort(rows["offset"].to_numpy(), kind="stable")
    seq = rows["seq"].to_numpy()[order]
    wrong = np.flatnonzero(seq[1:] < seq[:-1]) + 1
    return order[wrong], order[wrong - 1]


def by_request(rows: Any) -> tuple[Any, Any]:
    """Return which rows of a partition and producer stand before one that they had to follow, and that one.

    Requests in flight at once have no order. What is promised: the records of one request (same time of
    sending, and instance) keep the order of its array; and a request that was sent after another had been
    answered lies behind it.
    """
    seq, offset, acked = (rows[name].to_numpy() for name in ("seq", "offset", "acked_us"))
    unsent = rows["sent_us"].is_null().to_numpy()
    sent = rows["sent_us"].fill_null(0).to_numpy()
    instance = rows["instance"].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    found, after = _within(seq, offset, sent, instance, unsent)
    late, before = _behind(offset, sent, acked, unsent)
    # A record may stand wrongly in both ways: once is enough.
    which, first = np.unique(np.concatenate((found, late)), return_index=True)
    return which, np.concatenate((after, before))[first]


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
