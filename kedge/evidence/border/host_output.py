"""What commands print on hosts: bounded output, lines that can be shown, and the documents in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, TypeAdapter

from kedge.evidence.border.untrusted import Count, Int, Long, Untrusted, UntrustedError, only, parsed
from kedge.evidence.printable import plain

#: What one command may print: the GC logs and samples of a host's instances.
OUTPUT_BYTES: Final = 64 << 20
#: What is read of one log or one file of samples, its end.
LOG_BYTES: Final = 16 << 20
#: What a command may say of why it failed.
ERROR_BYTES: Final = 65_536
#: JVM options are the longest lines that are asked for.
LINE_BYTES: Final = 200_000
#: A line of samples of one host, an interface and a process in it each.
SAMPLE_BYTES: Final = 1_000_000
_CHUNK: Final = 65_536

Word = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[!-~]+$")]


#: A server of a balancer: its name and status, and counters as the evidence table balancer has them.
Server = tuple[Word, Word, Count, Count, Count, Count, Count, Count, Count]


#: What an instance tells Prometheus: its unit, when, which metric, how much.
Told = tuple[Word, Count, Word, Annotated[float, Field(allow_inf_nan=False)]]


class HostSample(Untrusted):
    """A line of verify.watch.host_sampler: processes, the host, its interfaces, servers, and metrics."""

    units: list[tuple[Word, Long, Count, Count, Int]]
    host: tuple[Count, Count, Count, Count, Count | None, Count | None]
    links: list[tuple[Word, Count, Count, Count | None]]
    servers: Annotated[list[Server], Field(default_factory=list)]
    metrics: Annotated[list[Told], Field(default_factory=list)]


class StreamsMemory(Untrusted):
    """A line that a Streams application's reporter writes; what it cannot tell is left out."""

    model_config = ConfigDict(extra="ignore")

    at_us: Count
    rss_bytes: Count
    state: Annotated[str, Field(max_length=100, pattern=r"^[A-Z_]*$")] | None = None
    heap_bytes: Long | None = None
    heap_used_bytes: Long | None = None
    non_heap_bytes: Long | None = None
    direct_bytes: Long | None = None
    stores: Int | None = None
    table_readers_bytes: Long | None = None
    restoring_records: Long | None = None
    memtables_bytes: Long | None = None
    block_cache_most_bytes: Long | None = None
    block_cache_sum_bytes: Long | None = None
    pinned_most_bytes: Long | None = None
    pinned_sum_bytes: Long | None = None


_SAMPLE: Final = TypeAdapter(HostSample)
_MEMORY: Final = TypeAdapter(StreamsMemory)
#: What a machine tells of itself, by name, and how that looks.
_MACHINE: Final = {
    "boot_id": r"[0-9a-zA-Z-]{1,64}",
    "system": r"[ -~]{1,100}",
    "haproxy": r"[0-9A-Za-z.+~-]{1,64}",
    "cores": r"[0-9]{1,6}",
    "memory_kib": r"[0-9]{1,15}",
}


def output(receive: Callable[[int], bytes], most: int = OUTPUT_BYTES) -> list[str]:
    """Return the lines that come until there are no more; raises UntrustedError for more bytes."""
    found = bytearray()
    while chunk := receive(_CHUNK):
        found += chunk
        if len(found) > most:
            raise UntrustedError(f"it printed more than {most:,} bytes")
    return lines(bytes(found))


def lines(printed: bytes) -> list[str]:
    """Return printed lines without control characters; raises UntrustedError for one that is too long."""
    found = printed.decode(errors="replace").split("\n")
    if found[-1] == "":
        found.pop()
    if max(map(len, found), default=0) > LINE_BYTES:
        raise UntrustedError(f"it printed a line of more than {LINE_BYTES:,} letters")
    return [_printable(line.removesuffix("\r")) for line in found]


def _printable(line: str) -> str:
    return line if line.isprintable() else "\t".join(map(plain, line.split("\t")))


def nanoseconds(printed: list[str]) -> int:
    """Return a host's time since the epoch, of ``date +%s%N``; raises UntrustedError."""
    if len(printed) != 1:
        raise UntrustedError(f"it printed {len(printed)} lines for the time")
    if not re.fullmatch(r"[0-9]{1,19}", printed[0]) or int(printed[0]) > 2**63 - 1:
        raise UntrustedError("its time is no nanoseconds since the epoch")
    return int(printed[0])


def machine(printed: list[str]) -> dict[str, str]:
    """Return what a machine tells of itself, what looks as it should; the rest is not known."""
    said = (line.partition("=") for line in printed)
    return {
        name: answer.strip()
        for name, _, answer in said
        if name in _MACHINE and re.fullmatch(_MACHINE[name], answer.strip(), re.ASCII)
    }


def sample(line: bytes, units: Mapping[str, Any]) -> HostSample:
    """Return a line of samples; raises UntrustedError, also for units that are not the host's."""
    found = parsed(_SAMPLE, line, "line of samples")
    only([each[0] for each in found.units] + [each[0] for each in found.metrics], units, "units")
    return found


def memory(line: str) -> StreamsMemory | None:
    """Return a line of an application's memory, None for one that is not whole."""
    try:
        return parsed(_MEMORY, line, "line of samples")
    except UntrustedError:
        return None
