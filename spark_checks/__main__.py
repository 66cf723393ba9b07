"""``python -m spark_checks``: the audit, as ``kedge audit`` runs it."""

import sys

from spark_checks.command import main

if __name__ == "__main__":
    sys.exit(main())
