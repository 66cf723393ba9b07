"""What the audit prints: a line a check, why one did not pass, and where the time went."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kedge.evidence.printable import plain
from spark_checks.job import Audit
from spark_checks.report.documents import example_lines
from spark_checks.results import Figure, Result

_STYLES: Final = {"pass": "bold green", "fail": "bold red", "unknown": "bold yellow", "measured": "bold cyan"}
#: Columns of a line of the summary: what a terminal, and a log of a pipeline, shows unbroken.
_WIDTH: Final = 100
#: What a run comes to of which no check was judged.
_NOT_JUDGED: Final = "no check had a level, so nothing was judged (service_levels)"


def show(audit: Audit, console: Console) -> None:
    """Print a line a check: what was measured against which level; then why a check did not pass."""
    console.print(f"Audit of run {plain(audit.run_id)}", style="italic", highlight=False)
    wide = max(len(result.name) for result in audit.results)
    for result in audit.results:
        line = Text(f"{result.verdict:<8}", style=_STYLES[result.verdict]).append(
            f"  {result.name:<{wide}}  ", style="default not bold"
        )
        line.append(plain(summary(result, _WIDTH - len(line))), style="default not bold")
        console.print(line, soft_wrap=True)
    for result in audit.results:
        if result.verdict in ("fail", "unknown"):
            because = Text(f"{result.name}: ", style=_STYLES[result.verdict]).append(
                plain(result.because), style="default not bold"
            )
            console.print(because, soft_wrap=True)
            for line_of in example_lines(result):
                console.print(f"  {line_of}", highlight=False, markup=False, soft_wrap=True)
    for result in audit.results:
        for figure in result.figures:
            if figure.worse_than_before:
                beside = f"{figure.found()}; {figure.before()}, worse than in each of them"
                console.print(
                    plain(f"{result.name}: {beside}"),
                    style="yellow",
                    highlight=False,
                    markup=False,
                    soft_wrap=True,
                )
    end = Text("verdict: ").append(audit.verdict, style=_STYLES[audit.verdict])
    console.print(end.append(f": {_NOT_JUDGED}" if audit.verdict == "measured" else ""), soft_wrap=True)


def show_timings(audit: Audit, console: Console) -> None:
    """Print where the seconds of the audit went; checks run side by side."""
    table = Table("seconds", "of what", title="Where the time went", title_justify="left")
    table.columns[0].justify = "right"
    for name, seconds in audit.seconds.items():
        table.add_row(f"{seconds:.1f}", name)
    console.print(table)


def summary(result: Result, width: int) -> str:
    """Return as many of a check's figures as fit, those that decided its verdict first."""
    decisive = sorted(result.figures, key=lambda one: one.verdict != result.verdict)
    if not decisive or (result.verdict in ("fail", "unknown") and decisive[0].verdict != result.verdict):
        return textwrap.shorten(result.because, width, placeholder=" [...]")
    none = result.verdict == "measured"
    said = [one.words() + _without(one, none=none) for one in decisive]
    end = "; no level given" if none else ""
    return _fitting(said, width - len(end)) + end


def _without(figure: Figure, *, none: bool) -> str:
    """Mark a figure without a level beside others that have one."""
    return "" if none or figure.level is not None else " (no level)"


def _fitting(said: Sequence[str], width: int) -> str:
    """Return as many of them as fit, and the number of the others."""
    for count in range(len(said), 0, -1):
        more = f"; +{len(said) - count}" if count < len(said) else ""
        line = "; ".join(said[:count]) + more
        if len(line) <= width:
            return line
    return textwrap.shorten(said[0], width, placeholder=" [...]")
