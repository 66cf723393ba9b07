"""``python -m spark_checks --evidence URI --slo FILE --out DIR [--master URL]``, and ``compare A B``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_checks.engine import workers
from spark_checks.results import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATUS: Final[Mapping[Verdict, int]] = {"pass": 0, "fail": 1, "unknown": 1, "measured": 3}


def main(arguments: list[str] | None = None) -> int:
    """Audit evidence; return 0 for pass, 1 for fail or unknown, 2 for evidence that cannot be read.

    3 says that nothing was judged, for want of levels: a pipeline is not to be green for that, and can allow
    it by its number. With ``compare`` as the first argument, compare two runs that were audited.
    """
    begin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["compare"]:
        from spark_checks import compare

        return compare.main(arguments[1:])
    options = _parser().parse_args(arguments)
    cores = workers.cores_here(options.master)
    if cores:
        # They import what reads evidence while this process imports the rest.
        workers.start(cores)
    from rich.console import Console

    from evidence.errors import EvidenceError
    from evidence.levels import read_levels
    from spark_checks.engine import session
    from spark_checks.job import audit
    from spark_checks.report import output
    from spark_checks.report import page as report

    console, errors = Console(), Console(stderr=True)
    started = time.monotonic()
    try:
        levels = read_levels(options.slo)
        try:
            options.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EvidenceError(f"{options.out}: cannot be made: {error.strerror}") from None
        with ExitStack() as stack, errors.status("reading the evidence") as status:

            def spark() -> SparkSession:
                log = options.out / "spark.log"
                running = session.start(options.master, options.driver_memory, log=log)
                stack.callback(running.stop)
                return running

            result = audit(spark, options.evidence, levels, status.update, cores)
        drawn = time.monotonic()
        seconds = {"start": round(started - begin, 2), **result.seconds, "all": round(drawn - begin, 2)}
        result = replace(result, seconds=seconds)
        (options.out / "report.html").write_text(report.render(result), encoding="utf-8")
        result.seconds["report"] = round(time.monotonic() - drawn, 2)
        result.seconds["all"] = round(time.monotonic() - begin, 2)
        output.write(result, options.out)
    except EvidenceError as error:
        errors.print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        return 2
    finally:
        workers.stop()
    output.show(result, console)
    if options.timings:
        output.show_timings(result, console)
    console.print(f"report: {options.out / 'report.html'}, {result.seconds['all']:.1f} s", highlight=False)
    return _STATUS[result.verdict]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_checks",
        description="Audit the evidence of a run.",
        epilog="python -m spark_checks compare A B: what got better or worse between two runs",
    )
    parser.add_argument("--evidence", required=True, metavar="URI", help="the evidence folder of a run")
    parser.add_argument("--slo", required=True, type=Path, metavar="FILE", help="service levels, YAML")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where the report goes")
    parser.add_argument(
        "--master", default="local[*]", metavar="URL", help="Spark master (default: all cores)"
    )
    parser.add_argument("--driver-memory", default="2g", metavar="SIZE", help="Spark's memory (default: 2g)")
    parser.add_argument("--timings", action="store_true", help="say where the seconds went")
    return parser


if __name__ == "__main__":
    sys.exit(main())
