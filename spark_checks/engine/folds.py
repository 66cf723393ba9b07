"""Evidence folded where it lies: sums that two tables must agree on, and stretches that are in order.

Thousands of rows become one. A file's columns are read by Arrow, texts as numbers of a dictionary, and all
that is done to a row is done to a batch of them by numpy: on one core a million records are folded in a
tenth of a second, a twentieth of what a shuffle of as many takes.

The functions run in workers (engine/workers.py, or Spark's) and depend on numpy and pyarrow alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from spark_checks.engine.aggregates import Aggregate, added_up, aggregated
from spark_checks.engine.grouping import Groups, hashed

#: Rows a block, as a power of two: large enough that sums are few, small enough that the exact join after
#: one missing record reads little.
BLOCK_BITS: Final = 16
#: Rows that are looked at together: what is computed of them stays in the cache of a core.
BATCH: Final = 1 << 16
#: Rows that are read and summed together: the fixed cost of an Arrow expression is spread over as many.
CHUNK: Final = 1 << 17
#: How many records around a fall of sequence numbers are told of.
AROUND: Final = 1_024
#: Parts are merged when they have become as many rows.
_MANY: Final = 1 << 17

#: The columns that are read of a table.
COLUMNS: Final = {
    "ledger": ("producer", "seq", "topic", "partition", "offset", "crc", "outcome", "via"),
    "records": ("cluster", "topic", "partition", "offset", "producer", "seq", "crc", "crc_ok", "key_ok"),
    "deliveries": ("group", "consumer", "topic", "partition", "offset", "producer", "seq", "received_us"),
}

_SUMS: Final = {"rows": "sum", "one": "sum", "two": "sum"}
#: The parts whose rows are added up: their keys, and how two rows of one key become one.
MERGED: Final[Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]]] = {
    "sent": (
        ("producer", "via", "outcome", "block"),
        _SUMS | {"expired": "sum", "first_seq": "min", "last_seq": "max"},
    ),
    "held": (("producer", "crc_ok", "key_ok", "block"), _SUMS),
    "places": (("topic", "partition", "block"), _SUMS),
    "given": (("group", "topic", "partition", "block"), _SUMS),
}

Parts = dict[str, Any]
#: A table, the path of a file of it, and its row groups (None: all).
Unit = tuple[str, str, "Sequence[int] | None"]
#: The first and the last of a range of sequence numbers, and what may hold them.
Range = tuple[int, int, list[Unit]]
#: Table -> Arrow schema.
Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Scope:
    """Which rows count, and how finely: topics as (cluster, topic), groups, (topic, partition) -> log start.

    With ``within`` only rows of the blocks of these numbers count, blocks of that column; ``bits`` is the
    size of the blocks that are told of.
    """

    topics: frozenset[tuple[str, str]]
    groups: frozenset[str]
    expired: Mapping[tuple[str, int], int] = field(default_factory=dict)
    within: tuple[str, frozenset[int]] | None = None
    bits: int = BLOCK_BITS


def read(units: Iterable[Unit], columns: Columns, scope: Scope | None = None) -> Iterator[tuple[str, Any]]:
    """Give the rows of Parquet files as Arrow tables, those of small files put together.

    A column that a file lacks is null; texts are dictionaries.

    Args:
        units: table, path of a file, its row groups (None: all); of one table after another.
        columns: table -> the columns that are read, with their types.
        scope: whose blocks are read alone, as far as files' statistics tell.
    """
    held: list[Any] = []
    of = ""
    for table, path, groups in units:
        if held and (table != of or sum(part.num_rows for part in held) >= CHUNK):
            yield of, _whole(held)
            held = []
        of = table
        try:
            metadata = pq.read_metadata(path)
            names = [name for name in columns[table].names if name in metadata.schema.names]
            texts = [name for name in names if pa.types.is_string(columns[table].field(name).type)]
            file = pq.ParquetFile(path, metadata=metadata, read_dictionary=texts)
            asked = _asked(file, groups, scope)
            if not asked:
                continue
            if len(asked) == file.num_row_groups and file.metadata.num_rows < CHUNK:
                held.append(_filled(file.read(names, use_threads=False), columns[table]))
                continue
            if held:
                yield of, _whole(held)
                held = []
            for batch in file.iter_batches(CHUNK, asked, columns=names, use_threads=False):
                yield table, _whole([_filled(pa.Table.from_batches([batch]), columns[table])])
        except (pa.ArrowException, OSError) as error:
            # As Spark's own readers say it, which is how readers.damaged knows it.
            raise ValueError(f"CANNOT_READ_FILE {path}: {error}") from None
    if held:
        yield of, _whole(held)


def _filled(rows: Any, schema: Any) -> Any:
    for one in schema:
        if one.name not in rows.column_names:
            rows = rows.append_column(one, pa.nulls(rows.num_rows, one.type))
    return rows.select(schema.names)


def _whole(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    whole = pa.concat_tables(parts).unify_dictionaries()
    # Copying costs as much as reading: it pays where batches would be small otherwise.
    return whole.combine_chunks() if whole.num_rows < len(parts) * BATCH // 2 else whole


def _asked(file: Any, groups: Sequence[int] | None, scope: Scope | None) -> list[int]:
    """Return the row groups that may hold rows of the wanted blocks, as far as their statistics tell."""
    asked = list(range(file.num_row_groups) if groups is None else groups)
    if scope is None or scope.within is None:
        return asked
    name, numbers = scope.within
    column = file.schema_arrow.names.index(name)
    found = []
    for group in asked:
        told = file.metadata.row_group(group).column(column).statistics
        if told is not None and told.has_min_max:
            least, most = told.min >> BLOCK_BITS, told.max >> BLOCK_BITS
            if not any(least <= number <= most for number in numbers):
                continue
        found.append(group)
    return found


def rows_of(paths: Iterable[str], schema: Any, wanted: Any, columns: Sequence[str]) -> Any:
    """Return these columns of the rows of Parquet files that fit a pyarrow expression."""
    found = ds.dataset(list(paths), schema=schema, format="parquet")
    return found.to_table(columns=list(columns), filter=wanted, use_threads=False)


def fold(tables: Iterable[tuple[str, Any]], scope: Scope | None, sums: Mapping[str, Aggregate]) -> Parts:
    """Fold Arrow tables of rows.

    Args:
        tables: table and rows.
        scope: which rows count where records are held against each other; None: they are not.
        sums: name -> what is summed up beside that.

    Returns:
        Arrow tables by name: those of :data:`MERGED`; ``spans`` and ``falls`` of the records (see
        :func:`rising`), ``polls`` and ``rewinds`` of the deliveries (see :func:`polled`); and the sums.
    """
    gathered: dict[str, list[Any]] = {}

    def keep(name: str, part: Any) -> None:
        parts = gathered.setdefault(name, [])
        parts.append(part)
        # Not before there are twice as many rows as the last time: adding up must not outgrow folding.
        if (name in MERGED or name in sums) and sum(one.num_rows for one in parts[1:]) > max(
            _MANY, parts[0].num_rows
        ):
            gathered[name] = [merged(name, parts, sums)]

    for table, rows in tables:
        for name, how in sums.items():
            if how.table == table:
                keep(name, aggregated(rows, how))
        if scope is not None:
            for batch in rows.to_batches(BATCH):
                for name, part in _folded(table, batch, scope):
                    keep(name, part)
    return {name: merged(name, parts, sums) for name, parts in gathered.items()}


def _folded(table: str, batch: Any, scope: Scope) -> Iterator[tuple[str, Any]]:
    near = batch if scope.within is None else _within(batch, *scope.within)
    if near.num_rows:
        yield from _FOLDS[table](near, scope)


def _within(batch: Any, name: str, numbers: frozenset[int]) -> Any:
    values = batch.column(batch.schema.get_field_index(name)).fill_null(-1).to_numpy(zero_copy_only=False)
    return batch.filter(pa.array(np.isin(values >> BLOCK_BITS, np.array(sorted(numbers)))))


def fold_files(
    units: Iterable[Unit], columns: Columns, scope: Scope | None, sums: Mapping[str, Aggregate]
) -> Parts:
    """Read files and fold them: what a task does."""
    return fold(read(units, columns, scope), scope, sums)


def work_on(units: Iterable[Unit], columns: Columns, work: Callable[[Iterable[Any]], list[Any]]) -> list[Any]:
    """Return what a function makes of the rows of files, as Arrow tables."""
    return work(rows for _, rows in read(units, columns))


def in_range(one: Range, columns: Columns, where: Any, work: Callable[[Any], Any]) -> Any:
    """Return what a function makes of the rows of a range that fit a pyarrow expression; None without any."""
    first, last, units = one
    near = where & (pc.field("seq") >= first) & (pc.field("seq") <= last)
    found = [rows.filter(near) for _, rows in read(units, columns)]
    wanted = pa.concat_tables(found) if found else None
    return work(wanted) if wanted is not None and wanted.num_rows else None


def wanted_of(
    units: Sequence[Unit], schemas: Columns, wanted: Mapping[str, Any], columns: Mapping[str, Sequence[str]]
) -> list[tuple[str, Any]]:
    """Return table and rows of files that fit a pyarrow expression."""
    return [
        (name, rows_of([path for _, path, _ in some], schemas[name], wanted[name], columns[name]))
        for name, some in groupby(units, key=lambda unit: unit[0])
    ]


def folder_of(
    table: str, scope: Scope | None, sums: Mapping[str, Aggregate]
) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """Return a function for ``mapInArrow`` that folds a table's rows into one, ``parts``, pickled."""

    def folded(batches: Iterable[Any]) -> Iterator[Any]:
        parts = fold(((table, pa.Table.from_batches([batch])) for batch in batches), scope, sums)
        yield pa.RecordBatch.from_pydict({"parts": [pickle.dumps(parts)]})

    return folded


def merged(name: str, parts: Sequence[Any], sums: Mapping[str, Aggregate]) -> Any:
    """Return parts of one name as one; rows of the same keys are added up (sums count modulo 2^64)."""
    if name in sums:
        return added_up(parts, sums[name])
    table = pa.concat_tables(parts)
    if name not in MERGED:
        return table
    keys, how = MERGED[name]
    whole = table.group_by(list(keys), use_threads=False).aggregate(list(how.items()))
    return whole.rename_columns([column.removesuffix(f"_{how.get(column.rpartition('_')[0], '')}")
                                 for column in whole.column_names]).select([*keys, *how])  # fmt: skip


def _summed(groups: Groups, at: Any, columns: Mapping[str, Any], leave_out: Any = None) -> dict[str, Any]:
    sums = {}
    for name, values in zip(("one", "two"), hashed(groups, columns), strict=True):
        if leave_out is not None:
            values[leave_out] = 0
        sums[name] = np.add.reduceat(values, at)
    return {"rows": np.diff(at, append=groups.rows), **sums}


def sent(batch: Any, scope: Scope) -> Iterator[tuple[str, Any]]:
    """Fold the ledger by producer, interface, outcome and block of sequence numbers.

    ``expired`` counts what lies before its partition's log start, which the sums leave out.
    """
    groups = Groups(batch, ("topic", "partition", "producer", "via", "outcome"))
    seq, offset = groups.numbers("seq"), groups.numbers("offset")
    at, group, block = groups.cells(seq, scope.bits)
    places = zip(groups.key("topic"), groups.key("partition"), strict=True)
    gone = offset < groups.each(np.array([scope.expired.get(place, -1) for place in places], np.int64))
    names = {
        "seq": seq,
        "offset": offset,
        "crc": groups.numbers("crc"),
        "producer": groups.numbers("producer"),
    }
    yield "sent", groups.table(group, ("producer", "via", "outcome"), {
        "block": block,
        **_summed(groups, at, names, gone if gone.any() else None),
        "expired": np.add.reduceat(gone.astype(np.int64), at),
        "first_seq": np.minimum.reduceat(seq, at),
        "last_seq": np.maximum.reduceat(seq, at),
    })  # fmt: skip


def held(batch: Any, scope: Scope) -> Iterator[tuple[str, Any]]:
    """Fold the records by producer, soundness and block of sequence numbers, by place, and along offsets."""
    groups = Groups(batch, ("cluster", "topic", "partition", "producer", "crc_ok", "key_ok"))
    topics = zip(groups.key("cluster"), groups.key("topic"), strict=True)
    if not groups.only([topic in scope.topics for topic in topics]):
        return
    seq, offset = groups.numbers("seq"), groups.numbers("offset")
    who = {"seq": seq, "offset": offset, "producer": groups.numbers("producer")}
    at, group, block = groups.cells(seq, scope.bits)
    sums = _summed(groups, at, who | {"crc": groups.numbers("crc")})
    yield "held", groups.table(group, ("producer", "crc_ok", "key_ok"), {"block": block, **sums})
    if not groups.only([producer is not None for producer in groups.key("producer")]):
        return
    seq, offset = groups.numbers("seq"), groups.numbers("offset")
    if scope.groups:
        who = {"seq": seq, "offset": offset, "producer": groups.numbers("producer")}
        at, group, block = groups.cells(offset, scope.bits)
        yield "places", groups.table(group, ("topic", "partition"),
                                     {"block": block, **_summed(groups, at, who)})  # fmt: skip
    if groups.only([bool(crc_ok) for crc_ok in groups.key("crc_ok")]):
        yield from rising(groups)


def rising(groups: Groups) -> Iterator[tuple[str, Any]]:
    """Fold intact records along the offsets of their (topic, partition, producer).

    ``spans`` are what a batch holds of each: from_offset, to_offset, rows, first_seq, last_seq, and whether
    the rows were ``sorted`` by offset. ``falls`` are the stretches of :data:`AROUND` rows around each record
    whose sequence number is not above that of the one before it, within one batch: from_offset, to_offset.
    """
    keys = ("topic", "partition", "producer")
    seq, offset = groups.numbers("seq"), groups.numbers("offset")
    first, last = groups.starts, groups.starts + groups.lengths - 1
    inside = groups.inside()
    unsorted = np.concatenate(([False], inside & (offset[1:] <= offset[:-1])))
    falls = np.flatnonzero(inside & (seq[1:] <= seq[:-1])) + 1
    yield "spans", groups.table(np.arange(len(first)), keys, {
        "from_offset": offset[first],
        "to_offset": offset[last],
        "rows": groups.lengths,
        "first_seq": seq[first],
        "last_seq": seq[last],
        "sorted": ~np.logical_or.reduceat(unsorted, first),
    })  # fmt: skip
    if len(falls):
        group = np.searchsorted(first, falls, side="right") - 1
        begin = np.maximum(falls - AROUND, first[group])
        end = np.minimum(falls + AROUND - 1, last[group])
        # Stretches that touch become one.
        new = np.concatenate(([True], (begin[1:] > end[:-1]) | (group[1:] != group[:-1])))
        heads = np.flatnonzero(new)
        tails = np.append(heads[1:] - 1, len(falls) - 1)
        columns = {"from_offset": offset[begin[heads]], "to_offset": offset[end[tails]]}
        yield "falls", groups.table(group[heads], keys, columns)


def given(batch: Any, scope: Scope) -> Iterator[tuple[str, Any]]:
    """Fold the deliveries of the run's records to its groups by place, and along their consumers' time."""
    producer = batch.column(batch.schema.get_field_index("producer"))
    if producer.null_count:
        batch = batch.filter(producer.is_valid())
        if not batch.num_rows:
            return
    groups = Groups(batch, ("group", "consumer", "topic", "partition"))
    if not groups.only([group in scope.groups for group in groups.key("group")]):
        return
    offset = groups.numbers("offset")
    who = {"seq": groups.numbers("seq"), "offset": offset, "producer": groups.numbers("producer")}
    at, group, block = groups.cells(offset, scope.bits)
    yield "given", groups.table(group, ("group", "topic", "partition"),
                                {"block": block, **_summed(groups, at, who)})  # fmt: skip
    yield from polled(groups)


def polled(groups: Groups) -> Iterator[tuple[str, Any]]:
    """Fold deliveries along the time of their (group, consumer, topic, partition).

    ``polls`` are what a batch holds of each, by time and offset: from_us, to_us, first_offset, last_offset.
    ``rewinds`` are the deliveries in one batch whose offset is not above that of the one before: from_offset,
    offset, at_us.
    """
    keys = ("group", "consumer", "topic", "partition")
    at, offset = groups.numbers("received_us"), groups.numbers("offset")
    inside = groups.inside()
    if bool((inside & ((at[1:] < at[:-1]) | ((at[1:] == at[:-1]) & (offset[1:] < offset[:-1])))).any()):
        groups.sort("received_us", "offset")
        at, offset = groups.numbers("received_us"), groups.numbers("offset")
    first, last = groups.starts, groups.starts + groups.lengths - 1
    yield "polls", groups.table(np.arange(len(first)), keys, {
        "from_us": at[first], "to_us": at[last], "first_offset": offset[first], "last_offset": offset[last],
    })  # fmt: skip
    back = np.flatnonzero(inside & (offset[1:] <= offset[:-1])) + 1
    if len(back):
        group = np.searchsorted(first, back, side="right") - 1
        columns = {"from_offset": offset[back - 1], "offset": offset[back], "at_us": at[back]}
        yield "rewinds", groups.table(group, keys, columns)


_FOLDS: Final = {"ledger": sent, "records": held, "deliveries": given}
