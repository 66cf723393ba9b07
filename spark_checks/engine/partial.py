"""Tables aggregated where they lie, batch by batch, so that Spark only has to add up what is left.

The functions run in Spark's Python workers and depend on pyarrow alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

#: Rows that a worker holds at a time.
_BATCH: Final = 1 << 18


@dataclass(frozen=True)
class Aggregate:
    """An aggregation of a table, in pyarrow's expressions.

    Attributes:
        schema: the table's columns; one that a file lacks is null.
        texts: those of them that hold few different texts.
        where: which rows count.
        keys: name -> expression.
        values: name -> (expression, sum, min or max), none of them null where the row counts, 64 bits.
    """

    schema: Any
    texts: tuple[str, ...]
    where: Any
    keys: Mapping[str, Any]
    values: Mapping[str, tuple[Any, str]]


def of_files(paths: Iterable[str], how: Aggregate) -> Iterator[Any]:
    """Aggregate Parquet files; gives Arrow batches of the keys and values, in which a key may come again.

    Raises:
        ValueError: when a file cannot be read, naming it as ``readers.damaged`` knows it.
    """
    form = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=how.texts))
    for path in paths:
        try:
            yield from _scanned(ds.dataset(path, schema=_dictionaries(how), format=form), how)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"CANNOT_READ_FILE {path}: {error}") from None


def of_tasks(ids: Iterable[Any], tasks: Sequence[Sequence[Any]], how: Aggregate) -> Iterator[Any]:
    """Aggregate the files of the tasks whose numbers come, for ``mapInArrow`` over a range."""
    for batch in ids:
        for number in batch.column(0).to_pylist():
            yield from of_files([str(path) for path in tasks[number]], how)


def of_rows(batches: Iterable[Any], how: Aggregate) -> Iterator[Any]:
    """Aggregate Arrow batches of the table's columns, as :func:`of_files` does."""
    for batch in batches:
        yield from _scanned(ds.dataset(pa.Table.from_batches([batch])), how)


def _dictionaries(how: Aggregate) -> Any:
    kind = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([pa.field(f.name, kind if f.name in how.texts else f.type) for f in how.schema])


def _scanned(found: Any, how: Aggregate) -> Iterator[Any]:
    columns = {**how.keys, **{name: value for name, (value, _) in how.values.items()}}
    scanner = found.scanner(columns=columns, filter=how.where, batch_size=_BATCH, use_threads=False)
    for batch in scanner.to_batches():
        if batch.num_rows:
            yield _grouped(batch, list(how.keys), how)


def _grouped(batch: Any, keys: Sequence[str], how: Aggregate) -> Any:
    asked = [(name, kind) for name, (_, kind) in how.values.items()]
    table = pa.Table.from_batches([batch]).group_by(list(keys), use_threads=False).aggregate(asked)
    columns = {name: _plain(table[name]) for name in keys}
    columns |= {name: table[f"{name}_{kind}"].cast(pa.int64()) for name, kind in asked}
    return pa.table(columns).combine_chunks().to_batches()[0]


def _plain(column: Any) -> Any:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def second(at: str, begin_us: int) -> Any:
    """Return the whole second since then that a time lies in, as 32 bits."""
    return pc.floor(pc.divide(pc.subtract(pc.field(at), begin_us).cast(pa.float64()), 1e6)).cast(pa.int32())


def mixed(*columns: str) -> Any:
    """Return a hash of 40 bits of some columns, whose sum over eight million rows is less than 2^63."""
    whole = _number(0)
    for column in columns:
        value = pc.add(whole, pc.field(column).cast(pa.uint64(), safe=False))
        # Products of whole numbers in Arrow are those modulo 2^64.
        value = pc.multiply(value, _number(0x9E3779B97F4A7C15))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            value = pc.bit_wise_xor(value, pc.shift_right(value, _number(shift)))
            value = pc.multiply(value, _number(factor))
        whole = pc.bit_wise_xor(value, pc.shift_right(value, _number(31)))
    return pc.shift_right(whole, _number(24)).cast(pa.int64())


def _number(value: int) -> Any:
    return pc.scalar(pa.scalar(value, pa.uint64()))
