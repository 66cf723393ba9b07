"""The records of a load, by the thousand: keys, values and identities as numpy arrays.

The key of record ``seq`` is ``b"<producer>-<seq mod KEYS>"``. Records with one key belong on one partition:
the partitioner is Java's (murmur2 of the key) by either way, so that placement can be audited from the
ledger alone.
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

from kedge.evidence.record import encode
from kedge.evidence.record_layout import CRC, INTENDED_US, PREFIX_BYTES, SEQ
from verify.load.schedule import Longs

KEYS: Final = 4000
_PAYLOADS: Final = 256

Bytes = npt.NDArray[np.uint8]


def keys(producer: int) -> list[bytes]:
    """Return the producer's keys; record ``seq`` has the one at ``seq % KEYS``."""
    return [b"%d-%d" % (producer, number) for number in range(KEYS)]


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
