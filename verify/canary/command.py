"""``kedge canary show|audit|pause|rules``: what a canary knows, its verdicts, planned changes, its alerts.

``show``, ``audit`` and ``announce`` run on the canary's host (/opt/kedge/canary there), the others on the
control machine.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kedge.evidence.canary import CanaryError, announce, folders, read_result, read_window
from kedge.evidence.command_line import described
from kedge.evidence.printable import plain
from verify.process import now_us

_FOLDER: Final = Path("/var/lib/canary")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked for; return the exit status, 2 where it cannot be done."""
    parser = argparse.ArgumentParser(
        prog="kedge canary",
        description=described(__doc__),
        epilog="kedge canary pause -i INV --for 20m --why TEXT; rules -i INV --out FOLDER; "
        "show --home FOLDER --last N; audit --config FOLDER --home FOLDER --master URL",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="print the windows, the newest last")
    show.add_argument("--last", type=int, default=20, metavar="N", help="how many windows (default: 20)")
    audit = actions.add_parser("audit", help="give each window that has ended its verdict")
    audit.add_argument("--config", type=Path, required=True, help="the folder of its configuration")
    audit.add_argument("--master", default="local[1]", metavar="URL", help="Spark master (default: local[1])")
    audit.add_argument("--driver-memory", metavar="SIZE", help="Spark's memory")
    for one in (show, audit):
        one.add_argument("--home", type=Path, required=True, help="the folder of its windows")
    pause = actions.add_parser("pause", help="announce a change to all canaries; it ends by itself")
    here = actions.add_parser("announce", help="the same to the canaries of this host")
    here.add_argument("--folder", type=Path, default=_FOLDER, help="of its canaries (default: %(default)s)")
    for one in (pause, here):
        one.add_argument("--for", dest="span", required=True, metavar="20m", help="90s, 20m, 2h")
        one.add_argument("--why", default="", metavar="TEXT", help="what is changed")
    rules = actions.add_parser("rules", help="write the rules for Prometheus and a dashboard for Grafana")
    rules.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a folder to write to")
    for one in (pause, rules):
        one.add_argument("--inventory", "-i", required=True, metavar="INV", help="an Ansible inventory")
    asked = parser.parse_args(arguments)
    try:
        match asked.action:
            case "show":
                return _show(asked.home, asked.last)
            case "audit":
                # A canary's host has no Spark's session for nothing, and nothing that reads inventories.
                module = importlib.import_module("verify.canary.audit")
                return int(module.run(asked.config, asked.home, asked.master, asked.driver_memory))
            case "announce":
                until_us, before = announce(asked.folder, asked.span, asked.why, now_us())
                earlier = ", as was announced before" * before
                print(f"windows have the levels of a restart until {_time(until_us)}{earlier}")
                return 0
            case "pause":
                module = importlib.import_module("verify.canary.pause")
                return int(module.run(asked.inventory, asked.span, asked.why))
            case _:
                module = importlib.import_module("verify.canary.rules")
                return int(module.run(Path(asked.inventory), asked.out))
    except (CanaryError, OSError) as error:
        print(f"kedge canary {asked.action}: {error}", file=sys.stderr)
        return 2


def _show(home: Path, last: int) -> int:
    """Print what became of each window: when, verdict, why; 1 where the newest verdict is no pass."""
    newest = None
    for folder in folders(home)[-last:]:
        window, result = read_window(folder), read_result(folder)
        if window is None:
            continue
        if result is None:
            print(f"{_time(window.began_us)}  {window.state}, not audited  {window.run_id}")
            continue
        newest, until = result, _time(window.ended_us) if window.ended_us else "?"
        marks = f" (planned: {plain(', '.join(window.planned))})" if window.planned else ""
        print(f"{_time(window.began_us)} - {until}  {result.verdict:8}{marks}  {plain(window.run_id)}")
        lines = [*result.because, *(f"{kind}: {n:,}" for kind, n in result.anomalies.items() if n)]
        lines += [str(folder / "report" / "report.html")] * (folder / "report").is_dir()
        for line in lines:
            print(f"    {plain(line)}")
    if newest is None:
        print("no window was audited yet")
    return 0 if newest is not None and newest.verdict == "pass" else 1


def _time(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


if __name__ == "__main__":
    sys.exit(main())
