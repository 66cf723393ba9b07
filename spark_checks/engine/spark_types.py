"""The evidence tables (kedge.evidence.tables) as Spark reads them."""

from __future__ import annotations

from typing import Final

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from kedge.evidence import tables


def _spark(table: str) -> StructType:
    return StructType(
        [
            StructField(
                f.name, from_arrow_type(f.type), f.nullable, {"optional": True} if f.metadata else None
            )
            for f in tables.TABLES[table]
        ]
    )


TABLES: Final[dict[str, StructType]] = {name: _spark(name) for name in tables.TABLES}


def may_be_absent(field: StructField) -> bool:
    """Return whether evidence without this column is read all the same."""
    return bool(field.metadata.get("optional"))
