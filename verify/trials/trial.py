"""One trial: a deployed configuration under one intended load for one time, its evidence and its audit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from kedge.evidence.errors import EvidenceError
from kedge.evidence.levels import read_levels
from kedge.evidence.load_state import ENOUGH, HOLD
from kedge.evidence.writing import write_json
from kedge.trials.bottleneck import Bottleneck, costs, limit_of
from spark_checks.job import Auditor
from verify.process import Ending, end_all
from verify.trials.passing import BEHIND_S, LATE_SHARE, judge, levels_of
from verify.trials.settings import TrialsError

#: What a trial may take beyond its seconds of load: an instance's restart behind its gates.
_RESTART_S: Final = 240.0
#: Why a load came to no end.
_BROKE_OFF: Final = "the load failed: "
_POLL_S: Final = 0.3
#: More than a load takes to end and to have its evidence from other hosts (verify.load.parent).
_LEAVE_S: Final = 180.0

Restart = Callable[[Path], "subprocess.Popen[bytes]"]


@dataclass(frozen=True)
class TrialSpec:
    """What one trial is to be.

    Attributes:
        number: of the trial in its run.
        name: of its folder.
        condition: healthy, restart or away.
        load: intended records/s.
        seconds: of steady load.
        kind: short or full, or the variant.
        plan: the folder with plan.json of the configuration that is deployed.
    """

    number: int
    name: str
    condition: str
    load: float
    seconds: float
    kind: str
    plan: Path


@dataclass(frozen=True)
class TrialResult:
    """What came of a trial; ``trial.json`` in its folder.

    ``limit`` is what was used up, and ``figures`` what goes into pictures and comparisons. Of a trial that is
    not ``judged`` nobody knows whether it met the levels: its load broke off, or evidence is missing.
    """

    number: int
    condition: str
    load: float
    kind: str
    passed: bool
    because: str
    took_s: float
    began: str
    folder: str
    audited: bool = False
    limit: Bottleneck | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    judged: bool = True


def trial_file(folder: Path) -> Path:
    """Return where a trial's outcome stands; a folder without it was interrupted."""
    return folder / "trial.json"


def outcomes(run_dir: Path) -> list[TrialResult]:
    """Return what the trials of a run came to, in their order; those that were interrupted left nothing."""
    found = []
    for path in sorted((run_dir / "trials").glob("*/trial.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        limit = document.pop("limit", None)
        found.append(TrialResult(**document, limit=Bottleneck(**limit) if limit else None))
    return found


def counted(done: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the trials that count: one that was not judged is run once more, and counts as failed then."""
    found: list[TrialResult] = []
    missed: TrialResult | None = None
    for one in done:
        again = missed is not None and _what(one) == _what(missed)
        missed = None if one.judged or again else one
        if missed is None:
            found.append(one)
    return found


def _what(one: TrialResult) -> tuple[str, float, str]:
    return one.condition, one.load, one.kind


def note(folder: Path, outcome: TrialResult) -> TrialResult:
    """Write an outcome down, and return it."""
    write_json(trial_file(folder), asdict(outcome))
    return outcome


def write_down(asked: TrialSpec, run_dir: Path, way: Literal["kafka", "rest"], warm_up_s: float) -> Path:
    """Make the folder of a trial with its load, levels and plan; what an interrupted one left goes."""
    folder = run_dir / "trials" / asked.name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "evidence").mkdir(parents=True)
    base = json.loads((asked.plan / "load.json").read_text(encoding="utf-8"))
    given = read_levels(run_dir / "slo.yml")
    # One interface alone: load by the other one would bypass what is measured, and take its resources.
    load = {**base, "kafka": None, "rest": None, way: {**base[way], "records_per_s": asked.load}}
    load |= {"run_id": f"{base['run_id']}-{asked.number}", "warm_up_s": warm_up_s, "min_records": 0}
    least = warm_up_s + asked.seconds
    load |= {
        "min_s": least,
        "max_s": least + (_RESTART_S if asked.condition == "restart" else 0),
        "kill": False,
        # Variants are compared over the same time.
        "late_ms": getattr(given.latency, way).ack_p99_ms if asked.kind in ("short", "full") else None,
    }
    write_json(folder / "load.json", load)
    shutil.copy(asked.plan / "plan.json", folder / "plan.json")
    restarts = asked.condition == "restart"
    # JSON is YAML.
    write_json(folder / "slo.yml", levels_of(given, way, load[way], asked.seconds, restarts=restarts))
    return folder


def run(
    asked: TrialSpec,
    run_dir: Path,
    way: Literal["kafka", "rest"],
    warm_up_s: float,
    auditor: Auditor,
    ending: Ending,
    restart: Restart | None,
    report_too: bool = False,
) -> TrialResult:
    """Run a trial; ``restart`` restarts an instance meanwhile.

    Raises:
        InterruptedError: when told to end; the trial leaves no outcome.
        TrialsError: when the load cannot begin.
    """
    began, clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    folder = write_down(asked, run_dir, way, warm_up_s)
    wrong = send_load(folder, asked, run_dir / "inventory.yml", ending, restart)
    judged = not wrong.startswith(_BROKE_OFF)
    outcome = TrialResult(
        asked.number, asked.condition, asked.load, asked.kind, False, wrong, 0.0, began, asked.name
    )
    document: dict[str, Any] = {}
    if not wrong:
        _command("verify.collect", folder, run_dir / "inventory.yml")
        try:
            verdict, because, document = judge(auditor, folder, report_too=report_too)
            wrong = "" if verdict == "pass" else because or f"the audit says {verdict}"
            if not wrong and (folder / ENOUGH).exists():
                wrong = "ended early: too many records were late"
            judged = verdict != "unknown"
        except EvidenceError as error:
            wrong, judged = str(error), False
    used = costs(folder)
    # Pictures show them; they are no figures of a variant.
    own = {"generator_own_share": max(share for share, _ in used.own.values())} if used.own else {}
    taken = {"stolen_share": max(of.get("stolen", 0.0) for of in used.shares.values())} if used.shares else {}
    figures = {**_figures(document, way), **used.figures, **own, **taken}
    if document:
        document["checks"].append(
            {"name": "cost", "verdict": "measured", "measured": used.figures, "anomalies": {}}
        )
        write_json(folder / "report" / "verdicts.json", document)
    took = round(time.monotonic() - clock, 1)
    return note(
        folder,
        TrialResult(
            **{
                **asdict(outcome),
                "passed": not wrong,
                "because": wrong,
                "took_s": took,
                "audited": bool(document),
                "judged": judged,
                "limit": limit_of(used),
                "figures": figures,
            }
        ),
    )


def _figures(document: Mapping[str, Any], way: str) -> dict[str, float]:
    """Return what the pictures need of an audit; of several mirrors or applications the slowest."""
    checks = {check["name"]: check["measured"] for check in document.get("checks", ())}
    latency, rates = (checks.get(name, {}).get(way, {}) for name in ("latency", "throughput"))
    found = {name: latency.get(name) for name in ("ack_p50_ms", "ack_p99_ms", "delivery_p99_ms")}
    found["mean_records_per_s"] = rates.get("mean_records_per_s")
    for check, name in (("mirror", "delay_p99_ms"), ("outputs", "latency_p99_ms")):
        each = [one.get(name) for one in checks.get(check, {}).values() if isinstance(one, dict)]
        found[name] = max((value for value in each if value is not None), default=None)
    return {name: float(value) for name, value in found.items() if value is not None}


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "KEDGE_PARENT_PID": str(os.getpid()), "KEDGE_RUN_DIR": str(folder)}


def _command(module: str, folder: Path, inventory: Path) -> None:
    argv = [sys.executable, "-m", module, "--run-dir", str(folder), "--inventory", str(inventory)]
    with (folder / "load.log").open("ab") as log:
        subprocess.run(argv, stdout=log, stderr=log, env=_environment(folder), check=False)


def _start(folder: Path, module: str, *more: str) -> subprocess.Popen[bytes]:
    with (folder / f"{module.rpartition('.')[2]}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", module, "--run-dir", str(folder), *more],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(folder),
            # Ctrl-C reaches a terminal's whole group: the children are told by us.
            start_new_session=True,
        )


def send_load(
    folder: Path,
    asked: TrialSpec,
    inventory: Path,
    ending: Ending,
    restart: Restart | None,
    hopeless_s: float = BEHIND_S,
    enough_of: Callable[[Mapping[str, Any]], bool] | None = None,
) -> str:
    """Run the load of a trial to its end, or until it is so far behind; return why it failed, if it did.

    ``enough_of`` is asked again and again with the load's state, and ends it in order.
    """
    load = _start(folder, "verify.load", "--inventory", str(inventory))
    watch = _start(folder, "verify.watch.host_watcher", "--inventory", str(inventory))
    restarting: subprocess.Popen[bytes] | None = None
    stop, hold, enough = (folder / name for name in ("stop", HOLD, ENOUGH))
    if restart is None:
        stop.touch()
    wrong, most_late = "", LATE_SHARE * asked.load * asked.seconds
    try:
        while load.poll() is None:
            time.sleep(_POLL_S)
            if ending:
                raise InterruptedError("ended while a load test ran")
            state = _state(folder)
            if restart is not None and restarting is None and state["phase"] in ("running", "draining"):
                # The gate of a restart waits for a group that would be gone with the load.
                hold.touch()
                restarting = restart(folder)
            if restarting is not None and not stop.exists() and restarting.poll() is not None:
                stop.touch()
                hold.unlink()
            if state["phase"] not in ("warming", "running") or enough.exists():
                continue
            if enough_of is not None and enough_of(state):
                enough.touch()
                continue
            if (behind := _behind(folder, asked, state)) > hopeless_s:
                wrong = f"ended early: {behind:.1f} s of records were not acknowledged"
                if not hold.exists():
                    return wrong
                enough.touch()
            elif restart is None and state.get("late", 0) > most_late:
                enough.touch()
    finally:
        end_all([load], _LEAVE_S)
        # A restart that was begun is brought to its end: an instance must not stay stopped.
        status = restarting.wait() if restarting is not None else 0
        end_all([watch], _LEAVE_S)
    if status and not wrong:
        wrong = f"the restart failed with status {status}; see {folder / 'restart.log'}"
    return wrong or _ended(folder, asked)


def _ended(folder: Path, asked: TrialSpec) -> str:
    """Return why a load did not come to its end, if it did not; raise TrialsError where it never began."""
    state = _state(folder)
    if not _began(folder):
        why = state.get("message") or f"see {folder / 'load.log'}"
        raise TrialsError(f"the load of load test {asked.number} cannot begin: {why}")
    return "" if state["phase"] == "done" else f"{_BROKE_OFF}{state.get('message') or 'see load.log'}"


def _began(folder: Path) -> bool:
    """Tell whether records were sent at all: a load that cannot begin says nothing about what is carried."""
    return any((folder / "evidence" / "ledger").glob("*.parquet"))


def _state(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / "load.state").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {"phase": "starting"}


def _behind(folder: Path, asked: TrialSpec, state: Mapping[str, Any]) -> float:
    """Return for how many seconds' worth of records that were due nothing is known; 0 before the start."""
    try:
        run = json.loads((folder / "evidence" / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0.0
    due_s = time.time() - run["started_us"] / 1e6
    # What came of a record that failed is known: the audit counts it.
    known = state["acked"] + state["failed"] + state["unknown"]
    return float(due_s - known / asked.load) if known else 0.0
