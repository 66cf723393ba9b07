"""``make release``: the tree of this version's tag as an archive, the command as a wheel, checksums."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from kedge.evidence.release import VERSION
from kedge.setup.problem import Problem


def release(root: Path, folder: Path) -> Path:
    """Pack the tagged tree, and build its wheel; return the archive.

    Beside each lies its checksum, as sha256sum writes it.

    Raises:
        Problem: when the tree has no tag of its version.
    """
    tag = f"v{VERSION}"
    archive = folder / f"kedge-{VERSION}.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    command = ("git", "-C", str(root), "archive", "--format=tar.gz", "--prefix=kedge/", f"refs/tags/{tag}")
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise Problem(
            f"{tag}: {root} has no such tag, and a release is what was tagged; tag the commit (git tag {tag})"
        )
    archive.write_bytes(done.stdout)
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        for made in (archive, wheel(Path(unpacked) / "kedge", folder)):
            checksum = hashlib.sha256(made.read_bytes()).hexdigest()
            made.with_name(f"{made.name}.sha256").write_text(f"{checksum}  {made.name}\n")
    return archive


def wheel(root: Path, folder: Path) -> Path:
    """Build the wheel of a tree, which has the command alone."""
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder.resolve()))
    subprocess.run(command, cwd=root, capture_output=True, check=True)
    return folder / f"kedge-{VERSION}-py3-none-any.whl"


def main() -> int:
    """Pack this tree into build/."""
    root = Path(__file__).resolve().parents[1]
    try:
        print(release(root, root / "build"))
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
