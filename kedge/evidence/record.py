"""A record's identity: a prefix of its value, which survives every hop. Its layout is in record_layout."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kedge.evidence.record_layout import CRC, FIELDS, INTENDED_US, MAGIC, MARK, PREFIX_BYTES, PRODUCER, SEQ

_HEAD: Final = struct.Struct(">" + "".join([*FIELDS.values()][:-1]))
_CRC: Final = struct.Struct(f">{FIELDS['crc']}")


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
    return Identity(producer, seq, intended_us, crc, crc == checksum(value))


class Identities(NamedTuple):
    """What the prefixes of many values say, as masked arrays (masked: the value is no record of the run).

    ``producer`` is int32, the others are int64; an intended time that the column cannot hold is masked alone.
    """

    producer: Any
    seq: Any
    intended_us: Any
    crc: Any


def identities(tag: bytes, values: Sequence[bytes | None]) -> Identities:
    """Return what :func:`decode` says of each value, but for ``crc_ok``, many at a time."""
    heads = _heads(values)
    ours = (heads[:, MARK] == np.frombuffer(MAGIC + tag, np.uint8)).all(axis=1)
    # Numbers that the columns cannot hold were given by nobody.
    ours &= (heads[:, PRODUCER.start] < 0x80) & (heads[:, SEQ.start] < 0x80)

    def number(at: slice) -> npt.NDArray[np.int64]:
        return heads[:, at].copy().view(f">u{at.stop - at.start}")[:, 0].astype(np.int64)

    intended_us = number(INTENDED_US)
    return Identities(
        np.ma.MaskedArray(number(PRODUCER).astype(np.int32), ~ours),
        np.ma.MaskedArray(number(SEQ), ~ours),
        np.ma.MaskedArray(intended_us, ~ours | (intended_us < 0)),
        np.ma.MaskedArray(number(CRC), ~ours),
    )


def checksum(value: bytes) -> int:
    """Return the checksum of a whole value: it is intact where that is the one which it carries."""
    return zlib.crc32(value[PREFIX_BYTES:], zlib.crc32(value[: CRC.start]))


def _heads(values: Sequence[bytes | None]) -> npt.NDArray[np.uint8]:
    """Return the prefix of each value, zeros for one that is shorter."""
    sizes = {len(value) if value is not None else 0 for value in values}
    if len(sizes) == 1 and (size := next(iter(sizes))) >= PREFIX_BYTES:
        return np.frombuffer(b"".join(values), np.uint8).reshape(-1, size)[:, :PREFIX_BYTES]  # type: ignore[arg-type]  # one size: no None
    whole = [
        v[:PREFIX_BYTES] if v is not None and len(v) >= PREFIX_BYTES else bytes(PREFIX_BYTES) for v in values
    ]
    return np.frombuffer(b"".join(whole), np.uint8).reshape(-1, PREFIX_BYTES)
