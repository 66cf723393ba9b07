"""The former name of ``kedge plan``, ``kedge review`` and ``kedge clients``, kept for a version."""

import sys
from pathlib import Path

from kedge.cli import main

__path__ = [str(Path(__file__).parent / "kedge" / "services")]
print(
    "python -m sizing is `kedge plan`, `kedge review` and `kedge clients` now; this name goes with 0.3",
    file=sys.stderr,
)

if __name__ == "__main__":
    main(sys.argv[1:] if sys.argv[1:2] == ["review"] else ["plan", *sys.argv[1:]])
