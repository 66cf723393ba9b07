"""Makes the phases of set-up, those at once that do not wait for one another."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from kedge.deploy.locked_jars import JarError
from kedge.setup import children
from kedge.setup.disk_space import check_space
from kedge.setup.problem import Problem

Say = Callable[[str], None]


@dataclass(frozen=True)
class SetupPart:
    """A part of set-up: `wanting` tells in words what is missing, or nothing; `make` makes it.

    `needs` is the space that making takes: folders and megabytes. `after` names the phases that come first.
    """

    name: str
    wanting: Callable[[], str]
    make: Callable[[Say], None]
    needs: Sequence[tuple[Path, int]] = ()
    after: tuple[str, ...] = ()


def say(line: str) -> None:
    """Print one line at once, whole: phases speak while others run."""
    print(f"set-up: {line}\n", end="", flush=True)


def wantings(phases: Sequence[SetupPart]) -> dict[str, str]:
    """What each phase has to make, in words; empty for what is there."""
    with ThreadPoolExecutor(max(1, len(phases))) as pool:
        return dict(
            zip(
                (phase.name for phase in phases), pool.map(lambda phase: phase.wanting(), phases), strict=True
            )
        )


def run(phases: Sequence[SetupPart]) -> dict[str, float]:
    """Make what is missing; return the seconds that each phase took which was not there.

    A phase that fails ends those that come after it, and no other: what is done need not be done again.
    Raises Problem with what every failed phase said.
    """
    began = time.monotonic()
    wanted = wantings(phases)
    left = [phase for phase in phases if wanted[phase.name]]
    check_space((folder, size, phase.name) for phase in left for folder, size in phase.needs)
    problems: list[str] = []
    seconds: dict[str, float] = {}
    at_work: dict[Future[float], SetupPart] = {}
    with ThreadPoolExecutor(max(1, len(left))) as pool:
        try:
            while left or at_work:
                waited_for = {phase.name for phase in (*left, *at_work.values())}
                for phase in [one for one in left if not waited_for & set(one.after)]:
                    at_work[pool.submit(_make, phase, wanted[phase.name])] = phase
                    left.remove(phase)
                for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                    phase = at_work.pop(future)
                    try:
                        seconds[phase.name] = future.result()
                    except (Problem, JarError, OSError) as problem:
                        problems.append(f"{phase.name}: {problem}")
                        say(f"{phase.name}: failed")
                        left = _without(left, phase.name)
        except BaseException:
            children.stop()
            raise
    if problems:
        raise Problem("\n".join(problems))
    say(f"complete ({time.monotonic() - began:.1f} s)")
    return seconds


def _make(phase: SetupPart, wanting: str) -> float:
    began = time.monotonic()
    say(f"{phase.name}: {wanting}")
    phase.make(lambda line: say(f"{phase.name}: {line}"))
    seconds = time.monotonic() - began
    say(f"{phase.name}: done in {seconds:.1f} s")
    return seconds


def _without(phases: list[SetupPart], name: str) -> list[SetupPart]:
    """The phases that wait for `name` neither themselves nor through another."""
    for phase in phases:
        if name in phase.after:
            return _without(_without([one for one in phases if one is not phase], phase.name), name)
    return phases
