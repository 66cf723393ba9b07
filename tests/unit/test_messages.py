"""Every message of an error says what was tried, what holds now and what to do next.

Python's are found in the syntax tree, those of roles and playbooks in their YAML. An exception that only
names what is wrong is completed where it is caught; that place is asked.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("plugins", "control", "verify", "trials")

#: What holds now: what serves, what was not touched, what is kept.
STATE = re.compile(
    r"\b(nothing|no ([\w{}]+ ){1,6}(was|were|began)|(stopped|touched) no|(was|were) not|keeps?|kept|serves?|"
    r"is back|as planned)\b",
    re.IGNORECASE,
)
#: What to do, as an instruction.
NEXT = re.compile(
    r"(^|[.;:,] |\n|\bthen |\bor )(Run|Fix|Set|Start|Stop|Restore|Put|Add|Wait|See|Give|Make|Take)\b",
    re.IGNORECASE,
)
#: What stands in a message for a value, and how far names and functions are followed.
VALUE, DEEP = "{}", 4

#: Exceptions that say what is wrong and how it is fixed; what holds then is known where they are caught.
COMPLETED = {
    "BundleError",
    "CollectError",
    "JarError",
    "LoadError",
    "MeasureError",
    "PlaceError",
    "TrialsError",
    "WatchError",
    "WorkerDiedError",
    "InterruptedLoadError",
}
#: Exceptions that nobody sees as they are: each becomes an outcome, a line of a report or one of the above.
INNER = {
    "CommitRefusedError",
    "ConsumerRefusedError",
    "InstanceGoneError",
    "InterruptedMeasureError",  # says what holds by itself: the topic is removed
    "NoAnswerError",
    "NotSentError",
    "RefusedError",
    "RemoteError",
}
#: Where an exception is caught and not shown there: the function, and what becomes of it.
PASSED_ON = {
    ("verify/addresses.py", "find"): "a PlaceError",
    ("verify/load/parent.py", "_all_delivered"): "raised again",
    ("trials/compare.py", "_deployed"): "a line of the report: the other variants go on",
    ("trials/compare.py", "take"): "a line of the report, as well",
}
#: Functions that make whole messages, and what else stands for one.
MAKERS = {
    "plugins/modules/haproxy_drain.py": ("refusal",),
    "plugins/modules/kedge_instance.py": ("run", "kill"),
    "plugins/action/kafka_group_gate.py": ("said",),
}
#: Messages that are put together of others, which are asked one by one: where, and which.
PUT_TOGETHER = {
    (
        "plugins/modules/kedge_instance.py",
        "'\\n'.join(failed)",
    ): "run and kill above; soak.yml completes hold",
    ("plugins/modules/haproxy_compare.py", "{wrong}"): "soak.yml completes it",
    ("plugins/action/kafka_group_gate.py", "said(kind"): "said above",
    ("plugins/action/kafka_group_gate.py", "did not keep"): "soak.yml completes it",
    ("plugins/modules/haproxy_drain.py", "wrong"): "refusal above",
    ("plugins/modules/haproxy_drain.py", "str(error)"): "node_lock's, asked below",
    ("plugins/modules/kedge_instance.py", "str(error)"): "node_lock's, asked below",
    ("plugins/modules/kedge_release.py", "str(error)"): "node_lock's, asked below",
}


@dataclass(frozen=True)
class Message:
    """A message: where it is made, and its text with :data:`VALUE` for each value."""

    where: str
    text: str


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def sources() -> list[Path]:
    found = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    return [file for file in found if "verify/state" not in str(file)]


def name_of(call: ast.expr) -> str:
    return ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""


class Texts:
    """Reads expressions of a file as texts: names and the file's own functions are looked up."""

    def __init__(self, path: Path) -> None:
        self.tree = parsed(path)
        self.functions = {n.name: n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)}
        helper = parsed(ROOT / "control" / "kafka_admin.py")
        for made in (n for n in helper.body if isinstance(n, ast.FunctionDef)):
            self.functions.setdefault(made.name, made)

    def text(self, node: ast.AST | None, scope: ast.AST, deep: int = 0) -> str:
        """Return what an expression says; of several values of a name all, one after the other."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        parts = {ast.JoinedStr: ("values",), ast.FormattedValue: ("value",), ast.BinOp: ("left", "right")}
        if fields := parts.get(type(node)):  # type: ignore[arg-type]
            found = (getattr(node, field) for field in fields)
            each = (one for some in found for one in (some if isinstance(some, list) else [some]))
            return "".join(self.text(one, scope, deep) for one in each)
        if isinstance(node, ast.Name) and deep <= DEEP:
            return self._of_name(node.id, scope, deep) or VALUE
        if isinstance(node, ast.Call) and deep <= DEEP and (made := self.functions.get(name_of(node))):
            own = " ".join(
                self.text(part, made, deep + 1)
                for n in ast.walk(made)
                for part in (
                    [n.value] if isinstance(n, ast.Return) else n.args if name_of(n) == "print" else []
                )
            )
            given = " ".join(self.text(argument, scope, deep + 1) for argument in node.args)
            return f"{own} {given}"
        return VALUE

    def _of_name(self, name: str, scope: ast.AST, deep: int) -> str:
        for tree in (scope, self.tree):
            said = [
                self.text(n.value, scope, deep + 1)
                for n in (ast.walk(tree) if tree is scope else self.tree.body)
                if isinstance(n, ast.Assign | ast.AnnAssign)
                and name in map(ast.unparse, n.targets if isinstance(n, ast.Assign) else [n.target])
            ]
            if any(re.search(r"[a-z]", one) for one in said):
                return " ".join(said)
        return ""


def scoped(tree: ast.AST, scope: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Return every node with the function that it is in."""
    for child in ast.iter_child_nodes(tree):
        yield child, scope
        yield from scoped(child, child if isinstance(child, ast.FunctionDef) else scope)


def shown(path: Path) -> Iterator[tuple[ast.expr, ast.AST]]:
    """Return the expressions that a file shows as the message of an error."""
    for node, scope in scoped(parsed(path), parsed(path)):
        if isinstance(node, ast.Call) and name_of(node) == "fail_json":
            yield next(k.value for k in node.keywords if k.arg == "msg"), scope
        if isinstance(node, ast.Raise) and node.exc and name_of(node.exc) == "AnsibleActionFail":
            yield node.exc.args[0], scope  # type: ignore[attr-defined]
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            said = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
            if "failed" in said and "msg" in said:
                yield said["msg"], scope


def put_together(where: str, node: ast.expr) -> bool:
    return any(where == file and part in ast.unparse(node) for file, part in PUT_TOGETHER)


def of_python() -> list[Message]:
    """Return the messages that modules and actions fail with, and those of the functions that make them."""
    found = []
    for path in sources():
        where, texts = str(path.relative_to(ROOT)), Texts(path)
        for node, scope in shown(path):
            if not put_together(where, node):
                found.append(Message(f"{where}:{node.lineno}", texts.text(node, scope)))
        for name in MAKERS.get(where, ()):
            made = texts.functions[name]
            for node in ast.walk(made):
                if not isinstance(node, ast.Return) or node.value is None or put_together(where, node.value):
                    continue
                if (text := texts.text(node.value, made)) != VALUE:
                    found.append(Message(f"{where}:{node.lineno}", text))
    lock = Texts(ROOT / "plugins" / "module_utils" / "node_lock.py")
    held = lock.functions["held"]
    return [*found, Message("plugins/module_utils/node_lock.py", lock.text(ast.Name("message"), held))]


def of_handlers() -> list[Message]:
    """Return what is said where an exception of :data:`COMPLETED` is caught."""
    found = []
    for path in sources():
        where, texts = str(path.relative_to(ROOT)), Texts(path)
        for node, scope in scoped(parsed(path), parsed(path)):
            if not isinstance(node, ast.ExceptHandler) or node.type is None:
                continue
            if not COMPLETED & set(re.findall(r"\w+", ast.unparse(node.type))):
                continue
            if (where, getattr(scope, "name", "")) in PASSED_ON:
                continue
            said = [
                texts.text(argument, scope)
                for call in ast.walk(node)
                if isinstance(call, ast.Call)
                for argument in [*call.args, *(k.value for k in call.keywords)]
            ] + [texts.text(call, scope) for call in ast.walk(node) if isinstance(call, ast.Call)]
            said += [texts.text(n.value, scope) for n in ast.walk(node) if isinstance(n, ast.Assign)]
            found.append(Message(f"{where}:{node.lineno}", " ".join(said)))
    return found


def tasks(document: Any) -> Iterator[dict[str, Any]]:
    for entry in document or ():
        if not isinstance(entry, dict):
            continue
        yield entry
        for part in ("tasks", "pre_tasks", "post_tasks", "block", "rescue", "always"):
            yield from tasks(entry.get(part))


def of_yaml() -> list[Message]:
    """Return the messages of assertions and failures in roles and playbooks."""
    found = []
    for path in [*sorted(ROOT.glob("*.yml")), *sorted((ROOT / "roles").glob("*/tasks/*.yml"))]:
        for task in tasks(yaml.safe_load(path.read_text())):
            for module, key in (("ansible.builtin.assert", "fail_msg"), ("ansible.builtin.fail", "msg")):
                if module in task:
                    where = f"{path.relative_to(ROOT)}: {task['name']}"
                    found.append(Message(where, task[module][key]))
    return found


@pytest.mark.parametrize("message", [*of_python(), *of_handlers(), *of_yaml()], ids=lambda m: m.where)
def test_a_message_says_what_holds_now_and_what_to_do_next(message: Message) -> None:
    assert STATE.search(message.text), f"says not what serves or was not touched: {message.text}"
    assert NEXT.search(message.text), f"says not what to do: {message.text}"


def test_as_many_messages_are_found_as_there_are() -> None:
    """The search above finds nothing where the code is written otherwise than it expects."""
    assert len(of_python()) >= 35
    assert len(of_handlers()) >= 12
    assert len(of_yaml()) >= 9


def test_every_exception_of_these_packages_is_completed_where_it_is_caught_or_stays_inside() -> None:
    own = {n.name for path in sources() for n in ast.walk(parsed(path)) if isinstance(n, ast.ClassDef)}
    errors = {name for name in own if name.endswith("Error")}
    assert errors <= COMPLETED | INNER
    assert errors - {"LoadError"} >= INNER


@pytest.mark.parametrize(
    "text", ["it is wrong", "a is down; see what ails it first", "a is not up. Nothing was stopped"]
)
def test_a_message_without_a_part_is_found(text: str) -> None:
    assert not (STATE.search(text) and NEXT.search(text))
