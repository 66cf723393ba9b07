"""A batch's rows grouped by the values of some columns, and hashed, by numpy.

The functions run in Spark's Python workers and depend on numpy and pyarrow alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

#: Columns that hold few different texts.
TEXTS: Final = ("cluster", "topic", "outcome", "via", "group", "consumer")
#: Numbers that lie as near to each other are their own numbers, less the least.
_NEAR: Final = 1 << 17


class Groups:
    """A batch's rows by the values of some columns: a number a group, the rows of each one after another."""

    def __init__(self, batch: Any, names: Sequence[str]) -> None:
        code = np.zeros(batch.num_rows, np.int64)
        for name in names:
            kinds, number = _numbered(_column(batch, name))
            if kinds > 1:
                code *= kinds
                code += number
        if code.max() < 1 << 16:
            # numpy sorts 16 bits by radix.
            code = code.astype(np.uint16)
        self._batch = batch
        self._order: Any = None
        if bool((code[1:] < code[:-1]).any()):
            self._order = np.argsort(code, kind="stable")
            code = code[self._order]
        self.starts = np.concatenate(([0], np.flatnonzero(code[1:] != code[:-1]) + 1))
        self.rows = len(code)
        first = pa.array(self.starts if self._order is None else self._order[self.starts])
        self._keys = {name: _column(batch, name).take(first).to_pylist() for name in names}

    @property
    def lengths(self) -> Any:
        """How many rows each group has."""
        return np.diff(self.starts, append=self.rows)

    def key(self, name: str) -> list[Any]:
        """Return the value of a column in each group."""
        return list(self._keys[name])

    def only(self, wanted: Sequence[bool]) -> bool:
        """Leave the other groups out; return whether any is left."""
        if not all(wanted):
            keep = np.repeat(np.array(wanted, bool), self.lengths)
            order = np.arange(self.rows) if self._order is None else self._order
            lengths = self.lengths[np.array(wanted, bool)]
            self._order, self.rows = order[keep], int(lengths.sum())
            self.starts = np.cumsum(lengths) - lengths
            self._keys = {
                name: [value for value, mine in zip(values, wanted, strict=True) if mine]
                for name, values in self._keys.items()
            }
        return self.rows > 0

    def sort(self, *columns: str) -> None:
        """Put the rows of each group in the order of these columns, most important first."""
        group = np.repeat(np.arange(len(self.starts)), self.lengths)
        by = np.lexsort([*(self.numbers(name) for name in reversed(columns)), group])
        self._order = by if self._order is None else self._order[by]

    def numbers(self, name: str, null: int = -1) -> Any:
        """Return a column as 64-bit numbers, ``null`` where it is null."""
        column = _column(self._batch, name)
        values = (column.fill_null(null) if column.null_count else column).to_numpy(zero_copy_only=False)
        return self.ordered(values).astype(np.int64, copy=False)

    def ordered(self, values: Any) -> Any:
        """Return a value a row of the batch in the order of the groups' rows."""
        return values if self._order is None else values[self._order]

    def each(self, values: Any) -> Any:
        """Return a value a group as a value a row."""
        return np.repeat(values, self.lengths)

    def inside(self) -> Any:
        """Return for each row but the first whether the one before it is of the same group."""
        same = np.ones(self.rows, bool)
        same[self.starts] = False
        return same[1:]

    def cells(self, column: Any, bits: int) -> tuple[Any, Any, Any]:
        """Return where stretches of one group and one block of a column begin, their groups and blocks."""
        block = column >> bits
        edge = np.zeros(self.rows, bool)
        edge[self.starts] = True
        edge[1:] |= block[1:] != block[:-1]
        at = np.flatnonzero(edge)
        return at, np.searchsorted(self.starts, at, side="right") - 1, block[at]

    def table(self, group: Any, names: Sequence[str], columns: Mapping[str, Any]) -> Any:
        """Return an Arrow table: the keys of the groups by number, and columns of the same length."""
        keys = {name: _typed(name, self._keys[name]).take(pa.array(group)) for name in names}
        return pa.table(keys | {name: pa.array(values) for name, values in columns.items()})


def _typed(name: str, values: list[Any]) -> Any:
    kind = pa.string() if name in TEXTS else pa.bool_() if name.endswith("_ok") else pa.int32()
    return pa.array(values, kind)


def _column(batch: Any, name: str) -> Any:
    """A column that a file need not have is null."""
    at = batch.schema.get_field_index(name)
    return batch.column(at) if at >= 0 else pa.nulls(batch.num_rows, pa.bool_())


def _numbered(column: Any) -> tuple[int, Any]:
    """Return a number for each value of a column, null among them, and how many numbers there may be."""
    nulls = column.null_count
    if pa.types.is_integer(column.type) and not nulls:
        numbers = column.to_numpy()
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < _NEAR:
            return high - low + 1, numbers - low
    part = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    kinds = len(part.dictionary)
    index = part.indices.fill_null(kinds) if nulls else part.indices
    return kinds + bool(nulls), index.to_numpy(zero_copy_only=False)


def factor(text: str) -> Any:
    """Return an odd number that belongs to a text."""
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") | 1)


_FACTORS: Final = [
    {name: factor(f"{name} {number}") for name in ("producer", "seq", "offset", "crc")} for number in (1, 2)
]
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)


def finished(mixed: Any) -> Any:
    """Return 64-bit numbers mixed by the finalizer of SplitMix64, each to another one."""
    for shift, odd in ((30, _MIX_1), (27, _MIX_2)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * odd
    return mixed ^ (mixed >> np.uint64(31))


def _place(topic: str | None, partition: int | None) -> tuple[int, int]:
    digest = hashlib.blake2b(f"{topic} {partition}".encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


def hashed(groups: Groups, columns: Mapping[str, Any]) -> Iterator[Any]:
    """Return two hashes of 64 bits of each row: of its topic and partition, and of these columns.

    The sums of one of them over two different sets of rows are equal by chance in one of 2^64, those of both
    in one of 2^128. Each is a sum of the columns' products with odd numbers of its own, mixed by the
    finalizer of SplitMix64, so that it tells (1, 2) and (2, 1) from (1, 1) and (2, 2).
    """
    places = [_place(*place) for place in zip(groups.key("topic"), groups.key("partition"), strict=True)]
    for number, factors in enumerate(_FACTORS):
        mixed = groups.each(np.array([place[number] for place in places], np.uint64))
        for name, values in columns.items():
            mixed += values.view(np.uint64) * factors[name]
        yield finished(mixed)
