"""What runs on hosts needs no more than the Python that they have: 3.9, as Red Hat's 9 has it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import ansible
import pytest

PLUGINS = Path("plugins")
LEAST = "3.9"
#: Methods that a later Python than the least brought. Vermin, in ``make lint``, knows functions and keywords, and
#: cannot tell a method's class.
LATER_METHODS = {
    "hardlink_to": "3.10",
    "bit_count": "3.10",
    "add_note": "3.11",
    "is_junction": "3.12",
    "walk": "3.12, of a path",
    "full_match": "3.13",
}


def on_hosts(folder: Path = PLUGINS) -> list[Path]:
    """Return the modules, and what they share, that Ansible sends to hosts: not those with Kedge's packages."""
    shared = sorted((folder / "module_utils").glob("*.py"))
    ours = re.compile(r"^(?:from|import) (?:kedge|verify|confluent_kafka)\b", re.MULTILINE)
    return shared + [f for f in sorted((folder / "modules").glob("*.py")) if not ours.search(f.read_text())]


def later_methods(text: str) -> list[str]:
    return [
        f"line {node.lineno}: .{node.attr} came with {LATER_METHODS[node.attr]}"
        for node in ast.walk(ast.parse(text, feature_version=(3, 9)))
        if isinstance(node, ast.Attribute)
        and node.attr in LATER_METHODS
        and not (isinstance(node.value, ast.Name) and node.value.id in ("os", "ast"))
    ]


@pytest.mark.parametrize("file", on_hosts(), ids=lambda file: file.stem)
def test_what_runs_on_hosts_calls_no_method_of_a_later_python(file: Path) -> None:
    assert later_methods(file.read_text()) == []


def test_a_method_of_a_later_python_is_found() -> None:
    assert later_methods("KEY.hardlink_to(new)") == ["line 1: .hardlink_to came with 3.10"]


def test_lint_holds_what_runs_on_hosts_against_the_least_python() -> None:
    lint = next(line for line in Path("Makefile").read_text().splitlines() if "--target" in line)
    assert f"--target={LEAST}-" in lint
    assert {"plugins/modules", "plugins/module_utils", "verify/watch/host_sampler.py"} <= set(lint.split())


def interpreter() -> str | None:
    kept = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{LEAST}.*/bin/python"))
    # A name on the PATH may be pyenv's own, of a version that is not chosen here.
    return str(kept[-1]) if kept else shutil.which(f"python{LEAST}")


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """A folder as Ansible packs it for a host: its own module_utils with Kedge's, and Kedge's modules."""
    utils = tmp_path / "ansible" / "module_utils"
    shutil.copytree(Path(ansible.__file__).parent / "module_utils", utils)
    (tmp_path / "ansible" / "__init__.py").touch()
    for file in on_hosts():
        shutil.copy(file, utils if file.parent.name == "module_utils" else tmp_path)
    return tmp_path


@pytest.mark.process
def test_what_runs_on_hosts_imports_and_makes_its_key_with_the_least_python(shipped: Path) -> None:
    python = interpreter()
    if python is None:
        pytest.skip(f"no Python {LEAST} is on this machine")
    modules = [file.stem for file in on_hosts() if file.parent.name == "modules"]
    program = "\n".join(
        [
            "import importlib, pathlib",
            *(f"importlib.import_module({name!r})" for name in modules),
            "import kedge_release",
            f"kedge_release.KEY = pathlib.Path({str(shipped)!r}) / 'state' / 'key'",
            "print(len(kedge_release.release_key(make=True)))",
        ]
    )
    ran = subprocess.run([python, "-c", program], cwd=shipped, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "32\n", "")
