"""A flow with all that its files follow from: its names, its logins, and how often it commits offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kedge.plan.findings import WITH_INVENTORY, Reader
from kedge.plan.inventory.logins import login_of, names_protocol
from kedge.plan.inventory.security import Login, Security, plan_client
from kedge.plan.settings import Advice, Choice, Sheet
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


_OFFSET_COMMIT_MS: Final = 60_000  # default of --offset.commit.interval.ms


def commit_interval(flow: Flow) -> Choice:
    """Return how often offsets are committed, in milliseconds: the latency budget, the default at most."""
    budget = flow.flow.latency_budget_ms
    if flow.advice == "documented" or budget >= _OFFSET_COMMIT_MS:
        because = "the default; each commit flushes the producer, so linger.ms above it has no effect"
        return Choice(_OFFSET_COMMIT_MS, because, CLASSIC, "documented")
    because = (
        f"the latency budget of {budget} ms: the lag that a restart waits for is seen that often, and a "
        "process that is killed repeats at most what it mirrored since; an estimate, not measured"
    )
    return Choice(budget, because, f"mirror_maker_flows.{flow.name}.latency_budget_ms", "estimate")


def plan_login(sheet: Sheet, flow: Flow, end: str, file: str, prefix: str) -> None:
    """Plan the keys with which the flow's clients speak with the cluster at its ``end``, source or target.

    Not where a protocol stands among the person's own settings: then all of it is the person's.
    """
    spec = flow.flow
    if not (securities := securities_of(flow)):
        return
    source = end == "source"
    security = securities[0 if source else 1]
    given = (
        Login(spec.source_user, spec.source_password, spec.source_client_tls, spec.source_keytab)
        if source
        else Login(spec.target_user, spec.target_password, spec.target_client_tls, spec.target_keytab)
    )
    login = login_of(sheet, f"mirror_maker_flows.{flow.name}.{end}", security, given)
    plan_client(sheet, file, prefix, f"{flow.folder}/{end}", security, login, flow.version)


def securities_of(flow: Flow) -> tuple[Security | None, ...]:
    """Return how source and target are spoken with; empty where that is the person's own settings'."""
    own = (flow.flow.settings, flow.flow.consumer_settings, flow.flow.producer_settings)
    return () if any(map(names_protocol, own)) else (flow.source_security, flow.target_security)
