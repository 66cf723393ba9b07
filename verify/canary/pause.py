"""Announces a change to all canaries: the command on each of their hosts does, by the host's clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from kedge.evidence.canary import CanaryError, seconds_of
from kedge.services.canary.loads import SERVICE

_KIT: Final = Path(__file__).resolve().parents[2]
_ON_HOST: Final = ("/opt/kedge/canary", "announce")


def run(inventory: str, span: str, why: str) -> int:
    """Announce a change to all canaries of an inventory; return 0.

    Raises:
        CanaryError: for a span that is none, or where not every canary was told.
    """
    seconds_of(span)
    # Ansible starts in the clone; what is no file is a list of hosts.
    place = str(Path(inventory).resolve()) if Path(inventory).exists() else inventory
    words = json.dumps({"argv": [*_ON_HOST, f"--for={span}", f"--why={why}"]})
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ansible", "adhoc", SERVICE, "-i", place, "--become"),
            *("-m", "ansible.builtin.command", "-a", words),
        ],
        cwd=_KIT,
        check=False,
    )
    if done.returncode:
        raise CanaryError(f"not every canary was told (see above); those that were pause for {span}")
    return 0
