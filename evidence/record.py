"""The identity of a record: a fixed binary prefix of its value that survives every hop.

Layout, big-endian (``PREFIX_BYTES`` = 36 bytes, then the payload):

====== ===== ==========================================================================
offset bytes field
====== ===== ==========================================================================
0      4     magic ``KDG1``
4      8     run: the first 8 bytes of SHA-256 of the run id
12     4     producer, less than 2^31
16     8     seq, from 0 without gaps per producer, less than 2^63
24     8     intended send time, microseconds since the epoch
32     4     CRC-32 (zlib) of bytes 0-31 followed by the payload
====== ===== ==========================================================================
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

MAGIC: Final = b"KDG1"
#: The fields in their order, as struct writes them.
_FIELDS: Final = {"magic": "4s", "run": "8s", "producer": "I", "seq": "Q", "intended_us": "Q", "crc": "I"}
_ENDS: Final = [*accumulate(struct.calcsize(f">{kind}") for kind in _FIELDS.values())]
#: Where each field stands in a value; ``MARK`` is magic and run, by which a run's records are known.
PRODUCER, SEQ, INTENDED_US, CRC = (slice(*ends) for ends in pairwise(_ENDS[1:]))
MARK: Final = slice(0, PRODUCER.start)
PREFIX_BYTES: Final = _ENDS[-1]
_HEAD: Final = struct.Struct(">" + "".join([*_FIELDS.values()][:-1]))
_CRC: Final = struct.Struct(f">{_FIELDS['crc']}")


class Identity(NamedTuple):
    """What the prefix of a value says; ``crc_ok`` tells whether the value is still the one that was sent."""

    producer: int
    seq: int
    intended_us: int
    crc: int
    crc_ok: bool


def run_tag(run_id: str) -> bytes:
    """Return the 8 bytes that mark a record as belonging to a run."""
    return hashlib.sha256(run_id.encode()).digest()[:8]


def encode(tag: bytes, producer: int, seq: int, intended_us: int, payload: bytes) -> tuple[bytes, int]:
    """Return the value to send and its checksum."""
    head = _HEAD.pack(MAGIC, tag, producer, seq, intended_us)
    crc = zlib.crc32(payload, zlib.crc32(head))
    return head + _CRC.pack(crc) + payload, crc


def decode(tag: bytes, value: bytes) -> Identity | None:
    """Return the identity in a value, or None when it is not a record of this run."""
    if len(value) < PREFIX_BYTES:
        return None
    magic, found_tag, producer, seq, intended_us = _HEAD.unpack_from(value)
    if magic != MAGIC or found_tag != tag or producer >= 1 << 31 or seq >= 1 << 63:
        return None
    (crc,) = _CRC.unpack_from(value, _HEAD.size)
    actual = zlib.crc32(value[PREFIX_BYTES:], zlib.crc32(value[: _HEAD.size]))
    return Identity(producer, seq, intended_us, crc, crc == actual)
