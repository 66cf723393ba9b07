"""The evidence tables (kedge.evidence.tables) as Spark reads them."""

from __future__ import annotations

from typing import Final

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kedge.evidence import tables

TABLES: Final[dict[str, StructType]] = {
    name: from_arrow_schema(tables.arrow_schema(name)) for name in tables.TABLES
}
