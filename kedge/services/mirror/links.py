"""What flows take of links: of the path between their clusters and its sockets, and of their hosts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kedge.plan.findings import Finding
from kedge.plan.settings import MBIT, Choice, Sheet
from kedge.plan.values import int_or_zero
from kedge.services.mirror.flow import BENCH, Flow
from kedge.services.mirror.variables import ROLE, MirrorFlow

#: Compressed size over size, zstd and gzip: of logs and of metrics.
_COMPRESSED: Final = (0.08, 0.19)


class FlowShare(NamedTuple):
    """What one host carries of a flow before compression, in bytes/s, and how its producers compress.

    ``most`` is the number of processes, and so of hosts, over which the flow can be spread.
    """

    flow: str
    bytes_per_s: float
    codec: str
    most: int

    @property
    def packed(self) -> bool:
        """Whether less than that leaves the host."""
        return self.codec not in ("", "none")


def check_path(sheet: Sheet, flow: Flow, codec: str) -> None:
    """Hold what a flow carries before compression against what its path does."""
    spec = flow.flow
    if not spec.mb_per_s or not spec.link_mbit_per_s:
        return
    link = spec.link_mbit_per_s * MBIT / 1e6
    if spec.mb_per_s <= link:
        return
    name = f"mirror_maker_flows.{flow.name}"
    what = (
        f"flow {flow.name} carries {spec.mb_per_s:g} MB/s before compression, and {name}.link_mbit_per_s is "
        f"{spec.link_mbit_per_s:g}, {link:g} MB/s"
    )
    fix = f"use a link of {math.ceil(spec.mb_per_s * 8)} Mbit/s, or mirror fewer topics over it"
    if codec in ("", "none"):
        sheet.error("mirror.link", f"{what}: nothing compresses it (compression.type {codec or 'none'})", fix)
        return
    share = link / spec.mb_per_s
    sheet.warning("mirror.link", f"{what}: {_fits(share, codec)}", f"{fix}; {_TO_KNOW}")


def check_host_links(
    shares: Mapping[str, Sequence[FlowShare]], links: Mapping[str, int]
) -> Iterator[Finding]:
    """Hold what all flows of a host carry against its link: as much comes in as goes out."""
    for host, of_host in shares.items():
        taken, link = sum(share.bytes_per_s for share in of_host), links.get(host, 0)
        if not link or taken <= link * MBIT:
            continue
        times = _times(of_host, len(shares), taken / (link * MBIT))
        what = (
            f"{' and '.join(f'flow {share.flow}' for share in of_host)} carry {taken / 1e6:.1f} MB/s before "
            f"compression through the host, and host_link_mbit_per_s is {link}, {link * MBIT / 1e6:g} MB/s "
            "each way"
        )
        spread = f"{times} times as many hosts, or " if times else ""
        fix = f"use {spread}a link of {math.ceil(taken / MBIT)} Mbit/s"
        whole = sum(share.bytes_per_s for share in of_host if not share.packed)
        if whole > link * MBIT:
            what += ": nothing compresses it (compression.type none)"
            yield Finding("error", "mirror.link", f"{host} {ROLE}", what, fix)
            continue
        codec = next(share.codec for share in of_host if share.packed)
        left = (link * MBIT - whole) / (taken - whole)
        what += f": {_fits(left, codec)}"
        yield Finding("warning", "mirror.link", f"{host} {ROLE}", what, f"{fix}; {_TO_KNOW}")


def _times(of_host: Sequence[FlowShare], hosts: int, over: float) -> int:
    """Return how many times as many hosts bring a host below its link, which it is over by so much.

    A process is on one host: 0 where one alone is too much.
    """
    each = [math.floor(share.most / (hosts * over)) for share in of_host]
    if not all(each):
        return 0
    return max(math.ceil(math.ceil(share.most / n) / hosts) for share, n in zip(of_host, each, strict=True))


_TO_KNOW: Final = "verify.yml measures how batches compress"


def _fits(share: float, codec: str) -> str:
    return (
        f"it fits where batches compress to {share:.0%} of their size; {codec} was measured at "
        f"{_COMPRESSED[0]:.0%} to {_COMPRESSED[1]:.0%} of metrics and logs ({BENCH})"
    )


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
