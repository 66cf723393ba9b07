"""Where the time of a restart went, step by step, and what of it was Ansible's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spark_checks.rebalance.restarts import Restart

#: Actions of which a restart is made, in their order; a gate stands before and after.
STEPS: Final = ("gate", "drain", "stop", "start", "ready", "undrain", "hold")
_ENDS: Final = ("ready", "undrain")
Key = tuple[str, str, str]


@dataclass
class _Episode:
    """All that was done to one instance for one restart; microseconds."""

    key: Key
    actions: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def begin_us(self) -> int:
        return min(int(action["started_us"]) for action in self.actions)

    @property
    def end_us(self) -> int:
        return max(int(action["ended_us"]) for action in self.actions)

    def goes_on(self, action: Mapping[str, Any]) -> bool:
        """Return whether an action belongs to this restart, not to the instance's next one."""
        names = [one["action"] for one in self.actions]
        ready = "ready" in names
        if action["action"] == "gate":
            return not ready or "gate" not in names[names.index("ready") :]
        return not ready or action["action"] in (*_ENDS, "hold")


def steps(actions: Iterable[Mapping[str, Any]], restarts: Sequence[Restart]) -> dict[int, dict[str, float]]:
    """Return the seconds of each step of a restart, by the restart's number.

    ``ready`` is the time from the start's end until the instance did its job. ``control`` is the time in
    which nothing was done to any instance, from the end of the restart before: Ansible's own round trips. Of
    instances that restart together each has its share of it. A step that took no time on record is left out.
    """
    episodes = _episodes(actions)
    found: dict[int, dict[str, float]] = {}
    own_control = _control(episodes)
    for restart in restarts:
        key = (restart.host, restart.service, restart.instance)
        for episode, control in zip(episodes, own_control, strict=True):
            if episode.key == key and episode.begin_us <= restart.begin_us <= episode.end_us:
                found[restart.number] = {**_seconds(episode), "control": control}
    return found


def _episodes(actions: Iterable[Mapping[str, Any]]) -> list[_Episode]:
    current: dict[Key, _Episode] = {}
    found: list[_Episode] = []
    for action in sorted(actions, key=lambda row: (row["started_us"], row["ended_us"])):
        key = (action["host"], action["service"], action["instance"])
        if key not in current or not current[key].goes_on(action):
            current[key] = _Episode(key)
            found.append(current[key])
        current[key].actions.append(action)
    return sorted(found, key=lambda episode: episode.begin_us)


def _seconds(episode: _Episode) -> dict[str, float]:
    spent = dict.fromkeys(STEPS, 0)
    started = 0
    for action in episode.actions:
        begin = int(action["started_us"])
        match action["action"]:
            case "start":
                started = int(action["ended_us"])
            case "ready":
                begin = max(begin, started)
        if action["action"] in spent:
            spent[action["action"]] += int(action["ended_us"]) - begin
    return {name: us / 1e6 for name, us in spent.items() if us}


def _control(episodes: Sequence[_Episode]) -> list[float]:
    """Return the seconds of each episode in which nothing was on record; those that overlap share theirs."""
    found: list[float] = []
    overlapping: list[_Episode] = []
    since = until = episodes[0].begin_us if episodes else 0

    def close() -> None:
        idle = until - since - _covered([a for episode in overlapping for a in episode.actions])
        found.extend([idle / 1e6 / len(overlapping)] * len(overlapping))

    for episode in episodes:
        if overlapping and episode.begin_us >= until:
            close()
            overlapping, since = [], until
        overlapping.append(episode)
        until = max(until, episode.end_us)
    if overlapping:
        close()
    return found


def _covered(actions: Iterable[Mapping[str, Any]]) -> int:
    covered = reached = 0
    for action in sorted(actions, key=lambda row: int(row["started_us"])):
        begin, end = int(action["started_us"]), int(action["ended_us"])
        covered += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return covered
