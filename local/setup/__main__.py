"""``python3 -m local.setup``."""

import sys

from local.setup.phases import main

if __name__ == "__main__":
    sys.exit(main())
