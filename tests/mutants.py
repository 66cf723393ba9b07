"""Break one line of the product after the other, and see which tests of `make check` notice: ``make mutants``.

A copy of the tree is broken, never the tree itself. The same seed breaks the same lines of the same tree, in
Python and in the conditions of tasks.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import difflib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.M)
_NOTHING_RUN: Final = 5
_CPU_S: Final = 900
_WAITED_S: Final = 3600
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


def noticed(tree: Path, *options: str, tests: Sequence[str] = _TESTS) -> list[str]:
    """Run tests of the copy; return those that failed, or why none could, and nothing where all passed."""
    command = [
        sys.executable, "-m", "pytest", "-q", "--tb=no", "-m", "check", "-p", "no:cacheprovider", *options, *tests,
    ]  # fmt: skip
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, cwd=tree, stdout=out, stderr=out, start_new_session=True)
        try:
            status = process.wait(_WAITED_S)
        except subprocess.TimeoutExpired:
            return ["time"]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        said = out.read()
    if status in (0, _NOTHING_RUN):
        return []
    return _FAILED.findall(said) or [said.strip()[-300:]]


def area(path: str) -> str:
    """Return the word by which test files of a file's area are found: the file's, a role's or a package's."""
    parts = Path(path).with_suffix("").parts
    return (
        parts[1]
        if parts[0] == "roles"
        else next(part for part in reversed(parts) if not part.startswith("__"))
    )


class Copy:
    """A copy of the tree, of which lines are broken and mended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts = {path: (folder / path).read_text(encoding="utf-8") for path in copied(folder)}

    @contextlib.contextmanager
    def broken(self, *all_of_them: Mutant) -> Iterator[None]:
        """Break lines for a while; of two that overlap the first."""
        texts, begun = dict(self.texts), {}
        for one in sorted(all_of_them, key=lambda one: -one.begin):
            if one.end <= begun.get(one.path, one.end):
                text = texts[one.path]
                texts[one.path] = text[: one.begin] + one.broken + text[one.end :]
                begun[one.path] = one.begin
        try:
            for path in begun:
                (self.folder / path).write_text(texts[path], encoding="utf-8")
            yield
        finally:
            for path in begun:
                (self.folder / path).write_text(self.texts[path], encoding="utf-8")

    def place(self, one: Mutant) -> str:
        """Return the file and line of a mutant."""
        return f"{one.path}:{self.texts[one.path].count(chr(10), 0, one.begin) + 1}"

    def difference(self, one: Mutant) -> str:
        """Return what is broken, as a difference of lines."""
        with self.broken(one):
            now = (self.folder / one.path).read_text(encoding="utf-8")
        lines = difflib.unified_diff(self.texts[one.path].splitlines(), now.splitlines(), lineterm="", n=1)
        return "\n".join([self.place(one), *list(lines)[2:]])

    def caught(self, one: Mutant, *options: str, tests: Sequence[str] = _TESTS) -> str:
        """Return the test that notices a mutant, and passes without it."""
        with self.broken(one):
            found = noticed(self.folder, "-x", *options, tests=tests)
        if found and "::" in found[0] and noticed(self.folder, tests=found[:1]):
            print(f"  {found[0]} fails already", flush=True)
            return ""
        return found[0] if found else ""


def main() -> int:
    """Break, test and count; list the survivors with what was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--n", type=int, default=20, help="how many lines are broken")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    # Tests inherit it. Time on a core says less of the machine's load than the clock does.
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    with tempfile.TemporaryDirectory(prefix="kedge-mutants-") as folder:
        tree = Copy(Path(folder))
        every = [mutant for path, text in tree.texts.items() for mutant in mutants(path, text)]
        print(f"seed {options.seed}: {options.n} of {len(every)} mutants", flush=True)
        left = []
        for number, one in enumerate(random.Random(options.seed).sample(every, options.n), 1):
            by = tree.caught(one, f"--area={area(one.path)}")
            said = f"caught by {by}" if by else "not by the tests of its area"
            print(f"{number}/{options.n} {tree.place(one)}: {said}", flush=True)
            left += [] if by else [one]
        # All tests take minutes. One run for all that is left names those that notice any of them.
        with tree.broken(*left):
            tests = noticed(tree.folder, "-n", "2") if left else []
        print(f"all tests, with these {len(left)} broken together: {len(tests)} failed", flush=True)
        known = [name for name in tests if "::" in name] or list(_TESTS)
        survivors = [one for one in left if not (tests and _told(tree, one, known))]
        print("", *map(tree.difference, survivors), sep="\n")
        print(f"{options.n - len(survivors)} of {options.n} caught, seed {options.seed}")
    return 0


def _told(tree: Copy, one: Mutant, tests: Sequence[str]) -> str:
    by = tree.caught(one, tests=tests)
    print(f"{tree.place(one)}: {f'caught by {by}' if by else 'SURVIVED'}", flush=True)
    return by


if __name__ == "__main__":
    sys.exit(main())
