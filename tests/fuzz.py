"""``python -m tests.fuzz [--inputs N] [--seed N] [KIND...]``: throws inputs at what reads files of others, and counts.

KIND is inventory (a plan of it), review (files of any kind), or border (each source of untrusted data). Each input is
read by a process of its own. A traceback, more than ten seconds of a core, or more than 1 GB is a failure, and the
numbers that are printed with it make the input again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import yaml

from kedge.evidence.bounds import TooMuchError, in_bounds
from kedge.plan_command import main as plan
from kedge.review.command import review
from kedge.review.page import page
from kedge.review.reading import ReviewError
from kedge.review.showing import markdown, text
from tests.unit import test_review as reviewed
from tests.unit.test_border_sources import THROWN, WRONG, taken
from tests.unit.test_sizing_broken import ALL, GROUPS, HOSTS
from tests.untrusted import SOURCES

_SECONDS = 10
_MEMORY = 1 << 30
#: Letters of an input.
_BYTES = 900_000
_INVENTORY = yaml.safe_dump(
    {
        "all": {
            "vars": ALL,
            "hosts": HOSTS,
            "children": {name: {"hosts": dict.fromkeys(hosts)} for name, hosts in GROUPS.items()},
        }
    }
)
_REVIEWED = {
    "compose.yml": reviewed.COMPOSE,
    "consumer.properties": reviewed.CONSUMER,
    "producer.properties": reviewed.PRODUCER,
    "mirror.sh": reviewed.MIRROR,
    "mm2.properties": reviewed.MM2,
    "proxy.service": "[Service]\nEnvironment=KAFKAREST_HEAP_OPTS=-Xmx2g\nMemoryMax=3G\nLimitNOFILE=1024\n"
    "ExecStart=/usr/bin/java -Xmx1g io.confluent.kafkarest.KafkaRestMain /etc/kafka-rest.properties\n",
    "kafka-rest.properties": "id=rest\nproducer.acks=1\nconsumer.request.max.bytes=1000\n",
    "streams.properties": "application.id=joins\nnum.stream.threads=4\nrocksdb.config.setter=a.B\n",
    "haproxy.cfg": "defaults\n timeout server 30s\nbackend rest\n server a 10.0.0.1:8082 check\n",
    "sysctl.conf": "net.core.somaxconn = 128\nvm.swappiness = 60\n",
}
#: What stands in the place of a word, a value or a line: what readers stumble over.
_PIECES = (
    "9" * 401, "9" * 5_000, "-1", "0", "1e999", ".inf", ".nan", "2026-13-45", "0x", "1:99", "''", "~", "{}", "[]",
    "[" * 30_000, "{a: " * 20_000, "- " * 30_000, "&a [*a]", "*b", "<<: *a", "!!binary x", "!vault x", "!!int x",
    "${a:-" * 20_000, "$(" * 20_000, "{{ x", "{% for %}", "%", "\\", "\\u00", "\t", "\x1b[31m", "\u202e", "\x85", "#", "'",
    '"', ":", "=", ";", " " * 60_000, "\n" * 60_000, "x" * 120_000, "a.b." * 30_000, "->", ",", "/" * 9_999, "null", "true",
)  # fmt: skip


def changed(draw: random.Random, given: str) -> str:
    """Return a text with some words, values or lines otherwise; it stays under 1 MB."""
    made = given[:_BYTES]
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        lines = made.split("\n")
        at = draw.randrange(len(lines))
        line, piece = lines[at], draw.choice(_PIECES)
        name, sign, _ = next((p for s in (": ", "=") if (p := line.partition(s))[1]), (line, "", ""))
        ways = [
            f"{name}{sign}{piece}",
            f"{line}{piece}",
            f"{line[: len(line) - len(line.lstrip())]}{piece}: 1",
            piece,
        ]
        many = "\n".join(f"{name[:200]}{n}{sign or '='}{n}" for n in range(draw.choice([20, 300, 3_000])))
        words = line.split(" ")
        words[draw.randrange(len(words))] = piece
        lines[at] = draw.choice(
            [*ways, many, " ".join(words), "\n".join([line[:1_500]] * draw.choice([2, 500])), ""]
        )
        made = "\n".join(lines)[:_BYTES]
    return made


def of_inventory(draw: random.Random, folder: Path) -> None:
    """Plan an inventory."""
    file = folder / "hosts.yml"
    file.write_text(changed(draw, _INVENTORY), encoding="utf-8", errors="replace")
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        form = draw.choice(["text", "json", "html", "markdown"])
        assert plan(["-i", str(file), "--format", form]) in (0, 1, 2)


def of_review(draw: random.Random, folder: Path) -> None:
    """Review one file or two, and show what is said of them."""
    files = []
    for name in draw.sample([*_REVIEWED], draw.choice([1, 1, 2])):
        files.append(folder / name)
        made = changed(draw, _REVIEWED[draw.choice([name] * 9 + [*_REVIEWED])])
        files[-1].write_text(made, encoding="utf-8", errors="replace")
    with contextlib.suppress(ReviewError):
        found = review(files)
        for shown in (text, markdown, page):
            shown(*found)


def of_border(draw: random.Random, _: Path) -> None:
    """Have a source take its own words otherwise."""
    source = SOURCES[draw.choice([*SOURCES])]
    data = draw.choice([source.good, source.good, *THROWN.values()])
    if draw.random() < 0.5:
        said = changed(draw, data.decode("latin-1"))
        taken(source, said.encode("utf-8", errors="replace"))
    else:
        at = draw.randrange(len(data) + 1)
        piece = str(draw.choice(WRONG)).encode("utf-8", errors="replace")
        taken(source, data[:at] + piece + data[at + draw.randrange(20) :])


KINDS: dict[str, Callable[[random.Random, Path], None]] = {
    "inventory": of_inventory,
    "review": of_review,
    "border": of_border,
}


def thrown(kind: str, seed: int, number: int) -> str:
    """Throw one input; return why it is a failure, empty where it is none."""
    with tempfile.TemporaryDirectory(prefix="kedge-fuzz-") as folder:
        try:
            return in_bounds(
                partial(_read, kind, random.Random(f"{kind} {seed} {number}"), Path(folder)),
                _MEMORY,
                _SECONDS,
            )
        except TooMuchError as error:
            return str(error)


def _read(kind: str, draw: random.Random, folder: Path) -> str:
    try:
        KINDS[kind](draw, folder)
    except MemoryError:
        raise
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-4:]
        return f"{type(error).__name__}: {str(error)[:200]!r} at {', '.join(f'{one.filename}:{one.lineno}' for one in last)}"
    return ""


def main() -> int:
    """Throw; print counts, and each failure with what makes it again."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", default=[*KINDS])
    parser.add_argument("--inputs", type=int, default=300, help="of each kind")
    parser.add_argument("--seconds", type=int, default=600, help="after which each kind ends, with its count")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for kind in options.kinds:
        ends = time.monotonic() + options.seconds
        for number in range(options.first, options.first + options.inputs):
            if time.monotonic() > ends:
                break
            counts[kind] += 1
            if why := thrown(kind, options.seed, number):
                counts["failures"] += 1
                print(f"{kind} --seed {options.seed} --first {number} --inputs 1: {why}", flush=True)
        print(f"{kind}: {counts[kind]} inputs, seed {options.seed}", flush=True)
    print(f"{counts['failures']} failures of {counts.total() - counts['failures']} inputs")
    return 1 if counts["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
