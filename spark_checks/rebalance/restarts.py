"""Restarts read from the actions: what was done to which instance, and from when to when."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Final

from kedge.evidence.run import Run

#: Effects may outlast a restart (a group's session timeout): they are looked for this long after it, or
#: until the next one begins.
EFFECTS_AFTER_RESTART_US: Final = 10_000_000
_MOST: Final = 10_000  # actions read; one row each, they do not grow with the records


@dataclass(frozen=True)
class Restart:
    """One instance's stop (or kill) until it was ready again; microseconds.

    ``begin_us`` is the drain's begin where one went before; ``end_us`` is None when it never became ready;
    ``until_us`` is where its effects are no longer looked for.
    """

    number: int
    host: str
    service: str
    instance: str
    begin_us: int
    end_us: int | None
    until_us: int

    @property
    def name(self) -> str:
        """Host and instance, the former only where the latter does not say it."""
        return self.instance if self.host in self.instance else f"{self.host} {self.instance}"


def read_restarts(actions: list[dict[str, Any]] | None, run: Run) -> list[Restart]:
    """Return the restarts in order of their begin; none when there is no such evidence."""
    rows = sorted(actions or [], key=lambda row: (row["started_us"], row["ended_us"]))
    return find_restarts(rows[:_MOST], run.measured_until_us)


def find_restarts(actions: list[dict[str, Any]], until_us: int) -> list[Restart]:
    """Pair each stop or kill with the next successful ready of the same instance."""
    open_since: dict[tuple[str, str, str], int] = {}
    drained: dict[tuple[str, str, str], int] = {}
    spans: list[tuple[int, int | None, tuple[str, str, str]]] = []
    for action in actions:
        key = (action["host"], action["service"], action["instance"])
        match action["action"]:
            case "drain":
                drained[key] = action["started_us"]
            case "stop" | "kill" if key not in open_since:
                open_since[key] = drained.pop(key, action["started_us"])
            case "ready" if key in open_since and action["ok"]:
                spans.append((open_since.pop(key), action["ended_us"], key))
            case "undrain":
                drained.pop(key, None)
    spans += [(begin, None, key) for key, begin in open_since.items()]
    spans.sort(key=lambda span: span[0])
    begins = [begin for begin, _, _ in spans]
    restarts = []
    for number, (begin, end, key) in enumerate(spans):
        following = bisect_right(begins, begin)
        later = begins[following : following + 1]
        bounds = [(end if end is not None else until_us) + EFFECTS_AFTER_RESTART_US, until_us, *later]
        restarts.append(Restart(number + 1, *key, begin, end, max(min(bounds), begin)))
    return restarts
