"""The records of a load, by the thousand: schedule, keys, values and identities as numpy arrays.

Record ``i`` of a producer (its seq) is due at ``start + i / rate``; that moment is its intended time, whether
or not the producer keeps up, so that falling behind shows as latency. A REST producer sends arrays: all
records of an array are due when its first one is.

Its key is ``b"<producer>-<seq mod KEYS>"``. Records with one key belong on one partition: the partitioner is
Java's (murmur2 of the key) by either way, so that placement can be audited from the ledger alone.
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

from kedge.evidence.prefix import CRC, INTENDED_US, PREFIX_BYTES, SEQ
from kedge.evidence.record import encode

#: Records that become due within it are handed over together.
SLICE_S: Final = 0.005
_LONGEST_REST_S: Final = 0.1
KEYS: Final = 4000
_PAYLOADS: Final = 256

Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def keys(producer: int) -> list[bytes]:
    """Return the producer's keys; record ``seq`` has the one at ``seq % KEYS``."""
    return [b"%d-%d" % (producer, number) for number in range(KEYS)]


def due_us(start_us: int, rate: float, seq: Longs, per_request: int = 1) -> Longs:
    """Return when records are due (microseconds since the epoch); ``rate`` is records/s."""
    first_of_request = seq - seq % per_request
    return start_us + (first_of_request * 1_000_000 / rate).astype(np.int64)


def count_due(start_us: int, rate: float, now_us: int, per_request: int = 1) -> int:
    """Return how many records are due at a time, counting from seq 0."""
    if now_us < start_us:
        return 0
    # A record more than the quotient, as seq 0 is due at the start; then settled against due_us,
    # because a float may lie on either side of a whole number.
    count = int((now_us - start_us) * rate / 1_000_000 // per_request + 1) * per_request
    while count and int(due_us(start_us, rate, np.array([count - 1]), per_request)[0]) > now_us:
        count -= per_request
    return count


def rest_s(start_us: int, rate: float, sent: int, now_us: int, per_request: int = 1) -> float:
    """Return for how long a producer that has sent ``sent`` records may rest.

    Many records or requests a second go by slices of :data:`SLICE_S`, and so does what is late. Else it is
    the time until the next one is due, or until the producer has to see whether it shall end.
    """
    if rate * SLICE_S >= per_request:
        return SLICE_S
    until_due_s = (int(due_us(start_us, rate, np.array([sent]))[0]) - now_us) / 1_000_000
    return min(until_due_s, _LONGEST_REST_S) if until_due_s > 0 else SLICE_S


class Encoder:
    """Makes the values of one producer, as :func:`kedge.evidence.record.encode` does, many at a time.

    The payload is one of 256 random hexadecimal texts, fixed by run and producer, and pads the value to
    ``record_bytes``. The checksum of a block costs a few table look-ups: CRC-32 is linear, so a value's
    checksum is that of its payload with the contributions of the bytes of seq and intended time added (xor).
    """

    def __init__(self, tag: bytes, producer: int, record_bytes: int) -> None:
        size = record_bytes - PREFIX_BYTES
        if size < 0:
            raise ValueError(f"record_bytes must be at least {PREFIX_BYTES}, the size of a record's identity")
        self.record_bytes = record_bytes
        random = np.random.default_rng([int.from_bytes(tag, "big"), producer])
        payloads = [random.bytes(size // 2 + 1).hex()[:size].encode() for _ in range(_PAYLOADS)]
        values = [encode(tag, producer, 0, 0, payload) for payload in payloads]
        self._templates = np.frombuffer(b"".join(value for value, _ in values), np.uint8).reshape(
            _PAYLOADS, record_bytes
        )
        self._template_crcs = np.array([crc for _, crc in values], np.uint32)
        self._changes = _crc_changes(range(SEQ.start, INTENDED_US.stop), CRC.start + size)

    def encode(self, seq: Longs, intended_us: Longs) -> tuple[bytes, Longs]:
        """Return the values of those records, one after the other, and their checksums."""
        which = seq % _PAYLOADS
        rows = self._templates[which]
        rows[:, SEQ] = _big_endian(seq)
        rows[:, INTENDED_US] = _big_endian(intended_us)
        crcs = self._template_crcs[which]
        for table, position in zip(self._changes, range(SEQ.start, INTENDED_US.stop), strict=True):
            crcs ^= table[rows[:, position]]
        rows[:, CRC] = crcs.astype(">u4").view(np.uint8).reshape(-1, 4)
        return rows.tobytes(), crcs.astype(np.int64)


def _big_endian(values: Longs) -> Bytes:
    return values.astype(">u8").view(np.uint8).reshape(-1, 8)


def _crc_changes(positions: range, size: int) -> list[npt.NDArray[np.uint32]]:
    """Return, for each position in a message of that size, how each byte there changes the checksum."""
    zero = zlib.crc32(bytes(size))
    message = bytearray(size)
    tables = []
    for position in positions:
        table = np.zeros(256, np.uint32)
        for byte in range(256):
            message[position] = byte
            table[byte] = zlib.crc32(message) ^ zero
        message[position] = 0
        tables.append(table)
    return tables
