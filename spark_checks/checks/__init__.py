"""The checks: pure functions from evidence and service levels to a result, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spark_checks.checks import delivery, latency, rebalance, throughput
from spark_checks.levels import Levels
from spark_checks.model import Result
from spark_checks.readers import Evidence

Check = Callable[[Evidence, Levels], Result]

#: In the order of the report.
CHECKS: Final[Mapping[str, Check]] = {
    "delivery": delivery.check,
    "throughput": throughput.check,
    "latency": latency.check,
    "rebalance": rebalance.check,
}
