"""``kedge audit --evidence URI --slo URI --out URI [--master URL]``, and ``compare A B``."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from kedge.evidence.errors import EvidenceError, one_line
from kedge.evidence.levels import parse_levels, read_levels
from kedge.trials import runs
from spark_checks.engine.files import located, make_folder, on_this_machine, read_text, shown, write_text
from spark_checks.engine.session import DRIVER_MEMORY
from spark_checks.job import Auditor
from spark_checks.report import documents, terminal
from spark_checks.report import page as report
from spark_checks.report.history import beside_earlier
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
    here = on_this_machine(options.out)
    log = here / "spark.log" if here else None

    def run() -> int:
        quick = _is_small(options.evidence)
        with Auditor(log, options.master, options.driver_memory, quick=quick) as auditor:
            return conclude(
                auditor,
                options.evidence,
                options.slo,
                options.out,
                history=options.history,
                timings=options.timings,
            )

    return settled(run, log)


def settled(run: Callable[[], int], log: Path | None) -> int:
    """Return a command's exit status, 2 for what nobody thought of: 1 is of a verdict that was written.

    Where it broke off is added to ``log``, in which Spark tells what it does; without one, to stderr.
    """
    try:
        return run()
    except Exception as error:
        kept = f"see {log or 'above'}"
        try:
            with log.open("a", encoding="utf-8") if log else nullcontext(sys.stderr) as file:
                traceback.print_exc(file=file)
        except OSError as unwritten:
            kept = f"{log} cannot be written: {unwritten.strerror}"
        why = one_line(f"{type(error).__name__}: {error}", 200)
        return _broken(f"the audit broke off: {why}; {kept}")


def _is_small(evidence: str) -> bool:
    """Return whether a folder of this machine holds some million records at most."""
    folder = on_this_machine(evidence)
    return folder is not None and sum(one.stat().st_size for one in folder.glob("*/*.parquet")) < _SMALL_BYTES


def conclude(
    auditor: Auditor, evidence: str, slo: str, out: str, *, history: str = "", timings: bool = False
) -> int:
    """Audit evidence, write the report and show what it says; return the exit status of :func:`main`.

    Args:
        auditor: has the session; it may run already.
        evidence: the evidence folder, anything that Spark reads.
        slo: the service levels, a file of what Spark reads.
        out: the folder where the report goes, of what Spark writes to.
        history: the table to which the figures are added, and whose earlier runs the report shows; none if
            empty.
        timings: whether to say where the seconds went.
    """
    console, errors = Console(), Console(stderr=True)
    begin = time.monotonic()
    try:
        # What lies on this machine is looked at before Spark starts.
        levels = read_levels(here) if (here := on_this_machine(slo)) else None
        try:
            if here := on_this_machine(out):
                here.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EvidenceError(f"{out}: cannot be made: {error.strerror}") from None
        out = located(out)
        with errors.status("starting Spark") as status:
            spark = auditor.start()
            where = spark.sparkContext
            levels = levels or parse_levels(read_text(spark, slo), slo)
            make_folder(spark, out)
            started = time.monotonic()
            result = auditor.audit(evidence, levels, status.update)
            if history:
                status.update("looking at earlier runs")
                try:
                    result = beside_earlier(result, history)
                except EvidenceError as error:
                    errors.print(f"no history: {error}", style="yellow", highlight=False, markup=False)
        drawn = time.monotonic()
        result = replace(result, seconds={"start": round(started - begin, 2), **result.seconds})
        write_text(spark, f"{out}/report.html", report.render(result))
        result.seconds["report"] = round(time.monotonic() - drawn, 2)
        result.seconds["all"] = round(time.monotonic() - begin, 2)
        documents.write(result, out)
        terminal.show(result, console)
    except EvidenceError as error:
        return _broken(str(error))
    if timings:
        terminal.show_timings(result, console)
    page, on = shown(f"{out}/report.html"), f"Spark {where.version} ({where.master})"
    console.print(f"report: {page}, {result.seconds['all']:.1f} s on {on}", highlight=False)
    return _STATUS[result.verdict]


def _broken(why: str) -> int:
    """Say in one line why there is no verdict; return the status of that."""
    Console(stderr=True).print(f"error: {why}", style="red", highlight=False, markup=False, soft_wrap=True)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kedge audit",
        description="Audit the evidence of a run.",
        epilog="kedge audit compare A B: what got better or worse between two runs",
    )
    parser.add_argument("--evidence", required=True, metavar="URI", help="the evidence folder of a run")
    parser.add_argument("--slo", required=True, metavar="URI", help="service levels, YAML")
    parser.add_argument("--out", required=True, metavar="URI", help="where the report goes")
    parser.add_argument(
        "--history", metavar="URI", default="", help="add the figures to this table, and show earlier runs"
    )
    parser.add_argument(
        "--master", metavar="URL", help="Spark master (default: as submitted or configured, else all cores)"
    )
    parser.add_argument(
        "--driver-memory",
        metavar="SIZE",
        help=f"Spark's memory (default: as configured, else {DRIVER_MEMORY}); not under spark-submit",
    )
    parser.add_argument("--timings", action="store_true", help="say where the seconds went")
    return parser
