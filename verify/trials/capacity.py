"""What the hosts carry: trials under rising and falling load, until the limit of each condition is known."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from kedge.evidence.levels import read_levels
from kedge.evidence.writing import write_json
from kedge.trials.bottleneck import said
from kedge.trials.search import CapacityEstimate, Next, Rules, Tried, answers, most_trials, next_trial
from spark_checks.job import Auditor
from verify.process import Ending
from verify.trials import page
from verify.trials.hosts import DeployedHosts
from verify.trials.progress import RunLog, duration, result, trial_s
from verify.trials.settings import CONDITIONS, UNSURE, TrialSettings, judging, of_load, way_of
from verify.trials.trial import TrialResult, TrialSpec, counted, outcomes, run
from verify.trials.warming import MOST, warm, warm_up

#: Below this share of what verify asks for, nothing is looked for.
_FLOOR: Final = 1 / 64
#: The fix where the limit is not the service's own.
_GIVE: Final = {
    "generators": "give them more producers, or more hosts",
    "brokers": "give them more cores, or more hosts",
}


def rules_of(settings: TrialSettings, load: float) -> Rules:
    """Return how the search is led that begins with the load of verify."""
    asked = tuple(one for one in CONDITIONS if one in settings.conditions)
    return Rules(
        asked,
        start=min(load, settings.ceiling),
        ceiling=settings.ceiling,
        floor=max(1.0, load * _FLOOR),
        # Its processes begin anew when it is back.
        apart=("away",),
        width=settings.width,
        most_short=settings.most_short,
        most_full=settings.most_full,
    )


def describe(settings: TrialSettings, load: dict[str, Any]) -> list[str]:
    """Return what a run would do, and how long all of its trials would take."""
    way = way_of(load, settings.service)
    rules = rules_of(settings, load[way]["records_per_s"])
    short, full = most_trials(rules)
    longest = 2 * MOST * settings.fresh_s + sum(
        settings.most_short * trial_s(settings, one, settings.short_s)
        + settings.most_full * trial_s(settings, one, settings.full_s)
        for one in rules.conditions
    )
    where = ", ".join(f"{host} ({len(names)})" for host, names in sorted(settings.instances.items()))
    lines = [
        f"service {settings.service} on {where}; load by {way} to {load[way]['topic']}, from "
        f"{rules.start:,.0f} records/s, {settings.ceiling:,.0f} at most",
        f"conditions {', '.join(rules.conditions)}: at most {short} short load tests of "
        f"{settings.short_s:g} s and {full} full ones of {settings.full_s:g} s, "
        f"{duration(longest)} if all are needed; usually about half are",
        f"warms the processes up before the first short load test and before the first full one, for "
        f"{settings.fresh_s:g} s, and for up to {MOST * settings.fresh_s:g} s while records take less "
        "and less processor time",
    ]
    if "restart" in rules.conditions:
        lines.append(f"restarts one instance of {settings.hosts[0]} in each load test of that condition")
    if "away" in rules.conditions:
        lines.append(
            f"stops the instances of {settings.hosts[-1]} meanwhile, and starts them again at the end"
        )
    return lines


def tried_of(done: Sequence[TrialResult]) -> list[Tried]:
    """Return the trials that count, as the search sees them."""
    return [
        Tried(one.condition, one.load, "short" if one.kind == "short" else "full", one.passed)
        for one in counted(done)
    ]


def capacity(settings: TrialSettings, run_dir: Path, ending: Ending, log: RunLog) -> int:
    """Search, going on from what the run's folder holds; return the exit status.

    Raises:
        TrialsError: when something has to be mended.
        InterruptedError: when told to end; the next call goes on from here.
    """
    load = json.loads((run_dir / "load.json").read_text(encoding="utf-8"))
    settings = of_load(settings, load)
    way = way_of(load, settings.service)
    judging(read_levels(run_dir / "slo.yml"), settings.service)
    rules = rules_of(settings, load[way]["records_per_s"])
    for line in describe(settings, load):
        log.say(line)
    site, auditor = DeployedHosts(settings, run_dir), Auditor(run_dir / "trials" / "spark.log")
    done = outcomes(run_dir)
    if done:
        log.say(f"going on after {len(done)} load tests of {run_dir.name}")
    site.deployed()
    try:
        cold, steady = True, False
        while (following := next_trial(rules, tried_of(done))) is not None:
            if ending:
                raise InterruptedError("ended between two load tests")
            cold |= site.away(settings.hosts[-1] if following.condition == "away" else None)
            asked = _asked(settings, following, len(done) + 1, run_dir)
            warming = partial(warm, asked, run_dir, way, ending)
            if cold:
                # Short trials only say where to look.
                warm_up(warming, settings.fresh_s, log, small=True)
                cold, steady = False, False
            if asked.kind == "full" and not steady:
                # The rest of the search compares what comes after it.
                warm_up(warming, settings.fresh_s, log, small=False)
                steady = True
            log.say(_before(settings, rules, done, asked))
            restart = site.restart if following.condition == "restart" else None
            one = run(
                asked,
                run_dir,
                way,
                settings.warm_up_s,
                auditor,
                ending,
                restart,
                report_too=asked.kind == "full",
            )
            done.append(one)
            log.say(result(done))
    finally:
        auditor.close()
        try:
            site.put_back()
        finally:
            # What was measured is not lost where a host cannot be brought back.
            if done:
                _leave(settings, rules, run_dir, way, load, done, log)
    return 0 if all(one.closed for one in answers(rules, tried_of(done))) else UNSURE


def _asked(settings: TrialSettings, one: Next, number: int, run_dir: Path) -> TrialSpec:
    seconds = settings.short_s if one.kind == "short" else settings.full_s
    name = f"{number:03d}-{one.condition}-{one.load:.0f}"
    return TrialSpec(number, name, one.condition, one.load, seconds, one.kind, run_dir)


def _before(settings: TrialSettings, rules: Rules, done: Sequence[TrialResult], asked: TrialSpec) -> str:
    """Say which trial comes, what is known, and when all would end if every trial were needed."""
    left = 0.0
    for condition in rules.conditions:
        for kind, most, seconds in (
            ("short", rules.most_short, settings.short_s),
            ("full", rules.most_full, settings.full_s),
        ):
            had = sum(one.condition == condition and one.kind == kind for one in counted(done))
            over = kind == "short" and asked.kind == "full"
            left += 0 if over else (most - had) * trial_s(settings, condition, seconds, done)
    until = time.strftime("%H:%M", time.gmtime(time.time() + left))
    known = [
        words(one) for one in answers(rules, tried_of(done)) if one.low is not None or one.high is not None
    ]
    return (
        f"trial {len(counted(done)) + 1} of {sum(most_trials(rules))} at most: {asked.condition}, "
        f"{asked.load:,.0f} records/s, {asked.kind}; ends by about {until} UTC"
        + "".join(f"; {one}" for one in known)
    )


def words(one: CapacityEstimate) -> str:
    """Return an answer in words."""
    if one.carries is None:
        return f"{one.condition}: {one.because}"
    if one.at_least:
        return f"{one.condition}: at least {one.carries:,.0f} records/s ({one.because})"
    between = f"limit {one.low:,.0f} to {one.high:,.0f}" if one.low and one.high else ""
    seen = []
    if one.passed:
        seen.append(f"{one.passed:,.0f} passed")
    if one.failed:
        seen.append(f"{one.failed:,.0f} failed")
    return f"{one.condition}: {one.carries:,.0f} records/s ({'; '.join([between, *seen])})" + (
        "" if one.closed else f"; not closed: {one.because}"
    )


def _leave(
    settings: TrialSettings,
    rules: Rules,
    run_dir: Path,
    way: Literal["kafka", "rest"],
    load: dict[str, Any],
    done: Sequence[TrialResult],
    log: RunLog,
) -> None:
    """Write capacity.json, recommendations.yml and the report, and say what was found."""
    found = [_with_others(one, done) for one in answers(rules, tried_of(done))]
    limits = {one.condition: _limit(one, done) for one in found}
    document = {
        "run_id": run_dir.name,
        "service": settings.service,
        "hosts": settings.instances,
        "answers": [asdict(one) | {"limit": limits[one.condition]} for one in found],
        "trials": len(done),
        "seconds": round(sum(one.took_s for one in done), 1),
    }
    report = run_dir / "report"
    report.mkdir(exist_ok=True)
    write_json(report / "capacity.json", document)
    measured = recommendation(settings, run_dir, way, load, found, done)
    (report / "recommendations.yml").write_text(measured, encoding="utf-8")
    rows = [(words(one), limits[one.condition]) for one in found]
    (report / "report.html").write_text(page.of_capacity(run_dir, settings, rows, done), encoding="utf-8")
    for said_of, limit in rows:
        log.say(f"{said_of}; limit: {limit}")
    if by_others := page.stolen(done):
        log.say(by_others)
    log.say(f"report: {report / 'report.html'}")


def _with_others(one: CapacityEstimate, done: Sequence[TrialResult]) -> CapacityEstimate:
    """Return an answer that is "at least" where it was generators or brokers that could do no more."""
    others = {each.limit.others if each.limit else "" for each in _failed(one.condition, done)}
    if one.carries is None or not others or "" in others:
        return one
    why = " and ".join(f"the {each} could do no more: {_GIVE[each]}" for each in sorted(others))
    return replace(one, at_least=True, because=why)


def _failed(condition: str, done: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the full trials that failed; where none did the short ones, which only say where to look."""
    failed = [each for each in counted(done) if each.condition == condition and not each.passed]
    return [each for each in failed if each.kind != "short"] or failed


def _limit(one: CapacityEstimate, done: Sequence[TrialResult]) -> str:
    """Say what was used up in the trial nearest above the answer."""
    failed = [each for each in _failed(one.condition, done) if each.load > (one.carries or 0)]
    if not failed:
        return "not reached"
    nearest = min(failed, key=lambda each: each.load)
    return f"{said(nearest.limit)} ({nearest.load:,.0f} records/s failed: {nearest.because[:160]})"


def recommendation(
    settings: TrialSettings,
    run_dir: Path,
    way: Literal["kafka", "rest"],
    load: dict[str, Any],
    found: Sequence[CapacityEstimate],
    done: Sequence[TrialResult],
) -> str:
    """Return the vars file that hands the measured capacity to the plan."""
    by_condition = {one.condition: one for one in found if one.carries}
    healthy = by_condition.get("healthy")
    head = f"# Measured by capacity.yml, run {run_dir.name}:\n" + "".join(
        f"#   {words(one)}\n" for one in found
    )
    if healthy is None:
        return f"{head}---\nrecommended: {{}}\n"
    try:
        own = _own_keys(settings, load, _subject(run_dir, done))
    except LookupError as error:
        return f"{head}# Nothing for the plan: {error.args[0]}.\n---\nrecommended: {{}}\n"
    value: dict[str, Any] = {
        "run": run_dir.name,
        "date": done[0].began[:10],
        **own,
        "record_bytes": load[way].get("record_bytes", 100),
        "records_per_s": round(healthy.carries or 0),
        "at_least": healthy.at_least,
        "closed": all(one.closed for one in found),
    }
    if away := by_condition.get("away"):
        value["one_away_records_per_s"] = round(away.carries or 0)
        value["one_away_at_least"] = away.at_least
    elif any(one.condition == "away" and one.failed for one in found):
        # What is left carried nothing, which the plan has to know.
        value["one_away_records_per_s"] = 0
    if restart := by_condition.get("restart"):
        value["one_restarting_records_per_s"] = round(restart.carries or 0)
        value["one_restarting_at_least"] = restart.at_least
    elif any(one.condition == "restart" and one.failed for one in found):
        value["one_restarting_records_per_s"] = 0
    recommended = {"recommended": {f"{settings.service}_measured_capacity": value}}
    shown = yaml.safe_dump(recommended, sort_keys=False)
    return f"{head}# What it would change:\n#   ansible-playbook -i INV plan.yml -e @THIS_FILE\n---\n{shown}"


def _own_keys(settings: TrialSettings, load: dict[str, Any], subject: dict[str, Any]) -> dict[str, Any]:
    """Return what a measurement is of, in the words of its service's variable.

    Raises:
        LookupError: when it says nothing of what the plan could use; its text is the reason.
    """
    test, loaded = settings.test, settings.instances
    names = sorted(test.through(load))
    if test.one and len(names) != 1:
        took = " and ".join(names) or f"no {test.one}"
        raise LookupError(f"{took} took the load, and a measurement is of one {test.one} alone")
    cores = {
        host: machine.get("cores")
        for machine in subject.get("machines", ())
        for host in machine.get("hosts", ())
    }
    if not loaded or len(found := {cores.get(host) for host in loaded}) != 1 or not all(found):
        raise LookupError("the cores of the hosts could not be read, or they differ")
    rows = [one for one in subject.get("services", ()) if one["service"] == settings.service]
    of = test.measured(load, names[0] if test.one else "", rows, loaded)
    return {**of, "cores": found.pop(), "hosts": len(loaded)}


def _subject(run_dir: Path, done: Sequence[TrialResult]) -> dict[str, Any]:
    """Return what was tested, as the evidence of the last trial that was audited has it."""
    for one in reversed(done):
        path = run_dir / "trials" / one.folder / "evidence" / "run.json"
        if one.audited and path.exists():
            return dict(json.loads(path.read_text(encoding="utf-8")).get("subject", {}))
    return {}
