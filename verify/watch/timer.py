"""The timer of a watcher: when it samples, how it ends, and how often it complains."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Final

#: How long a broker may take over an answer.
ANSWER_S: Final = 5.0
_COMPLAIN_EVERY_S: Final = 10.0


class Watcher:
    """What samples by a timer of its own."""

    _timer: SampleTimer

    @property
    def failure(self) -> BaseException | None:
        """What ended the sampling before its time."""
        return self._timer.failure

    def start(self) -> None:
        """Begin sampling."""
        self._timer.start()


class SampleTimer:
    """Calls ``sample`` every ``interval_s`` from a thread of its own until stopped.

    ``last`` has it called once more at the end. ``failure`` is what ended the thread before its time.
    """

    def __init__(
        self, name: str, interval_s: float, sample: Callable[[], None], *, last: bool = False
    ) -> None:
        self._interval_s, self._sample, self._last = interval_s, sample, last
        self._complained = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End, waiting so long at most for the sample that is under way."""
        self._stop.set()
        self._thread.join(timeout_s)

    def complain(self, said: str) -> None:
        """Print a line, unless one was printed in the last seconds."""
        if time.monotonic() - self._complained >= _COMPLAIN_EVERY_S:
            self._complained = time.monotonic()
            print(said, file=sys.stderr, flush=True)

    def _run(self) -> None:
        try:
            tick = time.monotonic()
            while not self._stop.is_set():
                self._sample()
                # A late sample skips ticks, it does not shift them.
                tick += self._interval_s * (1 + int((time.monotonic() - tick) / self._interval_s))
                self._stop.wait(max(0.0, tick - time.monotonic()))
            if self._last:
                self._sample()
        except BaseException as error:
            self.failure = error
