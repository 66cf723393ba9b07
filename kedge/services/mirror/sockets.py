"""The socket buffers of a flow's clients, and what the link between its clusters keeps in flight."""

from __future__ import annotations

import math

from kedge.plan.settings import Choice, Sheet
from kedge.plan.values import int_or_zero
from kedge.services.mirror.variables import MirrorFlow


def socket_buffer(sheet: Sheet, flow: MirrorFlow, file: str, key: str, rule: str, default: str) -> None:
    """Plan a socket buffer; ``default`` is what the client would ask the kernel for."""
    because = f"the kernel sizes the buffer by itself; the default of {default} turns that off"
    in_flight = bandwidth_delay_bytes(flow)
    if in_flight:
        because += f"; {flow.round_trip_ms:g} ms at {flow.link_mbit_per_s:g} Mbit/s hold {in_flight} bytes"
    value = sheet.put(
        file, key, rule, None, Choice(-1, because, "MirrorMaker facts, Over a long round trip", "documented")
    )
    if in_flight and value and 0 < int_or_zero(value) < in_flight:
        sheet.warning(
            rule,
            f"{key}{sheet.of(sheet.where)} is {value}, and the link keeps {in_flight} bytes in flight",
            f"set {key} to -1, and let the host's TCP buffers grow to {in_flight} or more",
            key,
        )


def bandwidth_delay_bytes(flow: MirrorFlow) -> int:
    """Return how many bytes the link holds: its rate times its round trip; 0 when either is not known."""
    return math.ceil((flow.link_mbit_per_s or 0) * 1e6 / 8 * flow.round_trip_ms / 1000)
