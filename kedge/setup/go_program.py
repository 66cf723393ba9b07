"""Programs that are built here from their Go sources, every module checked against go.sum."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kedge.setup import children
from kedge.setup.paths import VENV, cache_root
from kedge.setup.problem import Problem


@dataclass(frozen=True)
class GoProgram:
    """A program: the folder whose go.mod and go.sum pin it, and what of them is built.

    Attributes:
        name: as people know it.
        folder: where go.mod lies; it has the version.
        module: the module of the program, ``package`` the path of its command in it.
        file: the name of the built file.
        least_go: the Go that go.mod asks for.
        target: of the Makefile, that brings a Go where there is none.
        megabytes: what the build takes, in the cache of Go and beside it.
    """

    name: str
    folder: Path
    module: str
    package: str
    file: str
    least_go: tuple[int, int]
    target: str
    megabytes: int

    def version(self) -> str:
        """Return the version that go.mod names."""
        text = (self.folder / "go.mod").read_text(encoding="utf-8")
        found = re.search(rf"{re.escape(self.module)} v(\S+)", text)
        assert found is not None
        return found[1]

    def binary(self) -> Path:
        """Return where the built program lies."""
        return cache_root() / self.name.lower() / f"{self.version()}-{platform.machine()}" / self.file

    def wanting(self) -> str:
        """Return what set-up would do, empty where the program is built."""
        return "" if self.binary().is_file() else f"builds {self.name} {self.version()} with Go"

    def obstacle(self) -> str:
        """Return why the program cannot be built here, in one line; empty where it is built or can be."""
        if self.binary().is_file() or _go(self.least_go):
            return ""
        wanted = ".".join(map(str, self.least_go))
        return (
            f"{self.name} is built with Go {wanted} or later, and there is none: 'make {self.target}' "
            "installs it"
        )

    def build(self) -> None:
        """Build the program; raises Problem with the compiler's or the checksums' complaint."""
        if reason := self.obstacle():
            raise Problem(reason)
        target = self.binary()
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.{os.getpid()}")
        # Readonly: a module that go.sum does not name, or with another checksum, ends the build.
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
        command = [str(_go(self.least_go)), "build", "-C", str(self.folder), "-trimpath", "-ldflags", "-s -w"]
        children.run(
            [*command, "-o", str(fresh), f"{self.module}{self.package}"],
            f"{self.name} could not be built",
            environment=environment,
        )
        fresh.replace(target)


def _go(least: tuple[int, int]) -> str | None:
    """Return a Go of this machine, or the one that set-up put into .venv where there is none."""
    for path in (f"{os.environ.get('PATH', '')}:/usr/local/go/bin", str(VENV / "bin")):
        go = shutil.which("go", path=path)
        if go and go_version(_told(go, "version")) >= least:
            return go
    return None


def _told(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def go_version(text: str) -> tuple[int, int]:
    """Return the version in what ``go version`` prints; (0, 0) where it prints none."""
    found = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
