"""What a person who waits is log: which trial, of how many at most, until about when."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from verify.trials.settings import TrialSettings
from verify.trials.trial import TrialResult, counted

#: Beside its load: processes that start, groups that form, evidence that is collected and audited, and an
#: instance that restarts behind its gates. Measured on two busy cores; own trials of a condition replace it.
_BESIDE_S: Final = {"healthy": 20.0, "restart": 60.0, "away": 20.0}
#: Deploying a variant, its instances restarted one at a time.
DEPLOY_S: Final = 60.0


def trial_s(
    settings: TrialSettings, condition: str, seconds: float, done: Sequence[TrialResult] = ()
) -> float:
    """Return how long a trial is expected to take."""
    alike = [one for one in done if one.audited and one.condition == condition]
    beside = [one.took_s - settings.warm_up_s - _seconds(settings, one) for one in alike]
    expected = max(sorted(beside)[len(beside) // 2], 0) if beside else _BESIDE_S[condition]
    return settings.warm_up_s + seconds + expected


def _seconds(settings: TrialSettings, one: TrialResult) -> float:
    return settings.short_s if one.kind == "short" else settings.full_s


def duration(seconds: float) -> str:
    """Return seconds as a person reads them."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def result(done: Sequence[TrialResult]) -> str:
    """Say what the last trial came to."""
    one = done[-1]
    if one.passed:
        said = "passed"
    elif one.judged:
        said = f"failed: {one.because[:200]}"
    else:
        then = "counts as failed" if counted(done)[-1:] == [one] else "runs once more"
        said = f"could not be judged, {then}: {one.because[:200]}"
    return f"  {said} ({one.took_s:.0f} s)"


class RunLog:
    """Says lines on the terminal and keeps them in a file; a terminal that is gone ends nothing."""

    def __init__(self, log: Path | None = None) -> None:
        self._log = log

    def say(self, line: str) -> None:
        """Say one line."""
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%H:%M:%S', time.gmtime())} {line}\n")
        with contextlib.suppress(BrokenPipeError, OSError):
            print(line, flush=True)
