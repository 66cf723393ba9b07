"""``python3 -m local.setup``: ``python3 -m kedge.setup`` since 0.2, kept for a version."""

import sys
from pathlib import Path

__path__ = [str(Path(__file__).parent / "kedge")]
print("python3 -m local.setup is `python3 -m kedge.setup` now; this name goes with 0.3", file=sys.stderr)
