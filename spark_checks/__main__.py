"""``python -m spark_checks --evidence URI --slo FILE --out DIR [--master URL]``, and ``compare A B``."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from kedge.evidence.errors import EvidenceError, one_line
from kedge.evidence.levels import read_levels
from kedge.trials import runs
from spark_checks.engine.session import DRIVER_MEMORY
from spark_checks.job import Auditor
from spark_checks.report import documents, terminal
from spark_checks.report import page as report
from spark_checks.results import Verdict

#: Evidence of less than some ten million records.
_SMALL_BYTES: Final = 512 << 20
_STATUS: Final[Mapping[Verdict, int]] = {"pass": 0, "fail": 1, "unknown": 1, "measured": 3}


def main(arguments: list[str] | None = None) -> int:
    """Audit evidence; return 0 for pass, 1 for fail or unknown by a verdict that was written, 2 for all else.

    3 says that nothing was judged, for want of levels: a pipeline is not to be green for that, and can allow
    it by its number. With ``compare`` as the first argument, compare two runs that were audited.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["compare"]:
        return runs.main(arguments[1:])
    options = _parser().parse_args(arguments)
    log = options.out / "spark.log"

    def run() -> int:
        quick = _is_small(options.evidence)
        with Auditor(log, options.master, options.driver_memory, quick=quick) as auditor:
            return conclude(auditor, options.evidence, options.slo, options.out, timings=options.timings)

    return settled(run, log)


def settled(run: Callable[[], int], log: Path) -> int:
    """Return a command's exit status, 2 for what nobody thought of: 1 is of a verdict that was written.

    Where it broke off is added to ``log``, in which Spark tells what it does.
    """
    try:
        return run()
    except Exception as error:
        kept = f"see {log}"
        try:
            with log.open("a", encoding="utf-8") as file:
                traceback.print_exc(file=file)
        except OSError as unwritten:
            kept = f"{log} cannot be written: {unwritten.strerror}"
        why = one_line(f"{type(error).__name__}: {error}", 200)
        return _broken(f"the audit broke off: {why}; {kept}")


def _is_small(evidence: str) -> bool:
    """Return whether a folder of this machine holds some million records at most."""
    folder = Path(evidence.removeprefix("file://"))
    sizes = [file.stat().st_size for file in folder.glob("*/*.parquet")]
    return "://" not in evidence.removeprefix("file://") and sum(sizes) < _SMALL_BYTES


def conclude(auditor: Auditor, evidence: str, slo: Path, out: Path, *, timings: bool = False) -> int:
    """Audit evidence, write the report and show what it says; return the exit status of :func:`main`.

    Args:
        auditor: has the session; it may run already.
        evidence: the evidence folder, anything that Spark reads.
        slo: the service levels.
        out: where the report goes.
        timings: whether to say where the seconds went.
    """
    console, errors = Console(), Console(stderr=True)
    begin = time.monotonic()
    try:
        levels = read_levels(slo)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EvidenceError(f"{out}: cannot be made: {error.strerror}") from None
        with errors.status("starting Spark") as status:
            where = auditor.start().sparkContext
            started = time.monotonic()
            result = auditor.audit(evidence, levels, status.update)
        drawn = time.monotonic()
        result = replace(result, seconds={"start": round(started - begin, 2), **result.seconds})
        (out / "report.html").write_text(report.render(result), encoding="utf-8")
        result.seconds["report"] = round(time.monotonic() - drawn, 2)
        result.seconds["all"] = round(time.monotonic() - begin, 2)
        documents.write(result, out)
        terminal.show(result, console)
    except EvidenceError as error:
        return _broken(str(error))
    if timings:
        terminal.show_timings(result, console)
    spark = f"Spark {where.version} ({where.master})"
    console.print(f"report: {out / 'report.html'}, {result.seconds['all']:.1f} s on {spark}", highlight=False)
    return _STATUS[result.verdict]


def _broken(why: str) -> int:
    """Say in one line why there is no verdict; return the status of that."""
    Console(stderr=True).print(f"error: {why}", style="red", highlight=False, markup=False, soft_wrap=True)
    return 2


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
    parser.add_argument(
        "--driver-memory", default=DRIVER_MEMORY, metavar="SIZE", help="Spark's memory (default: %(default)s)"
    )
    parser.add_argument("--timings", action="store_true", help="say where the seconds went")
    return parser


if __name__ == "__main__":
    sys.exit(main())
