"""Runs windows one after the other: the next one sends before the one before it stops."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kedge.evidence.canary import TURNS, CanaryConfig, announced
from kedge.evidence.writing import write_json
from verify.canary.windows import RunningWindow, last_end_us, left_behind, note_hole, prune, sending
from verify.process import Ending, end_all, now_us

#: How long before a window's end the next one begins: its processes start, its group is assigned.
LEAD_S: Final = 15.0
_TICK_S: Final = 0.5
#: A pause after a load that did not come up: whatever it lacks, it is asked for again.
_AGAIN_S: Final = 5.0
#: A tick that comes so late was missed: the canary, or its machine, was stopped meanwhile.
_LATE_S: Final = 5.0
#: A clock that is set by more than this makes times of one window incomparable. NTP slews less.
_STEP_S: Final = 0.25
#: A hole that counts: shorter ones are the time between two looks.
_HOLE_US: Final = 2_000_000
_END_S: Final = 45.0


class _Clocks:
    """What shows that this machine slept, that this process was stopped, or that somebody set the clock."""

    def __init__(self) -> None:
        self._before = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        return time.time(), time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)

    def wrong(self) -> str:
        """Return what happened since the last time; empty where all went as it should."""
        (wall, steady, boot), now = self._before, self._now()
        self._before = now
        passed = now[1] - steady
        if (slept := now[2] - boot - passed) > _STEP_S:
            return f"the host slept for {slept:.1f} s"
        if passed > _LATE_S:
            return f"the canary was stopped for {passed:.1f} s"
        if abs(step := now[0] - wall - passed) > _STEP_S:
            return f"the clock was set by {step:+.1f} s"
        return ""


class Supervisor:
    """Leads the windows of a canary; ``leases`` is where runs of playbooks announce themselves.

    ``watch`` is told of the windows that run, each time that they are looked at.
    """

    def __init__(
        self,
        config: CanaryConfig,
        home: Path,
        leases: Path,
        watch: Callable[[list[RunningWindow], set[str]], None] = lambda *_: None,
    ) -> None:
        self._config, self._home, self._leases, self._watch = config, home, leases, watch
        self._current: RunningWindow | None = None
        self._next: RunningWindow | None = None
        self._leaving: list[RunningWindow] = []
        self._turn = 0
        self._again = 0.0
        self._lead_s = min(LEAD_S, config.window_s / 2)
        self._sent_until_us: int | None = None
        self._sent_by: RunningWindow | None = None
        self._clocks = _Clocks()
        self._planned: set[str] = set()
        self._complained = ""
        self._told = self._failure = ""

    def run(self, ending: Ending) -> None:
        """Run windows until told to end; then the last one is read to its end."""
        self._keep(lambda: left_behind(self._home))
        self._sent_until_us = last_end_us(self._home)
        while not ending:
            self._step()
            time.sleep(_TICK_S)
        self._end()

    def _windows(self) -> list[RunningWindow]:
        return [one for one in (*self._leaving, self._current, self._next) if one is not None]

    def _step(self) -> None:
        if wrong := self._clocks.wrong():
            for one in self._windows():
                one.broken(wrong)
        self._planned = set(announced(self._leases, self._home, now_us()))
        for one in self._windows():
            one.planned |= self._planned
        self._close_ended()
        self._hand_over()
        self._begin()
        self._tell()
        self._watch(self._windows(), self._planned)

    def _tell(self) -> None:
        """Tell whether a window sends: by it a deploy knows that the canary does its job."""
        state = "RUNNING" if any(map(sending, self._windows())) else "STARTING"
        if state != self._told:
            said = {"pid": os.getpid(), "state": state}
            if self._keep(lambda: write_json(self._home / "state.json", said)):
                self._told = state

    def _close_ended(self) -> None:
        for one in self._windows():
            # One that cannot be written down, on a full disk, is tried again with the next step.
            if one.process.poll() is None:
                continue
            if not one.sends():
                self._failure = one.forget()
                print(f"canary: {one.run_id} sent nothing: {self._failure}", file=sys.stderr, flush=True)
                self._forget(one)
            elif self._keep(one.close):
                self._forget(one)
                self._keep(lambda: prune(self._home, self._config))

    def _forget(self, one: RunningWindow) -> None:
        if one in self._leaving:
            self._leaving.remove(one)
            return
        self._again = time.monotonic() + _AGAIN_S
        if one is self._current:
            self._current, self._next = self._next, None
        else:
            self._next = None

    def _hand_over(self) -> None:
        current, following = self._current, self._next
        if current is not None and current.process.poll() is None and current.sends():
            self._note_sending(current)
            if following is None or not following.sends() or current.sent_s() < self._config.window_s:
                return
            current.enough()
            self._leaving.append(current)
            self._current, self._next = following, None
            self._note_sending(following, followed=True)

    def _note_sending(self, by: RunningWindow, *, followed: bool = False) -> None:
        """Note that a window sends now, and a hole where nothing was sent since something last was.

        One that sent when it was looked at before, or took over from it, has sent since, however late it is.
        """
        now, before = now_us(), self._sent_until_us
        known, self._sent_by = followed or by is self._sent_by, by
        if before is not None and not known and now - before > _HOLE_US:
            self._keep(lambda: note_hole(self._home, before, now, self._planned, self._failure))
        self._sent_until_us, self._failure = now, ""

    def _begin(self) -> None:
        if time.monotonic() < self._again or len(self._windows()) >= TURNS:
            return
        due = self._current is None or self._current.sent_s() >= self._config.window_s - self._lead_s
        busy = {one.turn for one in self._windows()}
        if not due or (self._next is not None) or self._turn in busy:
            return
        self._again = time.monotonic() + _AGAIN_S

        def begin() -> None:
            begun = RunningWindow(self._config, self._home, self._turn)
            self._turn = (self._turn + 1) % TURNS
            if self._current is None:
                self._current = begun
            else:
                self._next = begun

        self._keep(begin)

    def _end(self) -> None:
        """End in order: what was sent is read, so that the last window is whole, if a short one."""
        for one in self._windows():
            if one.sends():
                one.enough()
            else:
                end_all([one.process])
        deadline = time.monotonic() + _END_S
        while self._windows() and time.monotonic() < deadline:
            self._close_ended()
            time.sleep(_TICK_S)
        left = self._windows()
        end_all([one.process for one in left])
        for one in left:
            one.broken("the canary was told to end, and its load did not in time")
            self._keep(one.close)

    def _keep(self, what: Callable[[], object]) -> bool:
        """Do what writes; a disk that is full must not end the canary, whose figures say that it is."""
        try:
            what()
        except OSError as error:
            # A full disk is one complaint, whichever file it strikes.
            kind = error.strerror or str(error)
            if kind != self._complained:
                print(f"canary: {error}; see docs/canary.md", file=sys.stderr, flush=True)
            self._complained = kind
            return False
        return True
