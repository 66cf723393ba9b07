"""The jars that benches run a broker with."""

from __future__ import annotations

import sys
from pathlib import Path

from lab.services.brokers import kafka_jars


def broker_jars() -> Path:
    """Return the folder of a broker's jars; ends with status 2 and one line where they are not cached."""
    jars = kafka_jars()
    if jars is None:
        print("the jars of a broker are not cached: make setup", file=sys.stderr)
        raise SystemExit(2)
    return jars
