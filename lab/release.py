"""``make release``: the tree of this version's tag as one archive, and its checksum beside it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from kedge.evidence.release import VERSION
from kedge.setup.problem import Problem


def release(root: Path, folder: Path) -> Path:
    """Pack the tagged tree; return the archive, whose checksum lies beside it as sha256sum writes it.

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
    checksum = hashlib.sha256(done.stdout).hexdigest()
    archive.with_name(f"{archive.name}.sha256").write_text(f"{checksum}  {archive.name}\n")
    return archive


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
