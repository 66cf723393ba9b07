"""An open-loop producer through REST proxies: arrays of records in binary format on reused connections.

A request is sent once. What became of its records is what its answer says; where none came, or one that
leaves open whether the proxy carried it out, they are unknown, and nothing is repeated behind the ledger's
back.
"""

from __future__ import annotations

import asyncio
import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple
from urllib.parse import quote

import httpx
import numpy as np

from kedge.evidence.border.proxy import ProduceResult, offsets
from kedge.evidence.border.untrusted import UntrustedError, shown
from kedge.evidence.load_options import LoadSpec, RestLoad
from kedge.evidence.record import run_tag
from kedge.evidence.run import REST_INSTANCE
from kedge.evidence.writing import EvidenceWriter
from verify.load.actors import Lane
from verify.load.board import ActorState, Board, Cell, Head
from verify.load.ledger import ACKED, FAILED, UNKNOWN, Ledger
from verify.load.records import KEYS, Encoder, keys
from verify.load.rest_connections import NoAnswerError, NotSentError, Wire
from verify.load.schedule import count_due, due_us, rest_s
from verify.process import Ending, begin_work, cpu_us, now_us

PRODUCE_HEADERS: Final = {
    "Content-Type": "application/vnd.kafka.binary.v2+json",
    "Accept": "application/vnd.kafka.v2+json",
}
#: Letters of what a proxy says of a failure.
_SAID: Final = 200
#: Of what goes to instances directly: one that hangs has three requests open at the rate that it gets.
_ANSWER_S: Final = 10.0
_OPEN_EACH: Final = 3


class Entry(NamedTuple):
    """What an answer says of one record."""

    outcome: int
    partition: int = 0
    offset: int = 0
    error: str | None = None


def read_answer(status: int, body: bytes, records: int) -> list[Entry]:
    """Return what a produce answer says of each record of its request.

    A 200 may hold an error inside an entry: that record failed. Without 200: 4xx and 503 (nobody took the
    request) are failed; any other status may follow records that were written, so they are unknown.
    """
    if status != httpx.codes.OK:
        refused = status // 100 == 4 or status == httpx.codes.SERVICE_UNAVAILABLE
        if status == httpx.codes.REQUEST_TIMEOUT:
            refused = False
        text = f"HTTP {status}: {shown(body[: 4 * _SAID], _SAID)}"
        return [Entry(FAILED if refused else UNKNOWN, error=text)] * records
    try:
        return [_entry(entry) for entry in offsets(body, records)]
    except UntrustedError as error:
        return [Entry(UNKNOWN, error=f"HTTP 200: {error}")] * records


def _entry(entry: ProduceResult) -> Entry:
    if entry.error is not None or entry.error_code is not None:
        return Entry(FAILED, error=f"error_code {entry.error_code}: {entry.error}")
    if entry.partition is None or entry.offset is None:
        return Entry(UNKNOWN, error="HTTP 200 with an entry that has neither offset nor error")
    return Entry(ACKED, entry.partition, entry.offset)


async def run(load: LoadSpec, lane: Lane, board: Board, writer: EvidenceWriter, ending: Ending) -> None:
    """Produce until the board says stop; the ledger is complete when this returns."""
    if load.rest is None:
        raise ValueError("the load has no part through REST")
    producer = _Producer(load, _as_sent(load, load.rest, lane), lane, board, writer, ending)
    cells = board.cells(lane.actor)
    cells[Cell.STATE] = ActorState.READY
    while not board.head[Head.GO] and not ending:
        await asyncio.sleep(0.02)
    begin_work()
    await producer.run()
    cells[Cell.CPU_US] = cpu_us()
    cells[Cell.STATE] = ActorState.DONE


def _as_sent(load: LoadSpec, rest: RestLoad, lane: Lane) -> RestLoad:
    """Return the part of the load as this lane sends it."""
    if lane.via != REST_INSTANCE:
        return rest
    own = {"ca": load.rest_instances_ca, "request_timeout_s": _ANSWER_S}
    return rest.model_copy(update={**own, "in_flight": _OPEN_EACH * len(load.rest_instances)})


def _wires(load: LoadSpec, rest: RestLoad, lane: Lane) -> list[tuple[str | None, Wire]]:
    """Return where the lane's requests go in turn; with the instance, where that is known before."""
    urls: dict[str | None, str] = {None: rest.url}
    if lane.via == REST_INSTANCE:
        urls = {name: load.rest_instances[name] for name in load.instances_in_turn()}
    path = f"/topics/{quote(lane.topic, safe='')}"
    return [
        (name, Wire(rest.model_copy(update={"url": url}), path, PRODUCE_HEADERS))
        for name, url in urls.items()
    ]


class _Producer:
    """One producer with its session, its schedule and its ledger."""

    def __init__(
        self, load: LoadSpec, rest: RestLoad, lane: Lane, board: Board, writer: EvidenceWriter, ending: Ending
    ) -> None:
        self._load = load
        self._rest = rest
        self._lane = lane
        self._board = board
        self._ending = ending
        self._cells = board.cells(lane.actor)
        self._writer = writer
        self._ledger = Ledger(self._writer, lane, self._cells, lane.per_request)
        self._encoder = Encoder(run_tag(load.run_id), lane.producer, lane.record_bytes)
        self._keys = [base64.b64encode(key).decode() for key in keys(lane.producer)]
        self._wires = _wires(load, rest, lane)
        self._threads = ThreadPoolExecutor(rest.in_flight)
        self._open: set[asyncio.Task[None]] = set()
        self._free_us = 0  # when the last request that kept others waiting was answered

    async def run(self) -> None:
        """Send every array when it is due, several at once but no more than the bound."""
        planned = await self._send_what_is_due()
        await self._await_answers()
        # A request that is given up keeps its thread until its time is over; nobody waits for it.
        self._threads.shutdown(wait=False, cancel_futures=True)
        for _, wire in self._wires:
            wire.close()
        self._ledger.close(planned)
        self._writer.close()

    async def _send_what_is_due(self) -> int:
        start_us = int(self._board.head[Head.GO])
        self._ledger.count_late(start_us, self._load)
        planned = sent = 0
        while not self._ending and start_us:
            stop_us = int(self._board.head[Head.STOP])
            now = now_us()
            until = min(now, stop_us) if stop_us else now
            # What has left belongs to the load, however late it is told to stop.
            planned = max(count_due(start_us, self._lane.rate, until, self._lane.per_request), sent)
            while sent < planned and len(self._open) < self._rest.in_flight:
                self._start(sent, start_us)
                sent += self._lane.per_request
            if stop_us and now >= stop_us and sent == planned:
                break
            if self._board.head[Head.FLUSH_UNTIL] and now >= self._board.head[Head.FLUSH_UNTIL]:
                break
            self._writer.tick()
            self._cells[Cell.CPU_US] = cpu_us()
            await asyncio.sleep(rest_s(start_us, self._lane.rate, sent, now_us(), self._lane.per_request))
        self._add_unsent(sent, planned, start_us)
        return planned

    def _add_unsent(self, sent: int, planned: int, start_us: int) -> None:
        """Open the ledger's rows of arrays that were due but never left."""
        for first in range(sent, planned, self._lane.per_request):
            self._prepare(first, start_us)

    def _prepare(self, first: int, start_us: int) -> bytes:
        seq = np.arange(first, first + self._lane.per_request)
        intended = due_us(start_us, self._lane.rate, seq, self._lane.per_request)
        values, crc = self._encoder.encode(seq, intended)
        self._ledger.add(first, intended, crc)
        return values

    def _start(self, first: int, start_us: int) -> None:
        values = self._prepare(first, start_us)
        size, count = self._lane.record_bytes, self._lane.per_request
        records = [
            {
                "key": self._keys[(first + row) % KEYS],
                "value": base64.b64encode(values[row * size : (row + 1) * size]).decode(),
            }
            for row in range(count)
        ]
        body = json.dumps({"records": records}).encode()
        self._cells[Cell.SENT] = first + count
        self._ledger.sent(first, first + count, now_us(), self._free_us)
        task = asyncio.create_task(self._send(first, body))
        self._open.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        if len(self._open) >= self._rest.in_flight:
            self._free_us = now_us()
        self._open.discard(task)

    async def _send(self, first: int, body: bytes) -> None:
        count = self._lane.per_request
        instance, wire = self._wires[first // count % len(self._wires)]
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, wire.post, body)
            at_us, instance = now_us(), instance or answer.instance
            entries = read_answer(answer.status, answer.body, count)
        except NotSentError as error:
            at_us, entries = now_us(), [Entry(FAILED, error=str(error))] * count
        except NoAnswerError as error:
            at_us, entries = now_us(), [Entry(UNKNOWN, error=str(error))] * count
        for outcome, error_text in {(entry.outcome, entry.error) for entry in entries}:
            rows = [
                row
                for row, entry in enumerate(entries)
                if (entry.outcome, entry.error) == (outcome, error_text)
            ]
            self._ledger.settle(
                np.array(rows) + first,
                outcome,
                np.array([entries[row].partition for row in rows], np.int32),
                np.array([entries[row].offset for row in rows], np.int64),
                at_us,
                error_text,
                instance,
            )

    async def _await_answers(self) -> None:
        """Give each request that has left the time that a request may take, also after the last was sent."""
        may_take_us = int(self._rest.request_timeout_s * 1_000_000)
        while self._open:
            await asyncio.wait(self._open, timeout=0.1)
            until = int(self._board.head[Head.FLUSH_UNTIL])
            if self._ending or (until and now_us() >= until + may_take_us):
                break
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
