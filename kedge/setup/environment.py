"""The virtual environment: locked packages with their checksums, and the kit's own, importable in place.

uv installs them, itself locked and installed by pip; where it cannot be had or fails, pip installs the same
files.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kedge.setup import children
from kedge.setup.paths import PROJECT, VENV
from kedge.setup.problem import Problem

_UV, _BUILD = "requirements/uv.txt", "requirements/build.txt"
#: What pip is told, by the name under which uv is told the same.
_UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "trusted-host": "UV_INSECURE_HOST",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}


def python() -> Path:
    """The interpreter of the virtual environment."""
    return VENV / "bin" / "python"


def _marker(file: str) -> Path:
    return VENV / f".{file.replace('/', '.')}"


def _key(file: str) -> str:
    """What an installed file is known by: the interpreter, the clone and its scripts, what is locked."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    read = (PROJECT / file).read_bytes() + (PROJECT / "pyproject.toml").read_bytes()
    return f"{version} {PROJECT} {hashlib.sha256(read).hexdigest()}"


def absent(files: Iterable[str]) -> list[str]:
    """Those of these files whose packages are not installed as they are locked now."""
    return [
        file
        for file in files
        if not _marker(file).is_file() or _marker(file).read_text(encoding="utf-8").strip() != _key(file)
    ]


def wanting(files: Sequence[str]) -> str:
    """What installing these files means, in words; empty where nothing is missing."""
    names = absent(files)
    count = len({name for file in names for name, _ in locked((PROJECT / file).read_text(encoding="utf-8"))})
    return f"installs {count} locked Python packages into .venv ({', '.join(names)})" if names else ""


def locked(text: str) -> list[tuple[str, str]]:
    """The names and versions of a lock."""
    return re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)


def locks(names: Sequence[str]) -> list[str]:
    """All that installing these files reads: they, what installs them and what builds them."""
    return [*names, _BUILD, _UV]


def download(names: Sequence[str], folder: Path) -> None:
    """Have pip gather what installing these files takes on a machine such as this; raises Problem."""
    options = ["--require-hashes", "--no-deps", "--no-build-isolation", "--dest", str(folder)]
    told = [part for file in locks(names) for part in ("-r", file)]
    command = _pip("download", *options, *_absolute(told))
    children.run(command, "pip could not download the locked packages", environment=_environment())


def make(files: Sequence[str], say: Callable[[str], None], wheels: Path | None = None) -> None:
    """Install what is missing of these files, and the kit itself; with `wheels`, from that folder alone.

    Raises Problem with the installer's own words; a file counts as installed only when all of it is.
    """
    source = ["--no-index", "--find-links", str(wheels)] if wheels else []
    names = absent(files)
    for file in names:
        _marker(file).unlink(missing_ok=True)
    if not _usable():
        base = getattr(sys, "_base_executable", sys.executable)
        command = [base, "-m", "venv", "--clear", str(VENV)]
        children.run(command, "the virtual environment could not be made", environment=_environment())
    told = ["-r", _BUILD, *(part for file in names for part in ("-r", file))]
    try:
        _with_uv(told, source)
    except Problem as problem:
        say(f"uv cannot be used here ({problem}): pip installs the same files")
        _with_pip(told, source)
    for file in names:
        _marker(file).write_text(_key(file) + "\n", encoding="utf-8")


def _usable() -> bool:
    wanted = f"{sys.version_info.major}.{sys.version_info.minor}"
    probe = f"import sys, pip; sys.exit('%d.%d' % sys.version_info[:2] != '{wanted}')"
    try:
        children.run([str(python()), "-c", probe], "", environment=_environment())
    except (Problem, OSError):
        return False
    return True


def _environment() -> dict[str, str]:
    """This environment, without what would lead an installer elsewhere."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def _with_pip(told: Sequence[str], source: Sequence[str]) -> None:
    # The builders first: nothing is built with what is not locked.
    for files in (told[:2], told[2:]):
        if files:
            options = ["--require-hashes", "--no-build-isolation", *source, *_absolute(files)]
            command = _pip("install", *options)
            children.run(command, "pip could not install the locked packages", environment=_environment())
    command = _pip("install", "--no-deps", "--no-build-isolation", "--editable", str(PROJECT))
    children.run(command, "pip could not install Kedge itself", environment=_environment())


def _with_uv(told: Sequence[str], source: Sequence[str]) -> None:
    if absent([_UV]):
        command = _pip(
            "install", "--require-hashes", "--only-binary", ":all:", *source, *_absolute(["-r", _UV])
        )
        children.run(command, "pip could not install it", environment=_environment())
        _marker(_UV).write_text(_key(_UV) + "\n", encoding="utf-8")
    told_to_pip = uv_settings(_pip_settings())
    environment = {"UV_SYSTEM_CERTS": "true", **told_to_pip, **_environment(), "VIRTUAL_ENV": str(VENV)}
    install = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--no-build-isolation"]
    # A package of 400 MB, packed only to be unpacked again: compressing it took 30 of 40 s.
    quick = ["--config-settings-package", "pyspark:--build-option=--compression=stored"]
    for files in (told[:2], told[2:]):
        if files:
            options = ["--require-hashes", "--index-strategy", "unsafe-best-match", *quick, *source]
            command = [*install, *options, *_absolute(files)]
            children.run(command, "it could not install the locked packages", environment=environment)
    options = ["--no-deps", "--editable", str(PROJECT)]
    children.run([*install, *options], "it could not install Kedge itself", environment=environment)


def _absolute(told: Sequence[str]) -> list[str]:
    return [part if part == "-r" else str(PROJECT / part) for part in told]


def _pip(action: str, *options: str) -> list[str]:
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check"]
    return [str(python()), "-m", "pip", action, *quiet, *options]


def _pip_settings() -> list[str]:
    lines: list[str] = []
    command = [str(python()), "-m", "pip", "config", "list"]
    children.run(
        command, "its configuration could not be read", line=lines.append, environment=_environment()
    )
    return lines


def uv_settings(settings: Iterable[str]) -> dict[str, str]:
    """The variables that have uv do as pip is configured; `settings` are lines of `pip config list`."""
    told: dict[str, str] = {}
    found = [re.fullmatch(r"(global|install|:env:)\.([a-z-]+)=(.+)", line) for line in settings]
    for one in sorted(filter(None, found), key=lambda one: ("global", "install", ":env:").index(one[1])):
        if one[2] in _UV_NAMES:
            value = " ".join(str(ast.literal_eval(one[3])).split())
            told[_UV_NAMES[one[2]]] = value.replace(" ", ",") if one[2] == "find-links" else value
    return told
