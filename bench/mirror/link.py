"""A stand-in for the long way between data centres: forwards TCP to one place, and delays every byte.

    python -m bench.mirror.link LISTEN_PORT TO_PORT ROUND_TRIP_MS COUNTERS

It is no network: each end's kernel talks to this process over loopback, so no byte is lost and no rate is
limited. The size of socket buffers does not bound what is under way, :data:`IN_FLIGHT_BYTES` does. What it
shows is what waiting for answers costs. It counts as it forwards, into the file COUNTERS.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Most that is under way in one direction of a connection: more than 1 Gbit/s holds in 200 ms.
IN_FLIGHT_BYTES: Final = 32 << 20
_CHUNK: Final = 1 << 18
_EVERY_S: Final = 0.1
_PRODUCE: Final = 0  # the api key of a Produce request, Kafka protocol guide


class Requests:
    """Counts Kafka's requests in one direction of a connection, by their api keys."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    def feed(self, data: bytes) -> Iterator[int]:
        """Yield the api key of each request whose first six bytes are complete now."""
        at = 0
        while at < len(data):
            if self._left:
                taken = min(self._left, len(data) - at)
                self._left -= taken
                at += taken
                continue
            taken = min(6 - len(self._head), len(data) - at)
            self._head += data[at : at + taken]
            at += taken
            if len(self._head) == 6:
                # The length counts all that follows it, of which the api key has been read.
                self._left = int.from_bytes(self._head[:4]) - 2
                yield int.from_bytes(self._head[4:])
                self._head = b""


async def pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float, counts: Counter[str], way: str
) -> None:
    """Forward one direction, every chunk ``delay_s`` after it was read, in order, until its end."""
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(IN_FLIGHT_BYTES // _CHUNK)
    requests = Requests()

    async def deliver() -> None:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if not data:
                return
            writer.write(data)
            await writer.drain()

    delivery = asyncio.create_task(deliver())
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(_CHUNK):
            counts[f"{way}_bytes"] += len(data)
            if way == "out":
                counts["produce_requests"] += sum(key == _PRODUCE for key in requests.feed(data))
            await under_way.put((time.monotonic() + delay_s, data))
    if not delivery.done():
        await under_way.put((time.monotonic() + delay_s, b""))
    with contextlib.suppress(ConnectionError):
        await delivery
    writer.close()


async def serve(port: int, to: int, round_trip_ms: float, counters: Path) -> None:
    """Forward connections to 127.0.0.1:PORT until cancelled; the counters' file shows that it listens."""
    counts: Counter[str] = Counter()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", to, limit=_CHUNK)
        except OSError:
            writer.close()
            return
        delay_s = round_trip_ms / 2 / 1000
        await asyncio.gather(
            pump(reader, onward_writer, delay_s, counts, "out"),
            pump(onward_reader, writer, delay_s, counts, "back"),
        )

    async with await asyncio.start_server(connected, "127.0.0.1", port, limit=_CHUNK):
        while True:
            fresh = counters.with_suffix(".new")
            fresh.write_text(json.dumps({"at_s": time.monotonic(), **counts}))
            fresh.replace(counters)
            await asyncio.sleep(_EVERY_S)


@dataclass(frozen=True)
class Counted:
    """What the link had forwarded at a time of the monotonic clock: towards the target, requests included."""

    at_s: float
    out_bytes: int
    produce_requests: int


@dataclass(frozen=True)
class Link:
    """A running link: the port to connect to, and where it counts."""

    port: int
    counters: Path

    def counted(self) -> Counted:
        """Return the counters, at most a tenth of a second old."""
        now = json.loads(self.counters.read_text())
        return Counted(now["at_s"], now.get("out_bytes", 0), now.get("produce_requests", 0))


@contextmanager
def running_link(port: int, to: int, round_trip_ms: float, folder: Path) -> Iterator[Link]:
    """Run the link in a process of its own until the block ends.

    Raises:
        RuntimeError: when it does not listen within 10 s.
    """
    counters = folder / f"link-{port}.json"
    command = [sys.executable, "-m", "bench.mirror.link", str(port), str(to), str(round_trip_ms)]
    process = subprocess.Popen([*command, str(counters)], cwd=Path(__file__).resolve().parents[2])
    try:
        deadline = time.monotonic() + 10
        while not counters.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the link to port {to} did not come up on port {port}")
            time.sleep(0.02)
        yield Link(port, counters)
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    listen, onward, trip, file = sys.argv[1:]
    asyncio.run(serve(int(listen), int(onward), float(trip), Path(file)))
