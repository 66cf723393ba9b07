"""What reaches a REST proxy: requests and their bytes, held against the link, the buffer and the article."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kedge.plan.settings import MBIT, MIB, Sheet
from kedge.services.host.variables import HostFacts
from kedge.services.rest.source_names import REAL
from kedge.services.rest.variables import RestWorkload

#: JSON carries bytes as base64: four characters for three.
BASE64: Final = 4 / 3
#: Records a second of each reader, in the measurements of reading.
READER_RECORDS: Final = 100
#: p99 of a request with 100 records, times five: how long a request may take in a sizing.
_REQUEST_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Cost:
    """What producing takes of the processors, of a warm process: a request, a record, and a byte of it."""

    request_us: float
    record_us: float
    byte_ns: float

    def of_record_us(self, workload: RestWorkload) -> float:
        """Return what a record takes with its share of the request, in µs."""
        own = self.record_us + self.byte_ns * workload.record_bytes / 1000
        return self.request_us / workload.records_per_request + own

    def cores(self, workload: RestWorkload) -> float:
        """Return the cores that the produced records take; 0 where nobody says how many these are."""
        return (workload.records_per_s or 0) * self.of_record_us(workload) / 1e6

    def said(self, workload: RestWorkload) -> str:
        """Say the sum; the workload has a rate."""
        rate = workload.records_per_s or 0
        return (
            f"{rate} / {workload.records_per_request} requests/s x {self.request_us:g} µs + {rate} records/s "
            f"x {self.record_us:g} µs + {bytes_per_s(workload)} bytes/s x {self.byte_ns:g} ns are "
            f"{self.cores(workload):.2f} cores ({REAL}, What producing takes)"
        )


#: Real proxies, What producing takes.
KAFKA_REST: Final = Cost(request_us=400, record_us=5.4, byte_ns=6.4)


@dataclass(frozen=True, slots=True)
class ProcessTraffic:
    """What reaches one process: requests a second, requests in flight, long polls, the host's connections.

    ``told``: the inventory says how many are in flight; else that is concluded from the rate. ``bytes_each``
    are the records of one request.
    """

    per_s: float | None
    concurrent: int
    long_polls: int
    connections: int | None
    told: bool
    bytes_each: int

    @property
    def body_bytes(self) -> float:
        """What the requests in flight hold at once, in bytes: their text as base64, and the records of it."""
        return self.concurrent * self.bytes_each * (BASE64 + 1)


def request_bytes(workload: RestWorkload) -> int:
    """Return the bytes of the records of one produce request."""
    return workload.records_per_request * workload.record_bytes


def bytes_per_s(workload: RestWorkload) -> int:
    """Return the bytes of records that clients produce in a second; 0 where nobody says."""
    return (workload.records_per_s or 0) * workload.record_bytes


def requests_of(workload: RestWorkload, instances: int) -> ProcessTraffic:
    """Return the share of one of ``instances`` processes; connections are not shared, as one may be away."""
    per_s = (
        workload.records_per_s / workload.records_per_request / instances if workload.records_per_s else None
    )
    in_flight = workload.concurrent_requests
    concurrent = (
        math.ceil(in_flight / instances) if in_flight else max(1, math.ceil((per_s or 0) * _REQUEST_S))
    )
    return ProcessTraffic(
        per_s,
        concurrent,
        math.ceil(readers_of(workload) / instances),
        workload.connections,
        bool(in_flight),
        request_bytes(workload),
    )


def readers_of(workload: RestWorkload) -> int:
    """Return how many consumers read at the same time."""
    return workload.consumers if workload.readers is None else workload.readers


def read_per_s(workload: RestWorkload) -> int:
    """Return the bytes of records that readers fetch in a second; as they were measured where nobody says."""
    each = workload.reader_records_per_s or READER_RECORDS
    return readers_of(workload) * each * workload.record_bytes


def check_link(sheet: Sheet, workload: RestWorkload, facts: HostFacts) -> None:
    """Find bytes a second that the host's link does not sustain."""
    produced, read, link = bytes_per_s(workload), read_per_s(workload), facts.link_mbit_per_s
    if not (produced or read) or link is None:
        return
    # As much in as out: one side of each record is bytes for brokers, the other base64 for clients.
    bytes_, encoded = produced + read, produced + read + (BASE64 - 1) * max(produced, read)
    what = f"{_said(workload)}, and host_link_mbit_per_s is {link}, {link * MBIT / 1e6:g} MB/s each way"
    times, mbit = math.ceil(encoded / (link * MBIT)), math.ceil(encoded / MBIT)
    spread = f"spread the load over {times} times as many hosts, or use a link of {mbit} Mbit/s"
    fix = f"{spread}; correct host_link_mbit_per_s where it has more"
    if (produced + read if workload.reader_records_per_s else produced) > link * MBIT:
        sheet.error("rest.link", f"{what}: no setting brings that through", fix)
    elif bytes_ > link * MBIT:
        fix = f"say in kafka_rest_workload.reader_records_per_s what one reads, or {spread}"
        sheet.warning("rest.link", f"{what}: too little, unless readers read less", fix)
    elif encoded > link * MBIT:
        sheet.warning("rest.link", f"{what}: enough towards the brokers, and not for clients' base64", fix)


def _said(workload: RestWorkload) -> str:
    """Say what the bytes of a host are made of."""

    def said(rate: int) -> str:
        return f"{rate / 1e6:.1f} MB/s, {rate * BASE64 / 1e6:.1f} as base64 in JSON"

    produced, read = bytes_per_s(workload), read_per_s(workload)
    own = workload.reader_records_per_s
    parts = []
    if produced:
        size = f"{workload.records_per_s} records/s of {workload.record_bytes} bytes"
        parts.append(f"{size} are {said(produced)}")
    if read:
        each = f"{own or READER_RECORDS} records/s each{'' if own else ' (assumed)'}"
        parts.append(f"{readers_of(workload)} readers of {each} take {said(read)}")
    return "; ".join(parts)


def check_requests(sheet: Sheet, workload: RestWorkload, buffer: int, heap_mib: int, key: str) -> None:
    """Find requests that the producer's buffer does not hold; ``key`` is that of the buffer."""
    each = request_bytes(workload)
    if each <= buffer:
        return
    fitting = max(1, buffer // workload.record_bytes)
    own = any(s.key == key and s.by == "person" for s in sheet.settings)
    larger = own and _rounded(each) <= heap_mib * MIB // 4
    sheet.warning(
        "rest.request",
        f"a request of {workload.records_per_request} records of {workload.record_bytes} bytes has {each} "
        f"bytes, and {key} is {buffer}: its last records wait until its first ones have left, and all other "
        "requests behind them",
        (f"set {key} to {_rounded(each)}{sheet.inside}, or " if larger else "")
        + f"send {fitting} records or fewer in a request "
        f"({sheet.name('kafka_rest_workload.records_per_request')})",
        key,
    )


def buffer_for(workload: RestWorkload, default: int, most: int) -> int:
    """Return the bytes of a producer's buffer that hold a request: the default at least, ``most`` at most."""
    return max(default, min(_rounded(request_bytes(workload)), most))


def _rounded(bytes_: int) -> int:
    return math.ceil(bytes_ / MIB) * MIB
