"""Says what a rollback does, or why it does nothing. Pure: what the hosts found in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: How many instances a line names; of the others it says how many they are.
NAMED = 6


def refusal(found: Mapping[str, Mapping[str, Any]], unit: str, releases: Sequence[str]) -> str:
    """Return why no instance may go back, or nothing.

    ``found`` is host -> what kedge_previous_release answered; ``releases`` are those that were asked for.
    """
    wrong: dict[str, list[str]] = {}
    for host, instance in _instances(found):
        if instance["wrong"]:
            wrong.setdefault(instance["wrong"], []).append(f"{unit}@{instance['name']} of {host}")
    if wrong:
        return "; ".join(f"{_some(who)}: {why}" for why, who in wrong.items())
    there = {release for _, instance in _instances(found) for release in instance["kept"]}
    if lost := [release for release in releases if release not in there]:
        kept = [
            f"{unit}@{instance['name']} of {host} has {', '.join(instance['kept']) or 'none'}"
            for host, instance in _instances(found)
        ]
        return f"no instance has a release {', '.join(lost)}: {_some(kept, '; ')}"
    return ""


def steps(found: Mapping[str, Mapping[str, Any]], unit: str) -> list[str]:
    """Return what becomes of each instance, a line each."""
    return [_step(host, unit, instance) for host, instance in _instances(found)]


def _step(host: str, unit: str, instance: Mapping[str, Any]) -> str:
    who, now = f"{host} {unit}@{instance['name']}", instance["current"]
    if instance["release"] in ("", now):
        return f"{who}: keeps {now or 'nothing'}"
    others = [release for release in instance["kept"] if release not in (now, instance["release"])]
    more = f"; also kept: {', '.join(others)}" if others else ""
    return f"{who}: {instance['release']} in place of {now}{more}"


def _instances(found: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(host, instance) for host, answer in found.items() for instance in answer.get("instances", [])]


def _some(named: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return between.join(named[:NAMED]) + more
