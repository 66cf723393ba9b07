"""``python -m local.fleet up|down|restart|status|ssh-config``."""

import sys

from local.fleet.commands import main

if __name__ == "__main__":
    sys.exit(main())
