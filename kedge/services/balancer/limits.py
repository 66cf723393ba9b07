"""How many connections a balancer takes, and the files, memory and rights that it needs for them."""

from __future__ import annotations

import math
from typing import Final

from kedge.plan.settings import MIB, Choice, Sheet
from kedge.services.balancer.security import FILE, UNIT
from kedge.services.balancer.stickiness import TABLE_BYTES

_MANUAL: Final = "HAProxy 2.6 configuration manual"
_CONNECTIONS: Final = 5_000  # where no workload says how many
_PRIVILEGED: Final = 1024
_SPARE_FILES: Final = 1_000
_OWN_MIB: Final = 128  # its code, threads and tables without any connection
_CONNECTION_BYTES: Final = 4_096  # of a connection and its stream, beside the buffers
_BUFFER_BYTES: Final = 16_384  # HAProxy's own default; larger ones cost every connection memory


def put_buffer(sheet: Sheet) -> None:
    """Plan the buffer of each side of a connection."""
    because = (
        "the answer that makes a consumer is read whole, and is below 1 kB; bodies of other requests pass by"
    )
    source = f"{_MANUAL}, tune.bufsize (the default, to be left alone)"
    size = Choice(_BUFFER_BYTES, because, source, "documented")
    sheet.put(FILE, "tune.bufsize", "balancer.fixed", size)


def put_limits(sheet: Sheet, connections: int, port: int) -> None:
    """Plan how many connections are taken, and what the process may use for them.

    ``connections`` are those of kafka_rest_workload, 0 where it does not say; ``port`` is the balancer's own.
    """
    because = (
        f"twice the {connections} connections of kafka_rest_workload"
        if connections
        else "an estimate: kafka_rest_workload.connections does not say how many clients keep open"
    )
    most = 2 * connections or _CONNECTIONS
    sheet.put(FILE, "maxconn", "balancer.limits", Choice(most, because, f"{_MANUAL}, maxconn", "estimate"))
    files = 2 * most + _SPARE_FILES
    because = f"two for each of {most} connections, one on each side, and {_SPARE_FILES} for its own use"
    sheet.put(
        UNIT, "LimitNOFILE", "balancer.limits", Choice(files, because, f"{_MANUAL}, maxconn", "estimate")
    )
    each = 2 * (2 * _BUFFER_BYTES + _CONNECTION_BYTES)
    mib = _OWN_MIB + math.ceil(2 * (most * each + TABLE_BYTES) / MIB)
    because = (
        f"{_OWN_MIB} MiB of its own; by an estimate {each // 1024} KiB for each of {most} connections and "
        f"{TABLE_BYTES // MIB} MiB of owning instances, twice, because an old process lives on for a while "
        f"after a reload"
    )
    sheet.put(
        UNIT,
        "MemoryMax",
        "balancer.limits",
        Choice(f"{mib}M", because, f"{_MANUAL}, tune.bufsize", "estimate"),
    )
    if port < _PRIVILEGED:
        because = f"port {port} is below {_PRIVILEGED}: the one right that listening there takes"
        source = "capabilities(7), CAP_NET_BIND_SERVICE; user_namespaces(7)"
        for key in ("CapabilityBoundingSet", "AmbientCapabilities"):
            sheet.put(
                UNIT, key, "balancer.limits", Choice("CAP_NET_BIND_SERVICE", because, source, "documented")
            )
        because = "in a user namespace of its own the process would not have the right to the port"
        sheet.put(UNIT, "PrivateUsers", "balancer.limits", Choice("no", because, source, "documented"))
