"""`python -m verify.audit --run-dir runs/ID --inventory INV`: collect what only the hosts know, then audit.

Spark's session starts while the hosts are read, so that nobody waits for Java. Exit status as that of
`python -m spark_checks`, and 2 when the run's folder or the inventory cannot be read.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from evidence.errors import EvidenceError
from spark_checks.__main__ import conclude
from spark_checks.job import Auditor
from verify.collect.__main__ import collect
from verify.collect.hosts import CollectError


def main(arguments: list[str] | None = None) -> int:
    """Collect and audit; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.audit", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run's folder, with plan.json")
    parser.add_argument("--inventory", required=True, help="how the hosts are reached")
    options = parser.parse_args(arguments)
    run_dir: Path = options.run_dir
    report = run_dir / "report"
    report.mkdir(parents=True, exist_ok=True)
    with Auditor(report / "spark.log") as auditor:
        starting = threading.Thread(target=_start, args=(auditor,))
        starting.start()
        try:
            collect(run_dir, options.inventory)
        except CollectError as error:
            print(error, file=sys.stderr)
            return 2
        finally:
            starting.join()
        return conclude(auditor, str(run_dir / "evidence"), run_dir / "slo.yml", report)


def _start(auditor: Auditor) -> None:
    try:
        auditor.start()
    except EvidenceError:
        # The audit asks again, and says why there is no session.
        return


if __name__ == "__main__":
    sys.exit(main())
