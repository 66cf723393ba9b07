"""Sums by key of a table's rows, batch by batch where the rows lie, so that little is left to be added up.

The functions run in workers (engine/workers.py, or Spark's) and depend on numpy and pyarrow alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

#: Counts rows.
ONE: Final = pc.scalar(pa.scalar(1, pa.int64()))
#: Three significant digits: what is below a bound is told in steps of so much, and beyond the last in these.
_BELOW: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_STEPS: Final = np.array([1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0])
#: Of a key with more values than this, the parts that hold each are not told apart.
_MOST_VALUES: Final = 1 << 24


@dataclass(frozen=True)
class Aggregate:
    """An aggregation of a table, in pyarrow's expressions.

    Attributes:
        table: its name.
        columns: those that the expressions name.
        where: which rows count; None: all.
        keys: name -> expression.
        values: name -> (expression, sum, min or max), none of them null where the row counts, 64 bits.
        rounded: further keys -> the value that each is, rounded up (:func:`rounded`).
        along: some of the keys, the last of them a whole number that rises with the rows, as time does: most
            values of these are in one part alone, and its rows are not added up again.
    """

    table: str
    columns: tuple[str, ...]
    where: Any
    keys: Mapping[str, Any]
    values: Mapping[str, tuple[Any, str]]
    rounded: Mapping[str, str] = field(default_factory=dict)
    along: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all keys."""
        return (*self.keys, *self.rounded)


def aggregated(rows: Any, how: Aggregate) -> Any:
    """Return the sums of an Arrow table's rows: a row a key."""
    columns = {**how.keys, **{name: value for name, (value, _) in how.values.items()}}
    found = ds.dataset(rows).to_table(columns=columns, filter=how.where, use_threads=False)
    for name, value in how.rounded.items():
        found = found.append_column(name, pa.array(rounded(found[value].to_numpy())))
    # Arrow groups by a dictionary's numbers several times as fast as by the dictionary.
    texts: dict[str, Any] = {}
    for at, column in enumerate(found.schema):
        if pa.types.is_dictionary(column.type) and found.num_rows:
            whole = found[column.name].unify_dictionaries()
            texts[column.name] = whole.chunk(0).dictionary
            numbers = pa.chunked_array([chunk.indices for chunk in whole.chunks])
            found = found.set_column(at, column.name, numbers)
    sums = added_up([found], how)
    for at, name in enumerate(sums.column_names):
        if name in texts:
            sums = sums.set_column(at, name, texts[name].take(sums[name].combine_chunks()))
    return sums


def added_up(parts: Sequence[Any], how: Aggregate) -> Any:
    """Return parts as one, a row a key: one part of rows, or several of sums, each with a row a key."""
    if len(parts) == 1:
        return _grouped(parts[0], how)
    whole = pa.concat_tables([_plain(part) for part in parts])
    if not how.along:
        return _grouped(whole, how)
    several = _several(whole, [part.num_rows for part in parts], how.along)
    again = _grouped(whole.filter(pa.array(several)), how)
    return pa.concat_tables([again, whole.filter(pa.array(~several))]).combine_chunks()


def _grouped(rows: Any, how: Aggregate) -> Any:
    asked = [(name, kind) for name, (_, kind) in how.values.items()]
    found = rows.group_by(list(how.names), use_threads=False).aggregate(asked)
    columns = {name: found[name] for name in how.names}
    columns |= {name: found[f"{name}_{kind}"].cast(pa.int64()) for name, kind in asked}
    # What is grouped lies in chunks of 32,768 rows of the same buffers, and each is pickled with all of them.
    return _plain(pa.table(columns)).combine_chunks()


def _several(whole: Any, lengths: Sequence[int], along: Sequence[str]) -> Any:
    """Return which rows have values of these keys that more than one part holds."""
    *others, name = along
    number = whole[name].cast(pa.int64())
    low = pc.min(number).as_py() or 0
    # A null is told as the number below the least.
    code = number.fill_null(low - 1).to_numpy() - (low - 1)
    values = int(code.max(initial=0)) + 1
    for other in others:
        kinds = whole[other].combine_chunks().dictionary_encode()
        code += kinds.indices.fill_null(len(kinds.dictionary)).to_numpy().astype(np.int64) * values
        values *= len(kinds.dictionary) + 1
    if values > _MOST_VALUES:
        return np.ones(len(code), bool)
    part = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    first, last = np.zeros(values, np.int32), np.zeros(values, np.int32)
    last[code] = part
    first[code[::-1]] = part[::-1]
    return (first != last)[code]


def _plain(table: Any) -> Any:
    """Batches have dictionaries of their own, and tables of different ones cannot be put together."""
    for at, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(at, column.name, table[column.name].cast(pa.string()))
    return table


def second(at: str, begin_us: int, width_s: int = 1) -> Any:
    """Return the whole second since then that a time lies in, as 32 bits; or the first of ``width_s``."""
    since = pc.subtract(pc.field(at), begin_us).cast(pa.float64())
    number = pc.floor(pc.divide(since, width_s * 1e6)).cast(pa.int32())
    return number if width_s == 1 else pc.multiply(number, width_s)


def rounded(took: Any) -> Any:
    """Round whole numbers up to three significant digits: what is told is never better than what was."""
    # Floating point divides several times as fast as whole numbers do, and exactly where there is no rest.
    step = _STEPS[sum((took >= below).view(np.int8) for below in _BELOW)]
    return (np.ceil(took / step) * step).astype(np.int64)


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
