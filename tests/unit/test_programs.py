"""Every program that the kit or a test calls is one that set-up of its target sees to.

The calls are read from the source: the first word of each list that goes to ``subprocess`` or to a function that
hands it on, and what ``shutil.which`` looks for.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from kedge.setup.packages import programs
from kedge.setup.paths import PROJECT
from kedge.setup.targets import TARGETS

#: What runs under a target of the Makefile.
CALLERS = {
    "setup": (
        "kedge",
        "spark_checks",
        "verify",
        "plugins/action",
        "lab/demo",
        "lab/fleet",
        "lab/services",
        "lab/release.py",
    ),
    "demo-mirror": ("kedge/setup/go_program.py",),
    "test-fast": (
        "tests/unit",
        "tests/render",
        "tests/spark",
        "tests/setup",
        "tests/conftest.py",
        "tests/balancers.py",
        "tests/outside.py",
        "lab/services/prometheus.py",
    ),
    "test-slow": ("tests/oracle", "tests/faults", "tests/balancers.py"),
    "test-proxy": ("tests/contract", "tests/e2e/test_molecule.py"),
    "test-demo": ("tests/e2e/test_demo.py", "tests/e2e/playing.py"),
    "test-kafka": ("tests/kafka", "tests/contract"),
    "test-fleet": ("tests/e2e", "tests/doubles"),
    "test-bare": ("tests/bare",),
    "bench": ("lab/bench",),
    "test-long": ("tests/long.py",),
    "mutants": ("tests/mutants.py",),
}
#: What another target runs, and the list of packages itself.
ELSEWHERE = frozenset(("kedge/setup/go_program.py", "kedge/setup/packages.py", "lab/services/prometheus.py"))
#: What is looked for and done without: another engine, another way to become root, other browsers;
#: git, by which only who keeps an inventory in a repository plans against a commit of it.
OPTIONAL = frozenset(("docker", "git", "sudo", "chromium-browser", "google-chrome"))
#: What runs on nodes, and the packages of their image that bring it.
ON_NODES = ("plugins/modules", "plugins/module_utils", "verify/watch/host_sampler.py")
NODE_PACKAGES = {
    "maprcli": "a vendor's own",
    "journalctl": "systemd",
    "systemctl": "systemd",
    "systemd-detect-virt": "systemd",
    "haproxy": "haproxy",
    "jcmd": "openjdk-17-jdk-headless",
    "ss": "iproute2",
    "timeout": "coreutils",
}
_RUNS = frozenset(("run", "Popen", "check_output", "check_call", "call"))
#: How a module of Python is started: with -m and Python before it, in a list or on a line, or by verify.process.
_MODULE = re.compile(
    r"""(?:python3?|executable|_python(?:\s*\|\s*quote)?\s*\}\})\)?["']?,?\s+(?:-P\s+)?["']?-m["']?,?\s+["']?([a-z][a-z0-9_.]*[a-z0-9_])"""
    r"""|start_module\(\s*["']([\w.]+)|_canary_run\s*\}\}\s+([\w.]+)"""
)
#: Of Python, or of a package; the name of 0.1.0, to which local.py leads; a variable.
_OF_OTHERS = frozenset(
    ("local.setup", "module", "pip", "venv", "pytest", "http.server", "pip_audit", "hatchling", "ansible")
)
_NAME = re.compile(r"[a-z][a-z0-9.+-]*")


class Source:
    """A file of Python, and what is known of its names without running it."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.values: dict[str, list[ast.expr]] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.values.setdefault(node.targets[0].id, []).append(node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                self.values.setdefault(node.target.id, []).append(node.value)
            elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
                self.values.setdefault(node.target.id, []).extend(getattr(node.iter, "elts", ()))
            elif isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node

    def called(self) -> set[str]:
        """Return the programs that the file calls or looks for."""
        found = {word for command in self._commands() for word in self._first(command, frozenset())}
        return {word for word in found if _NAME.fullmatch(word)}

    def _commands(self) -> Iterator[ast.expr]:
        handing_on = {name for name, function in self.functions.items() if self._hands_on(function)}
        for call in self._calls(self.tree):
            if _is_process(call) or _name(call) in handing_on:
                yield from call.args[:1]

    def _hands_on(self, function: ast.FunctionDef) -> bool:
        arguments = [each.arg for each in function.args.args if each.arg != "self"]
        if function.args.vararg:
            arguments.append(function.args.vararg.arg)
        for call in self._calls(function):
            first = call.args[0]
            while isinstance(first, ast.List | ast.Tuple) and first.elts:
                first = first.elts[0]
            first = first.value if isinstance(first, ast.Starred) else first
            if _is_process(call) and isinstance(first, ast.Name) and first.id in arguments[:1]:
                return True
        return False

    @staticmethod
    def _calls(tree: ast.AST) -> Iterator[ast.Call]:
        return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)

    def _first_of(self, parts: Sequence[ast.expr], seen: frozenset[str]) -> Iterator[str]:
        for part in parts:
            words = list(self._first(part, seen))
            yield from words
            if not isinstance(part, ast.Starred) or (words and isinstance(part.value, ast.Name)):
                return  # else it may be empty, and the next is the first

    def _first(self, node: ast.expr, seen: frozenset[str]) -> Iterator[str]:
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                yield from self._first_of(parts, seen)
            case ast.Starred(value=value):
                yield from self._first(value, seen)
            case ast.Name(id=name) if name not in seen:
                for value in self.values.get(name, []):
                    yield from self._first(value, seen | {name})
            case ast.BinOp() | ast.BoolOp() | ast.IfExp():
                for value in _alternatives(node):
                    yield from self._first(value, seen)
            case ast.Call() if _name(node) in self.functions and _name(node) not in seen:
                for part in ast.walk(self.functions[_name(node)]):
                    if isinstance(part, ast.Return) and part.value:
                        yield from self._first(part.value, seen | {_name(node)})
            case ast.Call(args=[argument, *_]) if _name(node) in ("str", "which"):
                yield from self._first(argument, seen)


def _alternatives(node: ast.BinOp | ast.BoolOp | ast.IfExp) -> list[ast.expr]:
    """What an expression begins with or comes to."""
    match node:
        case ast.BinOp(left=left):
            return [left]
        case ast.BoolOp(values=values):
            return values
        case ast.IfExp(body=one, orelse=other):
            return [one, other]


def _name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_process(call: ast.Call) -> bool:
    function = ast.unparse(call.func)
    of, _, name = function.rpartition(".")
    return (of in ("subprocess", "children") and name in _RUNS) or function == "shutil.which"


def files(places: Iterable[str]) -> Iterator[Path]:
    for place in places:
        path = PROJECT / place
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


@functools.cache
def called_by(file: Path) -> set[str]:
    text = file.read_text(encoding="utf-8")
    return Source(text).called() if re.search(r"subprocess|children|shutil", text) else set()


def called_under(places: Iterable[str], but: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """Return the programs that files call, each with those files."""
    found: dict[str, list[str]] = {}
    for file in files(places):
        name = str(file.relative_to(PROJECT))
        if name not in but:
            for program in called_by(file):
                found.setdefault(program, []).append(name)
    return found


@pytest.mark.parametrize("target", CALLERS)
def test_set_up_of_a_target_sees_to_every_program_that_is_called_under_it(target: str) -> None:
    places = CALLERS[target]
    left_out = frozenset(ON_NODES) | (ELSEWHERE - set(places))
    known = programs(TARGETS[target]) | OPTIONAL
    unknown = {name: by for name, by in called_under(places, left_out).items() if name not in known}
    assert not unknown, f"name them in kedge/setup/targets.py and packages.py: {unknown}"


def test_image_of_the_nodes_brings_what_is_called_on_nodes() -> None:
    listed = [
        "a vendor's own",
        "coreutils",  # of every Debian
        *(PROJECT / "lab" / "fleet" / "image" / "packages").read_text().splitlines(),
    ]
    for program, by in called_under(ON_NODES).items():
        assert NODE_PACKAGES[program] in listed, by


def test_every_file_that_calls_a_program_is_under_a_target() -> None:
    known = {file for places in (*CALLERS.values(), ON_NODES) for file in files(places)}
    rooms = ("kedge", "spark_checks", "verify", "plugins", "lab", "tests")
    strangers = [file for file in files(rooms) if file not in known]
    assert not {name for file in strangers for name in called_by(file)}


def modules_started(text: str) -> set[str]:
    """Return the modules of Python that a playbook, a script or a program starts by their names."""
    return {next(filter(None, found)) for found in _MODULE.findall(text)} - _OF_OTHERS


def test_every_module_that_is_started_by_its_name_exists() -> None:
    folders = ("kedge", "spark_checks", "verify", "plugins", "lab", "roles", "templates", "molecule", "tests")
    every = [*PROJECT.glob("*"), *(file for folder in folders for file in (PROJECT / folder).rglob("*"))]
    started = {
        module: str(file.relative_to(PROJECT))
        for file in every
        if file.suffix in (".yml", ".j2", ".py", ".sh") and file != Path(__file__)
        if "released" not in file.parts
        for module in modules_started(file.read_text(encoding="utf-8"))
    }
    assert {"verify.trials", "verify.load.worker", "verify.load.agent", "verify.canary.command"} <= set(
        started
    )
    there = {
        module: (
            PROJECT / module.replace(".", "/") / "__main__.py",
            PROJECT / f"{module.replace('.', '/')}.py",
        )
        for module in started
    }
    assert not {
        module: started[module] for module, places in there.items() if not any(p.exists() for p in places)
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("subprocess.run(['one', '-x'])", {"one"}),
        ("command = ['two', x]\nsubprocess.Popen([*command, y])", {"two"}),
        ("subprocess.run([*prefix, 'three'])", {"three"}),
        ("def go(*command): subprocess.run([*command])\ngo('four', '-v')", {"four"}),
        ("def words(): return ['five']\nsubprocess.run(words())", {"five"}),
        ("for name in ('six', 'seven'): shutil.which(name)", {"six", "seven"}),
        ("x = shutil.which('eight') or 'nine'\nsubprocess.run([x])", {"eight", "nine"}),
        ("children.run(['ten'], 'trouble', prefix=p)", {"ten"}),
        ("subprocess.run([sys.executable, '-m', 'x'])\nsubprocess.run([str(path)])", set()),
    ],
)
def test_programs_are_read_from_the_ways_in_which_they_are_called(text: str, found: set[str]) -> None:
    assert Source(text).called() == found
