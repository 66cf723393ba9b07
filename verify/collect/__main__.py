"""`python -m verify.collect --run-dir runs/ID --inventory INV`: evidence that only the hosts have.

Writes the tables actions (from actions.jsonl), settings, gc_pauses and rocksdb, and into run.json the clock
offsets and what was tested. A host that cannot be read is one line on stderr and missing evidence. Exit 0
also then; 2 when the run's folder or the inventory cannot be read.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kedge.evidence.listing import ENDING, files_of
from kedge.evidence.watch_options import OUTCOME
from kedge.evidence.writing import rows_to_columns, write_json, write_table
from verify.collect.clocks import ClockOffset, offset
from verify.collect.gc import pauses
from verify.collect.hosts import CollectError, read_access
from verify.collect.reading import (
    GcLog,
    HostFiles,
    SampleLog,
    Wanted,
    gc_logs,
    read_command,
    read_output,
    sample_logs,
    settings_rows,
)
from verify.collect.reading import wanted_settings as wanted_of
from verify.collect.remote import RemoteError, Shell, on_all, round_trips
from verify.collect.rocksdb import samples
from verify.collect.subject import MACHINE, machine, subject
from verify.process import now_us

Where = TypeVar("Where", Wanted, GcLog, SampleLog)


def main(arguments: list[str] | None = None) -> int:
    """Collect; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.collect", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run's folder, with plan.json")
    parser.add_argument("--inventory", required=True, help="how the hosts are reached")
    options = parser.parse_args(arguments)
    try:
        collect(options.run_dir, options.inventory)
    except CollectError as error:
        print(f"{error}. No host was changed. Fix that, then run this again", file=sys.stderr)
        return 2
    return 0


def collect(run_dir: Path, inventory: str) -> None:
    """Collect the evidence of a run's hosts; raises CollectError when its input cannot be read."""
    run, plan = _read(run_dir / "evidence" / "run.json"), _read(run_dir / "plan.json")
    load = _read(run_dir / "load.json") if (run_dir / "load.json").exists() else {}
    actions = _replace(run_dir, "actions", read_actions(run_dir / "actions.jsonl"))
    wanted, logs, told = wanted_of(plan), gc_logs(plan), sample_logs(plan)
    hosts = sorted({w.host for w in wanted} | {log.host for log in logs} | {log.host for log in told})
    files, paths, samples_of = _by_host(wanted), _by_host(logs), _by_host(told)
    results = on_all(
        read_access(inventory, hosts),
        lambda host, shell: _of_host(
            shell,
            sorted({each.file for each in files.get(host, ())}),
            [log.path for log in paths.get(host, ())],
            [log.path for log in samples_of.get(host, ())],
        ),
    )

    reads: dict[str, HostFiles] = {}
    clocks: dict[str, ClockOffset] = {}
    machines: dict[str, dict[str, Any]] = {}
    for host, result in sorted(results.items()):
        if isinstance(result, RemoteError):
            print(f"{result}; its settings, pauses and clock are missing in the evidence", file=sys.stderr)
        else:
            reads[host], clocks[host], machines[host] = result
    settings = _replace(run_dir, "settings", settings_rows(wanted, reads))
    found = _replace(run_dir, "gc_pauses", _pause_rows(logs, reads, run))
    sampled = _replace(run_dir, "rocksdb", _sample_rows(told, reads, run)) if told else 0
    run["clock_offsets"] = {host: clock._asdict() for host, clock in clocks.items()}
    if run.get("files") is not None:
        run["files"] = files_of(run_dir / "evidence")
    if (run_dir / OUTCOME).exists():
        run["watch"] = _read(run_dir / OUTCOME)
    run["subject"] = subject(plan, load, machines, _this_machine())
    write_json(run_dir / "evidence" / "run.json", run)
    print(
        f"{len(reads)} of {len(hosts)} hosts: {settings} settings, {found} pauses, {sampled} samples; "
        f"{actions} actions"
    )


def _by_host(found: Iterable[Where]) -> dict[str, list[Where]]:
    """Return what is to be read by its host: of hundreds of hosts each would else look through all of it."""
    by_host: dict[str, list[Where]] = {}
    for each in found:
        by_host.setdefault(each.host, []).append(each)
    return by_host


def _of_host(
    shell: Shell, files: list[str], logs: list[str], told: list[str]
) -> tuple[HostFiles, ClockOffset, dict[str, Any]]:
    command = read_command(files, logs, told)
    return read_output(shell(command)), offset(round_trips(shell)), machine(shell(MACHINE))


def _this_machine() -> dict[str, Any]:
    answer = subprocess.run(["sh", "-c", MACHINE], capture_output=True, text=True, check=False)
    return machine(answer.stdout.splitlines())


def _sample_rows(
    told: list[SampleLog], reads: Mapping[str, HostFiles], run: Mapping[str, Any]
) -> list[dict[str, Any]]:
    until_us = run["ended_us"] or now_us()
    rows = []
    for log in told:
        lines = _lines(log, reads[log.host].samples, "memory") if log.host in reads else []
        found = samples(lines, run["started_us"], until_us, shared_cache=log.shared_cache)
        rows += [_who(log) | sample for sample in found]
    return rows


def _pause_rows(
    logs: list[GcLog], reads: Mapping[str, HostFiles], run: Mapping[str, Any]
) -> list[dict[str, Any]]:
    until_us = run["ended_us"] or now_us()
    rows = []
    for log in logs:
        lines = _lines(log, reads[log.host].logs, "pauses") if log.host in reads else []
        found = pauses(lines, run["started_us"], until_us)
        rows += [_who(log) | pause._asdict() for pause in found]
    return rows


def _who(log: GcLog | SampleLog) -> dict[str, Any]:
    return {"host": log.host, "service": log.service, "instance": log.instance}


def _lines(log: GcLog | SampleLog, read: Mapping[str, list[str] | None], what: str) -> list[str]:
    """Return the lines of a log; where it is missing, say of what nothing is on record."""
    lines = read.get(log.path)
    if lines is None:
        missing = f"{log.service}@{log.instance} has no {what} on record"
        print(f"{log.host}: {log.path} is not there: {missing}", file=sys.stderr)
    return lines or []


def read_actions(path: Path) -> list[dict[str, Any]]:
    """Return the rows of actions.jsonl, none without the file; raises CollectError for a bad line."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            rows.append(dict(json.loads(line)))
        except ValueError as error:
            raise CollectError(f"{path}, line {number}, is no JSON object: {error}") from error
    return rows


def _replace(run_dir: Path, table: str, rows: list[dict[str, Any]]) -> int:
    """Write a table in place of what an earlier collection of the run wrote; return the number of rows."""
    folder = run_dir / "evidence" / table
    for earlier in (*folder.glob("collect-*.parquet"), *folder.glob(f"_collect{ENDING}")):
        earlier.unlink()
    try:
        write_table(run_dir / "evidence", table, "collect", rows_to_columns(table, rows))
    except (ValueError, TypeError) as error:
        raise CollectError(f"the {table} of {run_dir} do not fit the table: {error}") from error
    return len(rows)


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise CollectError(f"{path} cannot be read: {error.strerror}; verify.yml writes it") from error
    except ValueError as error:
        raise CollectError(f"{path} is not JSON: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
