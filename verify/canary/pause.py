"""Announces a change to all canaries: a file on each of their hosts, with its end in it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kedge.evidence.canary import CanaryError
from kedge.evidence.printable import plain
from kedge.services.canary.loads import SERVICE
from verify.process import now_us

_KIT: Final = Path(__file__).resolve().parents[2]
_PAUSE: Final = "/var/lib/canary/pause.json"
_SPAN: Final = re.compile(r"([1-9]\d{0,4})([smh])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
#: A pause that nobody ends would hide a fault for as long.
_LONGEST_S: Final = 12 * 3600


def seconds_of(span: str) -> int:
    """Return the seconds of 90s, 20m or 2h; raises CanaryError for anything else, and for more than 12 h."""
    match = _SPAN.fullmatch(span)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 0 < seconds <= _LONGEST_S:
        raise CanaryError(f"--for {plain(span)!r}: write 90s, 20m or 2h, 12h at most. Nothing was announced")
    return seconds


def run(inventory: str, span: str, why: str) -> int:
    """Announce a change to all canaries of an inventory; return 0.

    Raises:
        CanaryError: for a span that is none, or where not every canary was told.
    """
    seconds, now = seconds_of(span), now_us()
    until = now + seconds * 1_000_000
    pause = {"from_us": now, "until_us": until, "why": plain(why)[:200]}
    # Ansible starts in the clone; what is no file is a list of hosts.
    place = str(Path(inventory).resolve()) if Path(inventory).exists() else inventory
    module = {"dest": _PAUSE, "mode": "0644", "content": json.dumps({"pauses": [pause]}) + "\n"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ansible", "adhoc", SERVICE, "-i", place, "--become"),
            *("-m", "ansible.builtin.copy", "-a", json.dumps(module)),
        ],
        cwd=_KIT,
        check=False,
    )
    if done.returncode:
        raise CanaryError(f"not every canary was told (see above); those that were pause for {span}")
    at = datetime.fromtimestamp(until / 1e6, UTC)
    print(f"announced until {at:%Y-%m-%d %H:%M:%SZ}: windows until then have the levels of a restart")
    return 0
