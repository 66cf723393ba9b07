"""What the report opens with: is it safe to go on, what got worse and by how much, what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spark_checks.job import Audit
from spark_checks.results import Figure, Verdict

#: The answer to whether it is safe to go on, by what the run came to.
_SAFE: Final[dict[Verdict, str]] = {
    "pass": "Yes",
    "fail": "No",
    "unknown": "Not known",
    "measured": "Not judged",
}
#: A level that is a most, and one that is a least.
_LEVEL: Final = ("allowed", "asked")
#: Of one check, and of the recommendations: the rest stands below.
_SHOWN: Final = 3


@dataclass(frozen=True)
class Answer:
    """The three answers, each as a word or lines."""

    safe: str
    why: str
    worse: tuple[str, ...]
    next: tuple[str, ...]


def answer(audit: Audit) -> Answer:
    """Return the answers of an audit."""
    return Answer(_SAFE[audit.verdict], _why(audit), tuple(_worse(audit)), tuple(_next(audit)))


def _why(audit: Audit) -> str:
    parts = [*_named(audit, "fail", "{} failed"), *_named(audit, "unknown", "{} could not be judged")]
    # What is wrong comes first.
    figures = audit.result("delivery").figures
    parts += [f"{one.found()} records" for one in figures if one.what == "lost" and one.value == 0]
    parts += [*_named(audit, "pass", "{} passed"), *_named(audit, "measured", "{} had no level")]
    names = {result.name for result in audit.results}
    if "traffic" in names and "delivery" not in names:
        parts.append("loss, duplicates and order are not judged, as nothing was sent")
    return f"{'; '.join(parts)}."


def _worse(audit: Audit) -> Iterator[str]:
    told = False
    for result in audit.results:
        failed = [figure for figure in result.figures if figure.verdict == "fail"]
        for figure in failed[:_SHOWN]:
            yield f"{result.name}: {figure.words()}{_beyond(figure, figure.level, _LEVEL[figure.least])}"
        if len(failed) > _SHOWN:
            yield f"{result.name}: {len(failed) - _SHOWN} more figures"
        if result.verdict == "fail" and not failed:
            yield f"{result.name}: {result.because}"
        for figure in result.figures:
            if figure.worse_than_before and figure.earlier:
                yield (
                    f"{result.name}: {figure.found()}, worse than in each of the last {figure.earlier.runs} "
                    f"runs{_beyond(figure, figure.earlier.median, 'their median')}"
                )
                told = True
    runs = max((f.earlier.runs for r in audit.results for f in r.figures if f.earlier), default=0)
    if not told and runs:
        yield f"No figure is worse than in each of the last {runs} runs."
    elif not told:
        missed = any(result.verdict == "fail" for result in audit.results)
        none = "There is no earlier run of the same subject to compare with"
        yield f"{none}{'.' if missed else '; no level was missed.'}"


def _beyond(figure: Figure, beside: float | None, than: str) -> str:
    """Say by how much a figure is beyond what it is held against; empty where that is no share."""
    if not beside or figure.value is None:
        return ""
    times = figure.value / beside
    if times >= 2:
        return f": {times:,.1f} times {than}"
    return f": {abs(times - 1):.0%} {'more' if times > 1 else 'less'} than {than}"


def _next(audit: Audit) -> Iterator[str]:
    services = list(dict.fromkeys(one.service for one in audit.restarts))
    if audit.verdict == "fail":
        if services:
            yield f"If clients suffer, go back: rollback.yml -e service={services[0]}"
        yield from _named(audit, "fail", "Read below what {} found")
    if audit.verdict in ("fail", "unknown"):
        yield from _named(audit, "unknown", "See below which evidence {} lacked, and verify again")
    if audit.verdict == "measured":
        yield "Set the levels that you need in service_levels: recommendations.yml has what was measured"
    if audit.verdict == "pass":
        worse = any(f.worse_than_before for result in audit.results for f in result.figures)
        yield "Go on, and watch what got worse" if worse else "Go on"
    advised = [one for result in audit.results for one in result.recommendations]
    for one in advised[:_SHOWN]:
        yield f"{one.advice}{f' ({one.variable})' if one.variable else ''}"
    if len(advised) > _SHOWN:
        yield f"{len(advised) - _SHOWN} more recommendations are below"
    if any(one.variable for one in advised):
        yield "What the recommendations would change: plan.yml -e @recommendations.yml"


def _named(audit: Audit, verdict: Verdict, words: str) -> Iterator[str]:
    names = [result.name for result in audit.results if result.verdict == verdict]
    if names:
        yield words.format(f"{', '.join(names[:-1])} and {names[-1]}" if names[1:] else names[0])
