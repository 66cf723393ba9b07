"""``python -m verify.canary --config FOLDER --home FOLDER``: run a canary until it is told to end.

Exit 0 when it ended in order, 2 when something has to be mended first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from kedge.evidence.canary import WINDOWS, CanaryError, read_config
from verify.canary.live import Live
from verify.canary.supervisor import Supervisor
from verify.process import Ending, leave

#: Where runs of playbooks hold their leases (plugins/module_utils/leases.py).
LEASES: Final = Path("/var/lib/kedge/.lease.json")


def main(arguments: list[str] | None = None) -> int:
    """Run a canary; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.canary", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="the folder of its configuration")
    parser.add_argument("--home", type=Path, required=True, help="the folder of its windows")
    parser.add_argument("--leases", type=Path, default=LEASES, help="what says which playbooks run")
    options = parser.parse_args(arguments)
    ending = Ending()
    try:
        config = read_config(options.config)
        (options.home / WINDOWS).mkdir(parents=True, exist_ok=True)
        live = Live(config, options.home)
        live.serve()
    except (CanaryError, OSError) as error:
        print(f"canary: {error}. No record was sent", file=sys.stderr, flush=True)
        return 2
    Supervisor(config, options.home.resolve(), options.leases, live.look).run(ending)
    return 0


if __name__ == "__main__":
    leave(main())
