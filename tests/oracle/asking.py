"""Asks Kafka's own classes whether they take files, and holds what a review says against the answers."""

from __future__ import annotations

import base64
import random
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from kedge.setup.paths import jar_folder

#: Of each component and version.
FILES: Final = 500
#: Of a program that runs once.
_QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
_SHARE: Final = 0.3


def texts(begin: str, choices: Mapping[str, Sequence[str]], share: float = _SHARE) -> list[str]:
    """Return files that begin so, each with some of the keys; the same ones each time."""
    chosen = random.Random(1)
    found = []
    for _ in range(FILES):
        keys = [key for key in choices if chosen.random() < share]
        found.append("\n".join([begin, *(f"{key}={chosen.choice(choices[key])}" for key in keys), ""]))
    return found


def differing(
    role: str, program: str, jars: str, files: Sequence[str], refused: Callable[[str], bool]
) -> list[str]:
    """Return the answer to, and the text of, each file of which ``refused`` does not say what Kafka says."""
    given = "".join(f"{role} {base64.b64encode(text.encode()).decode()}\n" for text in files)
    source = Path(__file__).with_name(program)
    command = ["java", *_QUICK, "-cp", str(jar_folder(jars) / "*"), str(source)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    said = [line for line in done.stdout.splitlines() if line.startswith(("takes", "refuses"))]
    assert len(said) == len(files), done.stderr[-500:]
    pairs = zip(said, files, strict=True)
    return [f"{line}: {text}" for line, text in pairs if line.startswith("refuses") != refused(text)]
