"""What runs on the control machine: evidence, plan, services, review, deploy, set-up, the command."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - set-up is run by whatever python3 a person has
    found = ".".join(str(part) for part in sys.version_info[:3])
    sys.exit(f"Python 3.11 or newer is needed, this is {found}: run again with PYTHON=python3.11 or the like")
