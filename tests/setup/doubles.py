"""A copy of set-up on a machine of doubles: every program that it calls is a script of this file.

Each program notes its calls, and works, fails or hangs as it is told (:meth:`Machine.tell`). What it makes is
enough for set-up to find its phase done.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kedge.setup.paths import PROJECT

_JAR = b"a jar\n"
_COPIED = ("kedge", "lab", "requirements", "requirements.txt", "pyproject.toml")
_HEAD = """#!/bin/sh
PATH=/usr/bin:/bin
name=$(basename "$0")
echo "$name $*" >> {root}/calls
mode=$(cat {root}/modes/$name 2>/dev/null)
case "$name $*" in *"$(cat {root}/modes/$name.when 2>/dev/null)"*) ;; *) mode= ;; esac
case "$mode" in
    hang) echo $$ > {root}/hanging; exec sleep 600 ;;
    fail*) echo "${{mode#fail }}" >&2; exit 1 ;;
    once*) rm {root}/modes/$name; echo "${{mode#once }}" >&2; exit 1 ;;
esac
"""
#: What each program does when it works.
_WORK = {
    "dpkg": "",
    "apt-config": "",
    "apt-get": """
case "$*" in install*) for one in mmdebstrap podman; do cp {root}/shelf/$one {root}/bin/$one; done ;; esac""",
    "javac": "echo javac 17.0.1",
    "java": "",
    "ssh": "",
    "ip": "",
    "ss": "",
    "ssh-keygen": "",
    "mvn": """
case "$*" in
*dependency*) to=$(sed -n 's|.*<outputDirectory>\\(.*\\)</outputDirectory>.*|\\1|p' "$5")
    for one in one-1 two-1; do printf 'a jar\\n' > "$to/$one.jar"; done ;;
*) mkdir -p {root}/kit/lab/services/sandbox_rest/target
    : > {root}/kit/lab/services/sandbox_rest/target/sandbox-rest-1.tar.gz ;;
esac""",
    "python": "",
    "uv": "",
    "mmdebstrap": 'for one; do case $one in */root.tar) : > "$one" ;; esac; done',
    "podman": """
case "$1" in
import) : > {root}/imported ;;
image) if [ -e {root}/imported ]; then echo '[{{}}]'; else echo '[]'; fi ;;
esac""",
}
_IN_VENV = ("python", "uv")
_FROM_APT = ("mmdebstrap", "podman")
_REAL = ("env", "kill", "rm", "sh", "unshare")


@dataclass(frozen=True)
class Machine:
    """The folder of a copy of the kit, of the doubles, and of what they noted."""

    root: Path

    def tell(self, program: str, mode: str, when: str = "") -> None:
        """Have a program `hang`, `fail WORDS`, or fail `once WORDS`, where its arguments contain `when`."""
        (self.root / "modes" / program).write_text(mode)
        (self.root / "modes" / f"{program}.when").write_text(when)

    def heal(self, program: str) -> None:
        """Have a program work again."""
        (self.root / "modes" / program).unlink(missing_ok=True)

    def calls(self) -> list[str]:
        """Return what was called since the last time, in its order."""
        noted = self.root / "calls"
        lines = noted.read_text().splitlines() if noted.exists() else []
        noted.write_text("")
        return lines

    def hanging(self) -> int | None:
        """Return the process that hangs."""
        text = (self.root / "hanging").read_text() if (self.root / "hanging").exists() else ""
        return int(text) if text.endswith("\n") else None

    def set_up(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin set-up of the demo."""
        return subprocess.Popen(
            [sys.executable, "-c", _AS_ROOT, *(arguments or ("demo",))],
            cwd=self.root / "kit",
            env={
                "PATH": str(self.root / "bin"),
                "HOME": str(self.root),
                "KEDGE_CACHE": str(self.root / "cache"),
                "PYTHONPATH": str(self.root / "kit"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ended(self, *arguments: str) -> tuple[int, str, str]:
        """Set up to the end; return the status, what was said and what was complained of."""
        process = self.set_up(*arguments)
        said, complained = process.communicate(timeout=120)
        return process.returncode, said, complained


#: The doubles need no rights; set-up asks for root, which an account of tests need not be. What was started in
#: the background ignores SIGINT, and hands that on.
_AS_ROOT = """
import os, signal, sys
os.geteuid = lambda: 0
signal.signal(signal.SIGINT, signal.default_int_handler)
from kedge.setup.phases import main
sys.exit(main(sys.argv[1:]))
"""


def machine(root: Path) -> Machine:
    """Make a machine on which nothing is set up: no engine, no mmdebstrap, an empty .venv, no jars."""
    for folder in ("bin", "shelf", "modes", "kit/.venv/bin"):
        (root / folder).mkdir(parents=True)
    for name in _COPIED:
        source = PROJECT / name
        if source.is_dir():
            left_out = shutil.ignore_patterns("target", "__pycache__")
            shutil.copytree(source, root / "kit" / name, ignore=left_out)
        else:
            shutil.copy(source, root / "kit" / name)
    locks = root / "kit" / "roles" / "jar_set" / "files"
    locks.mkdir(parents=True)
    sha256 = hashlib.sha256(_JAR).hexdigest()
    for lock in (PROJECT / "roles" / "jar_set" / "files").glob("*.lock"):
        (locks / lock.name).write_text(f"g:one:1 {sha256}\ng:two:1 {sha256}\n")
    for name, work in _WORK.items():
        place = "kit/.venv/bin" if name in _IN_VENV else "shelf" if name in _FROM_APT else "bin"
        file = root / place / name
        file.write_text((_HEAD + work + "\n").format(root=root))
        file.chmod(0o755)
    for name in _REAL:
        (root / "bin" / name).symlink_to(f"/bin/{name}")
    return Machine(root)
