"""Sums by key of a table's rows, batch by batch where the rows lie, so that little is left to be added up.

The functions run in Spark's Python workers and depend on pyarrow alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

#: Counts rows.
ONE: Final = pc.scalar(pa.scalar(1, pa.int64()))


@dataclass(frozen=True)
class Aggregate:
    """An aggregation of a table, in pyarrow's expressions.

    Attributes:
        table: its name.
        columns: those that the expressions name.
        where: which rows count; None: all.
        keys: name -> expression.
        values: name -> (expression, sum, min or max), none of them null where the row counts, 64 bits.
    """

    table: str
    columns: tuple[str, ...]
    where: Any
    keys: Mapping[str, Any]
    values: Mapping[str, tuple[Any, str]]


def aggregated(rows: Any, how: Aggregate) -> Any:
    """Return the sums of an Arrow table's rows: a row a key."""
    columns = {**how.keys, **{name: value for name, (value, _) in how.values.items()}}
    found = ds.dataset(rows).to_table(columns=columns, filter=how.where, use_threads=False)
    # Arrow groups by a dictionary's numbers several times as fast as by the dictionary.
    texts: dict[str, Any] = {}
    for at, field in enumerate(found.schema):
        if pa.types.is_dictionary(field.type) and found.num_rows:
            whole = found[field.name].unify_dictionaries()
            texts[field.name] = whole.chunk(0).dictionary
            numbers = pa.chunked_array([chunk.indices for chunk in whole.chunks])
            found = found.set_column(at, field.name, numbers)
    sums = added_up([found], how)
    for at, name in enumerate(sums.column_names):
        if name in texts:
            sums = sums.set_column(at, name, texts[name].take(sums[name].combine_chunks()))
    return sums


def added_up(parts: Sequence[Any], how: Aggregate) -> Any:
    """Return parts as one, a row a key: of rows, or of sums of rows."""
    whole = pa.concat_tables([_plain(part) for part in parts] if len(parts) > 1 else parts)
    asked = [(name, kind) for name, (_, kind) in how.values.items()]
    found = whole.group_by(list(how.keys), use_threads=False).aggregate(asked)
    columns = {name: found[name] for name in how.keys}
    columns |= {name: found[f"{name}_{kind}"].cast(pa.int64()) for name, kind in asked}
    # What is grouped lies in chunks of 32,768 rows of the same buffers, and each is pickled with all of them.
    return _plain(pa.table(columns)).combine_chunks()


def _plain(table: Any) -> Any:
    """Batches have dictionaries of their own, and tables of different ones cannot be put together."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, table[field.name].cast(pa.string()))
    return table


def second(at: str, begin_us: int, width_s: int = 1) -> Any:
    """Return the whole second since then that a time lies in, as 32 bits; or the first of ``width_s``."""
    since = pc.subtract(pc.field(at), begin_us).cast(pa.float64())
    number = pc.floor(pc.divide(since, width_s * 1e6)).cast(pa.int32())
    return number if width_s == 1 else pc.multiply(number, width_s)


def mixed(*columns: str) -> Any:
    """Return a hash of 40 bits of some columns, whose sum over eight million rows is less than 2^63."""
    whole = _number(0)
    for column, odd in zip(columns, (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03), strict=True):
        # Products and sums of whole numbers in Arrow are those modulo 2^64.
        whole = pc.add(whole, pc.multiply(pc.field(column).cast(pa.uint64(), safe=False), _number(odd)))
    whole = pc.bit_wise_xor(whole, pc.shift_right(whole, _number(32)))
    return pc.shift_right(pc.multiply(whole, _number(0xBF58476D1CE4E5B9)), _number(24)).cast(pa.int64())


def _number(value: int) -> Any:
    return pc.scalar(pa.scalar(value, pa.uint64()))
