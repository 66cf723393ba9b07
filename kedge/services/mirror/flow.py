"""A flow with all that its files follow from, and the names that its rules share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kedge.plan.findings import WITH_INVENTORY, Reader
from kedge.plan.inventory.security import Security
from kedge.plan.settings import Advice, Sheet
from kedge.services.clients.fetches import Fetches
from kedge.services.mirror.partitions import Limits
from kedge.services.mirror.variables import MirrorFlow

UNIT: Final = "mirror-maker"
ARTICLE: Final = "MirrorMaker Performance Tuning (Salesforce)"
MEASURED: Final = "MirrorMaker measurements, 60 ms on 2 cores"
BENCH: Final = "lab/bench/mirror, metrics of 100 bytes over 60 ms on 2 cores"
CLASSIC: Final = "kafka.tools.MirrorMaker of Kafka 3.9"

#: Stands for a process' number in settings that are worked out once a flow.
NUMBER: Final = "\x00"
#: Stands around the first of ports in such settings: a process takes the one by its number.
FROM_PORT: Final = "\x02"


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow with all that its files follow from; nothing depends on how many hosts or processes run it.

    ``fetches`` is how its consumers fetch from the source; ``java`` is the oldest release of its
    hosts.
    """

    name: str
    flow: MirrorFlow
    limits: Limits
    version: str
    source_servers: str
    target_servers: str
    advice: Advice
    open_files: int
    stop_seconds: int
    classic: bool
    source_security: Security | None = None
    target_security: Security | None = None
    fetches: Fetches = field(default_factory=Fetches)
    java: int | None = None
    reader: Reader = WITH_INVENTORY

    @property
    def folder(self) -> str:
        """The configuration folder of one process."""
        return f"/etc/{UNIT}/{self.name}-{NUMBER}"

    @property
    def variable(self) -> str:
        """The full name of the variable that holds it."""
        return f"mirror_maker_flows.{self.name}"

    def sheet(self, own: Mapping[str, Any], field: str = "settings") -> Sheet:
        """Return an empty sheet that speaks of this flow; its ``field`` holds the person's own values."""
        return Sheet(f"flow {self.name}", self.advice, own, f"{self.variable}.{field}", self.reader)


def flow_of(process: object) -> str:
    """Return the flow of a mirror process, whose name is that of the flow and a number (FLOW-0)."""
    return str(process).rpartition("-")[0]
