"""How late the records of mirrors' targets came, counted where they lie.

The functions run in workers (engine/workers.py, or Spark's) and depend on numpy and pyarrow alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_checks.engine.folds import BATCH
from spark_checks.engine.grouping import Groups

_PLACE: Final = ("cluster", "topic", "partition")
COLUMNS: Final = (*_PLACE, "offset", "timestamp_us", "timestamp_type")
_YES: Final = pa.scalar(value=True)

#: The samples of a partition: its ends, rising, and when each was seen.
Samples = Mapping[tuple[str, str, int], tuple[Any, Any]]
#: How many records of a topic had which delay, in whole milliseconds.
Delays = Mapping[tuple[str, str], Counter[int]]


def delayed(tables: Iterable[Any], samples: Samples) -> list[Delays]:
    """Count the delays of the records in Arrow tables."""
    found: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for rows in tables:
        for batch in rows.to_batches(BATCH):
            kind = batch.column(batch.schema.get_field_index("timestamp_type"))
            mine = batch.filter(pc.fill_null(pc.not_equal(kind, "append"), _YES))
            if mine.num_rows:
                _count(Groups(mine, _PLACE), samples, found)
    return [found]


def _count(groups: Groups, samples: Samples, found: dict[tuple[str, str], Counter[int]]) -> None:
    if not groups.only([place in samples for place in _places(groups)]):
        return
    offset, timestamp = groups.numbers("offset"), groups.numbers("timestamp_us")
    bounds = zip(groups.starts, groups.starts + groups.lengths, strict=True)
    for place, (first, end) in zip(_places(groups), bounds, strict=True):
        ends, at_us = samples[place]
        number = np.searchsorted(ends, offset[first:end], side="right")
        seen = (number > 0) & (number < len(ends))
        took = (at_us[number[seen]] - timestamp[first:end][seen]) // 1000
        values, counts = np.unique(took, return_counts=True)
        found[place[:2]].update(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def _places(groups: Groups) -> list[tuple[str, str, int]]:
    return list(zip(*(groups.key(name) for name in _PLACE), strict=True))
