"""The variables of the role canary."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kedge.evidence.record_layout import PREFIX_BYTES
from kedge.plan.inventory.security import File, Password, Principal
from kedge.plan.variables import Port, Positive, Since, Strict


class Canary(Strict):
    """The variables of the role canary."""

    cluster: Annotated[str, Since("0.2.0")]
    """Cluster that the canary sends to, a name of kafka_clusters."""
    user: Annotated[Principal | None, Since("0.2.0")] = None
    """Login of the canary to its cluster, where its security asks for one; a user of its own."""
    password: Annotated[Password | None, Since("0.2.0")] = None
    """Password of that login, best from a vault."""
    records_per_s: Annotated[float, Field(gt=0, le=10_000), Since("0.2.0")] = 10.0
    """Rate by the Kafka protocol, and the same through the balancer of the REST proxies."""
    record_bytes: Annotated[int, Field(ge=PREFIX_BYTES, le=1_000_000), Since("0.2.0")] = 100
    """Size of a record's value."""
    window_s: Annotated[int, Field(ge=60, le=3600), Since("0.2.0")] = 300
    """Length of a window, which gets a verdict of its own."""
    partitions: Annotated[Positive | None, Since("0.2.0")] = None
    """Partitions of each of its topics; as many as the cluster has brokers, if not set."""
    rest: Annotated[bool | None, Since("0.2.0")] = None
    """Whether it also sends through the balancer of the REST proxies; if not set, where there is one."""
    rest_instances: Annotated[bool, Since("0.2.0")] = True
    """Whether it also sends to each REST instance directly, at its own port, one record every 5 s."""
    rest_user: Annotated[str | None, Since("0.2.0")] = None
    """Login to proxies that require one."""
    rest_password: Annotated[Password | None, Since("0.2.0")] = None
    """Password of that login, best from a vault."""
    rest_ca: Annotated[File | None, Since("0.2.0")] = None
    """File of the CA that signed the balancer's certificate, on the control machine."""
    steady_levels: Annotated[dict[str, Any], Field(default_factory=dict), Since("0.2.0")]
    """Service levels of windows without a planned change; they override `service_levels`."""
    keep_windows: Annotated[Positive, Since("0.2.0")] = 2016
    """Number of windows whose verdicts and figures are kept."""
    keep_mib: Annotated[Positive, Since("0.2.0")] = 2048
    """Disk space for the evidence of windows that did not pass, or were not audited yet."""
    scrape_address: Annotated[str, Field(pattern=r"^[0-9A-Fa-f.:]+$"), Since("0.2.0")] = "127.0.0.1"
    """Address at which the metrics are served."""
    port: Annotated[Port, Since("0.2.0")] = 9464
    """Port at which the metrics are served."""
    memory_mib: Annotated[Positive, Since("0.2.0")] = 1024
    """Memory limit of the load."""
    audit_memory_mib: Annotated[Positive, Since("0.2.0")] = 2048
    """Memory limit of the audit, Java and Python together."""
    ready_seconds: Annotated[Positive, Since("0.2.0")] = 120
    """How long a canary may take until it sends."""
    stop_seconds: Annotated[Positive, Since("0.2.0")] = 90
    """How long a canary may take to end its last window."""
