"""Break one line of the product after the other, and see which tests of `make check` notice: ``make mutants``.

A copy of the tree is broken, never the tree itself. The same seed breaks the same lines of the same tree, in
Python and in the conditions of tasks.
"""

from __future__ import annotations

import argparse
import ast
import copy
import difflib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: What is broken.
_PRODUCT: Final = re.compile(
    r"(kedge|plugins|spark_checks|verify)/.*\.py|roles/.*/(tasks|handlers)/.*\.yml|[a-z_]+\.yml"
)
_COMPARED: Final = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COUNTED: Final = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}
_CONDITION: Final = re.compile(
    r"^( *(?:- )?(?:when|failed_when|changed_when|until): )([^>|\[\"'{\n][^\n]*)$", re.M
)
_FIRST: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.M)
_NOTHING_RUN: Final = 5
_TESTS: Final = ("tests/unit", "tests/render")


@dataclass(frozen=True)
class Mutant:
    """One broken place: its file, where it begins and ends in the text, and what stands there instead."""

    path: str
    begin: int
    end: int
    broken: str


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """Yield all that can be broken in a file."""
    if path.endswith(".yml"):
        for found in _CONDITION.finditer(text):
            told = {"true": "false", "false": "true"}.get(found[2], f"not ({found[2]})")
            yield Mutant(path, found.start(2), found.end(2), told)
        return
    # Columns of syntax trees count bytes.
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(text)):
        broken = _broken(node)
        if broken is not None and isinstance(node, ast.expr | ast.stmt):
            ends = (node.end_lineno or node.lineno, node.end_col_offset or 0)
            begin, end = starts[node.lineno - 1] + node.col_offset, starts[ends[0] - 1] + ends[1]
            yield Mutant(path, len(text.encode()[:begin].decode()), len(text.encode()[:end].decode()), broken)


def _broken(node: ast.AST) -> str | None:
    """Return what stands for a node when it is broken; None where nothing does."""
    other = copy.copy(node)
    if isinstance(other, ast.Compare) and len(other.ops) == 1:
        other.ops = [_COMPARED[type(other.ops[0])]()]
    elif isinstance(other, ast.BoolOp):
        other.op = ast.Or() if isinstance(other.op, ast.And) else ast.And()
    elif isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.Not):
        return f"({ast.unparse(other.operand)})"
    elif isinstance(other, ast.BinOp) and type(other.op) in _COUNTED:
        other.op = _COUNTED[type(other.op)]()
        return f"({ast.unparse(other)})"
    elif isinstance(other, ast.Constant) and type(other.value) in (bool, int):
        other.value = not other.value if isinstance(other.value, bool) else other.value + 1
    elif isinstance(other, ast.Raise) or (isinstance(other, ast.Expr) and isinstance(other.value, ast.Call)):
        return "pass"
    else:
        return None
    return ast.unparse(other)


def copied(to: Path) -> list[str]:
    """Copy what git knows of the tree, as it stands; return the files that can be broken."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    files = [name for name in listed if (ROOT / name).is_file()]
    for name in files:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
    (to / ".venv").symlink_to(ROOT / ".venv")
    return sorted(filter(_PRODUCT.fullmatch, files))


def noticed(tree: Path, seconds: float, *options: str) -> str:
    """Run tests of the copy; return which one failed, or why none could, and nothing where all passed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        "check",
        "-p",
        "no:cacheprovider",
        *options,
        *_TESTS,
    ]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, cwd=tree, stdout=out, stderr=out, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return "time"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        said = out.read()
    if status in (0, _NOTHING_RUN):
        return ""
    found = _FIRST.search(said)
    return found[1] if found else said.strip()[-300:]


def area(path: str) -> str:
    """Return the word by which test files of a file's area are found: the file's, a role's or a package's."""
    parts = Path(path).with_suffix("").parts
    return (
        parts[1]
        if parts[0] == "roles"
        else next(part for part in reversed(parts) if not part.startswith("__"))
    )


def main() -> int:
    """Break, test and count; list the survivors with what was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--n", type=int, default=20, help="how many lines are broken")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kedge-mutants-") as folder:
        tree = Path(folder)
        texts = {path: (tree / path).read_text(encoding="utf-8") for path in copied(tree)}
        every = [mutant for path, text in texts.items() for mutant in mutants(path, text)]
        print(
            f"seed {options.seed}: {options.n} of {len(every)} mutants; first the tests of the tree as it is"
        )
        began = time.monotonic()
        if why := noticed(tree, 3600, "-n", "2"):
            print(f"they fail already: {why}")
            return 2
        limit = 60 + 5 * (time.monotonic() - began)
        survivors = []
        for number, one in enumerate(random.Random(options.seed).sample(every, options.n), 1):
            text, file = texts[one.path], tree / one.path
            broken = text[: one.begin] + one.broken + text[one.end :]
            place = f"{one.path}:{text.count(chr(10), 0, one.begin) + 1}"
            file.write_text(broken, encoding="utf-8")
            by = noticed(tree, limit, f"--area={area(one.path)}") or noticed(tree, limit, "-n", "2")
            file.write_text(text, encoding="utf-8")
            print(f"{number}/{options.n} {place}: {f'caught by {by}' if by else 'SURVIVED'}", flush=True)
            if not by:
                lines = difflib.unified_diff(text.splitlines(), broken.splitlines(), lineterm="", n=1)
                survivors.append("\n".join([place, *list(lines)[2:]]))
    print(
        "", *survivors, f"{options.n - len(survivors)} of {options.n} caught, seed {options.seed}", sep="\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
