"""Ordered rows as runs: what a window would find, without sorting what is in order already.

Evidence files hold rows nearly in the order in which things happened. A window shuffles and sorts all of
them; this looks once at each Arrow batch and keeps a row for every stretch that is in order, so that only
stretches are compared afterwards. This is the audit's one function in Python: lab/measurements/audit.md has
the time of both forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.engine.session import ship

_SCHEMA: Final = "code long, first_order long, last_order long, first_value long, last_value long"

ship(__name__)


def runs(rows: DataFrame, keys: Sequence[str], order: str, value: str, *, consecutive: bool) -> DataFrame:
    """Return the runs of rows: stretches of one key, ascending in ``order``, whose ``value`` ascends too.

    Args:
        rows: keys, order and value, the latter two 64 bits wide and never null.
        keys: whose rows are a sequence.
        order: what puts the rows of a key in order.
        value: what has to ascend along it.
        consecutive: whether it has to ascend by exactly one.

    Returns:
        ``code`` (of the key: see :func:`code_of`), first_order, last_order, first_value, last_value; and
        before_order and before_value, the ends of the key's run before, null for its first.
    """
    found = rows.select(code_of(keys).alias("code"), order, value).mapInArrow(_folder(consecutive), _SCHEMA)
    # Few rows are left: one a key and batch, and one more for each place where the order breaks.
    by_key = Window.partitionBy("code").orderBy("first_order", "first_value")
    return found.withColumns({
        "before_order": F.lag("last_order").over(by_key),
        "before_value": F.lag("last_value").over(by_key),
    })  # fmt: skip


def code_of(keys: Sequence[str]) -> Any:
    """Return a key as a number: texts cost more on the way to Python than all else does."""
    return F.xxhash64(*keys)


def _folder(consecutive: bool) -> Any:
    """Return the function for ``mapInArrow``; workers get it by value, and need numpy and pyarrow alone."""

    def fold(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                yield _fold(batch, consecutive)

    return fold


def _fold(batch: Any, consecutive: bool) -> Any:
    codes = batch.column(0).dictionary_encode()
    key = codes.indices.to_numpy(zero_copy_only=False)
    at = batch.column(1).to_numpy(zero_copy_only=False)
    what = batch.column(2).to_numpy(zero_copy_only=False)
    # numpy sorts 16 bits by radix, and keeps the order of rows that are in order.
    rows = np.argsort(key.astype(np.uint16) if len(codes.dictionary) <= 1 << 16 else key, kind="stable")
    key, at, what = key[rows], at[rows], what[rows]
    same = key[1:] == key[:-1]
    tied_back = (at[1:] == at[:-1]) & (what[1:] < what[:-1])
    if bool((same & ((at[1:] < at[:-1]) | tied_back)).any()):
        again = np.lexsort((what, at, key))
        key, at, what = key[again], at[again], what[again]
    ahead = what[1:] == what[:-1] + 1 if consecutive else what[1:] > what[:-1]
    first = np.concatenate(([0], np.flatnonzero(~(same & ahead)) + 1))
    last = np.concatenate((first[1:], [len(key)])) - 1
    code = codes.dictionary.to_numpy(zero_copy_only=False)[key[first]]
    columns = (code, at[first], at[last], what[first], what[last])
    names = ["code", "first_order", "last_order", "first_value", "last_value"]
    return pa.RecordBatch.from_arrays([pa.array(column, type=pa.int64()) for column in columns], names=names)
