"""``python -m lab.fleet up|down|restart|status|ssh-config``."""

import sys

from lab.fleet.commands import main

if __name__ == "__main__":
    sys.exit(main())
