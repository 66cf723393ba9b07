"""``python3 -m kedge.setup``."""

import sys

from kedge.setup.phases import main

if __name__ == "__main__":
    sys.exit(main())
