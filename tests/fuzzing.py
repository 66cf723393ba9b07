"""``python -m tests.fuzzing SOURCE SECONDS``: libFuzzer throws at one source of untrusted data, by atheris.

What is thrown follows which branches it reaches. Anything but a value within bounds, or a refusal in one line, ends
the run with a traceback. The last line of a run says how often was thrown.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(
    include=["kedge.evidence.border", "kedge.deploy.mirror_positions", "kedge.evidence.record", "verify"]
):
    from tests.unit.test_border_sources import THROWN, WRONG, taken
    from tests.untrusted import SOURCES

_MOST_BYTES = 4_096


def changed(value: Any, draw: random.Random) -> Any:
    """Return a document with one place otherwise: documents are parsed in Rust, where no branch is seen."""
    if value and isinstance(value, dict | list) and draw.random() < 0.9:
        key = draw.choice([*value] if isinstance(value, dict) else range(len(value)))
        made = value.copy()
        made[key] = changed(value[key], draw)
        return made
    wrong = draw.choice(WRONG)
    return draw.choice([wrong, [value, wrong], {"a": value}, draw.getrandbits(draw.randrange(1, 200))])


def mutator(good: bytes) -> Callable[[bytes, int, int], bytes]:
    """Return what changes an input: its bytes, or one line of JSON in it."""

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        if draw.random() < 0.5:
            return atheris.Mutate(data, most)
        lines = (data if draw.random() < 0.7 else good).split(b"\n")
        at = draw.randrange(len(lines))
        with contextlib.suppress(ValueError, RecursionError):
            lines[at] = json.dumps(changed(json.loads(lines[at]), draw)).encode()
        return b"\n".join(lines)[:most]

    return mutate


def main() -> None:
    """Fuzz; libFuzzer ends the process."""
    name, seconds = sys.argv[1:]
    source = SOURCES[name]
    corpus = Path(tempfile.mkdtemp(prefix="kedge-fuzz-"))
    for number, data in enumerate([source.good, *THROWN.values()]):
        (corpus / str(number)).write_bytes(data[:_MOST_BYTES])
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={_MOST_BYTES}",
        "-seed=1",
        "-rss_limit_mb=2048",
        "-timeout=20",
    ]
    atheris.Setup(
        [sys.argv[0], *options, f"-artifact_prefix={corpus}/", str(corpus)],
        lambda data: taken(source, data),
        custom_mutator=mutator(source.good),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
