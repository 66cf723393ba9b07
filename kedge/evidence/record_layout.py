"""Where the fields of a record's identity stand in its value.

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

import struct
from itertools import accumulate, pairwise
from typing import Final

MAGIC: Final = b"KDG1"
#: The fields in their order, as struct writes them.
FIELDS: Final = {"magic": "4s", "run": "8s", "producer": "I", "seq": "Q", "intended_us": "Q", "crc": "I"}
_ENDS: Final = [*accumulate(struct.calcsize(f">{kind}") for kind in FIELDS.values())]
#: Where each field stands in a value; ``MARK`` is magic and run, by which a run's records are known.
PRODUCER, SEQ, INTENDED_US, CRC = (slice(*ends) for ends in pairwise(_ENDS[1:]))
MARK: Final = slice(0, PRODUCER.start)
PREFIX_BYTES: Final = _ENDS[-1]
