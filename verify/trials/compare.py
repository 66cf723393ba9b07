"""Is one configuration better than another? Variants take turns on the same hosts, under the same load."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from kedge.evidence.writing import write_json
from kedge.trials.figures import collapsed, compare
from kedge.trials.permutation import enough
from kedge.trials.table import as_json, how_sure, row
from kedge.trials.variant_order import blocks_of, order_of
from spark_checks.job import Auditor
from verify.process import Ending
from verify.trials import page
from verify.trials.hosts import DeployedHosts, overlay
from verify.trials.progress import DEPLOY_S, RunLog, duration, result, trial_s
from verify.trials.settings import UNSURE, TrialsError, TrialSettings, of_load, way_of
from verify.trials.trial import TrialResult, TrialSpec, counted, note, outcomes, run
from verify.trials.warming import MOST, warm, warm_up

_LEAST_VARIANTS: Final = 2
#: Of the seconds for processes that have just begun, the share in small requests; and what it usually takes
#: until they are steady, by four rounds of the load that is compared.
_SMALL: Final = 0.5
_USUALLY: Final = 2.5


def named(variants: Sequence[str]) -> list[str]:
    """Return variants by names of their own: the same variant twice tells how often alike sides differ (A/A).

    Raises:
        TrialsError: when there are fewer than two.
    """
    if len(variants) < _LEAST_VARIANTS:
        raise TrialsError("name two variants at least, such as -e arms=documented,planned")
    for variant in variants:
        overlay(variant)
    seen: dict[str, int] = {}
    found = []
    for variant in variants:
        seen[variant] = seen.get(variant, 0) + 1
        found.append(variant if seen[variant] == 1 else f"{variant}#{seen[variant]}")
    return found


#: Figures of a variant that are judged: rates, latencies, what a record cost; and those of a restart.
_FIGURES: Final = {False: 9, True: 17}


def describe(settings: TrialSettings, load: dict[str, Any]) -> list[str]:
    """Return what a run would do, and how long it takes."""
    way, variants = way_of(load, settings.service), named(settings.arms)
    trials = len(order_of(variants, settings.blocks))
    longest = trials * _one_s(settings) + 2 * DEPLOY_S
    each = ", an instance restarted in each" if settings.restarts else ""
    block = " ".join(variant for _, variant in order_of(variants, 1))
    lines = [
        f"service {settings.service} on {', '.join(settings.hosts)}; load by {way} of "
        f"{load[way]['records_per_s']:,.0f} records/s",
        f"variants {', '.join(variants)}, in {settings.blocks} blocks ({block}): {trials} load tests of "
        f"{settings.full_s:g} s{each}, about {duration(longest)}",
        f"warms the processes of each load test up by {_SMALL * settings.fresh_s:g} s of small requests, "
        f"then by the load that is compared, for up to {MOST * settings.fresh_s:g} s while records take less "
        "and less processor time",
        "deploys each variant for its load tests, and what the inventory plans at the end",
    ]
    figures = _FIGURES[settings.restarts] * (len(variants) - 1)
    fewest = next(blocks for blocks in count(1) if enough([(2, 2)] * blocks, figures))
    if settings.blocks < fewest:
        lines.append(
            f"too few blocks ({settings.blocks}) to show any difference of some {figures} figures: "
            f"trials_blocks={fewest}"
        )
    return lines


def _condition(settings: TrialSettings) -> str:
    return "restart" if settings.restarts else "healthy"


def _one_s(settings: TrialSettings, done: Sequence[TrialResult] = ()) -> float:
    trial = trial_s(settings, _condition(settings), settings.full_s, done)
    return DEPLOY_S + _USUALLY * settings.fresh_s + trial


def compare_variants(settings: TrialSettings, run_dir: Path, ending: Ending, log: RunLog) -> int:
    """Run the trials of all variants, going on from what the run's folder holds; return the exit status.

    Raises:
        TrialsError: when something has to be mended.
        InterruptedError: when told to end; the hosts have what they had, and the next call goes on.
    """
    load = json.loads((run_dir / "load.json").read_text(encoding="utf-8"))
    settings = of_load(settings, load)
    variants = named(settings.arms)
    order = order_of(variants, settings.blocks)
    for line in describe(settings, load):
        log.say(line)
    site, auditor = DeployedHosts(settings, run_dir), Auditor(run_dir / "trials" / "spark.log")
    done = outcomes(run_dir)
    if done:
        log.say(f"going on after {len(done)} load tests of {run_dir.name}")
    site.deployed()
    turns = _Turns(settings, load, run_dir, site, auditor, ending, log, done)
    took_s: list[float] = []
    try:
        while (place := len(counted(done))) < len(order):
            if ending:
                raise InterruptedError("ended between two load tests")
            block, variant = order[place]
            each_s = statistics.median(took_s) if took_s else _one_s(settings, done)
            until = time.strftime("%H:%M", time.gmtime(time.time() + (len(order) - place) * each_s))
            log.say(
                f"trial {place + 1} of {len(order)}: {variant}, block {block + 1}; ends at about {until} UTC"
            )
            began_s = time.monotonic()
            done.append(turns.take(len(done) + 1, variant))
            if not done[-1].because.startswith(_NO_START):
                took_s.append(time.monotonic() - began_s)
            log.say(result(done))
    finally:
        auditor.close()
        log.say("putting back what the inventory plans")
        try:
            site.put_back()
        finally:
            # What was measured is not lost where a host cannot be brought back.
            compared = _leave(settings, variants, order, run_dir, done, log) if done else 0
    if not compared:
        log.say(
            f"nothing to compare: {variants[0]} or another variant needs a load test that was audited, "
            "beside one of the other in its block"
        )
    return 0 if compared else UNSURE


_NO_START: Final = "the variant does not start: "


class _Turns:
    """Deploys a variant and runs its trial, each with fresh processes."""

    def __init__(
        self,
        settings: TrialSettings,
        load: dict[str, Any],
        run_dir: Path,
        site: DeployedHosts,
        auditor: Auditor,
        ending: Ending,
        log: RunLog,
        done: Sequence[TrialResult],
    ) -> None:
        self._settings, self._dir, self._site = settings, run_dir, site
        self._auditor, self._ending, self._log = auditor, ending, log
        self._way = way_of(load, settings.service)
        self._rate = float(load[self._way]["records_per_s"])
        self._dead = {one.kind: one.because for one in done if one.because.startswith(_NO_START)}
        # The folder with the plan of what runs. A run that was killed did not put it back.
        self._running = None if site.changed() else run_dir

    def take(self, number: int, variant: str) -> TrialResult:
        """Run the trial of this number; raises InterruptedError when told to end."""
        folder = self._dir / "trials" / f"{number:03d}-{page.slug(variant)}"
        plan = self._dir / "trials" / f"arm-{page.slug(variant)}"
        condition = _condition(self._settings)
        if not (wrong := self._dead.get(variant) or self._deployed(variant, plan)):
            asked = TrialSpec(
                number, folder.name, condition, self._rate, self._settings.full_s, variant, plan
            )
            restart = self._site.restart if self._settings.restarts else None
            warm_up_s, ending, fresh_s = self._settings.warm_up_s, self._ending, self._settings.fresh_s
            warming = partial(warm, asked, self._dir, self._way, ending)
            try:
                # Compilers count calls, of which small requests make many; what they leave cold is warmed up
                # by the load that is compared.
                warming(fresh_s * _SMALL)
                warm_up(warming, fresh_s, self._log, small=False)
                return run(
                    asked, self._dir, self._way, warm_up_s, self._auditor, ending, restart, report_too=True
                )
            except TrialsError as error:
                # It runs, and does not answer.
                wrong = f"{_NO_START}{error}"
        self._dead[variant] = wrong
        folder.mkdir(parents=True, exist_ok=True)
        began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        one = TrialResult(number, condition, self._rate, variant, False, wrong, 0.0, began, folder.name)
        return note(folder, one)

    def _deployed(self, variant: str, plan: Path) -> str:
        """Deploy a variant, its processes fresh; return why it does not start, if it does not."""
        # Read first: a variant that follows itself has its plan written where what runs stands.
        service, earlier = self._settings.service, _hosts(plan)
        before = None if self._running is None else _processes(self._running, service)
        self._running = None
        try:
            self._site.deploy(variant, plan)
            now = _processes(plan, service)
            # A deploy restarts what it changes: others would go on, warm already.
            if before is None or any(before.get(name) == one for name, one in now.items()):
                self._site.restart_all()
        except TrialsError as error:
            return f"{_NO_START}{error}"
        if earlier not in (None, _hosts(plan)):
            raise TrialsError(
                f"variant {variant} is not what it was in its earlier load tests: take the change of its "
                f"file back, or "
                "begin anew"
            )
        self._running = plan
        return ""


def _hosts(folder: Path) -> dict[str, Any] | None:
    """Return what a plan has for hosts, None where there is no plan yet."""
    try:
        return dict(json.loads((folder / "plan.json").read_text(encoding="utf-8"))["hosts"])
    except FileNotFoundError:
        return None


def _processes(folder: Path, service: str) -> dict[str, Any]:
    """Return what a plan gives the processes of a service, by host, without its reasons."""
    found = {}
    for host, of in (_hosts(folder) or {}).items():
        for one in of["services"].get(service, {}).get("instances", ()):
            values = {(row["file"], row["key"]): row["value"] for row in one["settings"]}
            found[f"{host}/{one['name']}"] = {**one, "settings": values}
    return found


def _leave(
    settings: TrialSettings,
    variants: Sequence[str],
    order: Sequence[tuple[int, str]],
    run_dir: Path,
    done: Sequence[TrialResult],
    log: RunLog,
) -> int:
    """Write comparison.json and the report, say what differs; return how many variants could be compared."""
    documents: dict[int, dict[str, Any]] = {}
    seen = set()
    for place, one in enumerate(counted(done)):
        path = run_dir / "trials" / one.folder / "report" / "verdicts.json"
        if one.audited and path.exists():
            documents[place] = json.loads(path.read_text(encoding="utf-8"))
            seen.add(one.kind)
        elif _collapsed(one):
            documents[place] = collapsed(one.folder)
    blocks = {variant: blocks_of(variants[0], variant, order, documents) for variant in variants[1:]}
    # Of two that both collapsed always, neither is worse.
    found = compare({variant: of for variant, of in blocks.items() if of and seen & {variant, variants[0]}})
    sure = {variant: how_sure(found[variant], blocks[variant]) for variant in found}
    report = run_dir / "report"
    report.mkdir(exist_ok=True)
    failed = {
        variant: [one for one in counted(done) if one.kind == variant and not one.passed]
        for variant in variants
    }
    of_failed = [_failed(variant, many) for variant, many in failed.items() if many]
    write_json(
        report / "comparison.json",
        {
            "run_id": run_dir.name,
            "arms": list(variants),
            "blocks": settings.blocks,
            "trials": [asdict(one) for one in done],
            "failed": {variant: len(many) for variant, many in failed.items()},
            "collapsed": {variant: sum(map(_collapsed, many)) for variant, many in failed.items()},
            "against": variants[0],
            "figures": {variant: [as_json(one) for one in many] for variant, many in found.items()},
        },
    )
    text = page.of_comparison(run_dir, settings, variants, found, sure, of_failed, done)
    (report / "report.html").write_text(text, encoding="utf-8")
    for line in of_failed:
        log.say(line)
    for variant, many in found.items():
        log.say(f"{variant} against {variants[0]}; {sure[variant]}")
        for figure in (row(one) for one in many if one.chance is not None):
            log.say(f"  {figure.change:14} {figure.name}: {figure.interval} (chance {figure.chance})")
    if by_others := page.stolen(done):
        log.say(by_others)
    log.say(f"report: {report / 'report.html'}")
    return len(found)


def _collapsed(one: TrialResult) -> bool:
    """Tell whether a load test has no figures for its variant did not start, or fell too far behind."""
    return one.judged and not one.audited


def _failed(variant: str, many: Sequence[TrialResult]) -> str:
    """Say how many load tests of a variant failed, and what those without figures count for."""
    fell = sum(map(_collapsed, many))
    unknown = sum(not one.audited for one in many) - fell
    said = f"{variant}: {len(many)} load {'test' if len(many) == 1 else 'tests'} failed"
    if fell:
        said += (
            f", {fell} of them collapsed: in rates, latencies and delivery gaps they count as the worst load "
            f"test, and what {variant} cost is said of the others"
        )
    if unknown:
        said += f", {unknown} of them without figures: what is said of {variant} is of the others"
    return said
