"""Instances that a deploy would start on another host than the one that has them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from kedge.plan.document import planned_instances


def new_on(
    plan: Mapping[str, Any], service: str, has: Mapping[str, Iterable[Mapping[str, Any]]]
) -> dict[str, str]:
    """Return the planned instances that their host does not have yet, name to host.

    ``has`` are the files of hosts by which instances are known, as the module find returns them.
    """
    found = {host: {PurePosixPath(file["path"]).name for file in files} for host, files in has.items()}
    return {
        str(instance["name"]): host
        for host, names in found.items()
        for instance in planned_instances(plan, host, service)
        if instance["name"] not in names
    }


def moved_off(left_out: Iterable[Mapping[str, Any]], new: Mapping[str, str], limit: str) -> str:
    """Return why instances must not start where they are new, or nothing.

    ``left_out`` are results of the module find, of an ``item`` each: a host that ``--limit`` leaves out.
    """
    said: list[str] = []
    missing: list[str] = []
    for result in left_out:
        host = str(result["item"])
        names = {PurePosixPath(file["path"]).name for file in result.get("files", [])}
        moving = [name for name in new if name in names]
        if result.get("unreachable"):
            said.append(f"{host} does not answer, so that nobody knows whether it runs {', '.join(new)}")
        elif moving:
            said.append(f"{', '.join(f'{name} moves to {new[name]}' for name in moving)} and is on {host}")
        if moving or result.get("unreachable"):
            missing.append(host)
    if not said:
        return ""
    more = ",".join([limit, *missing])
    return (
        f"Refusing to deploy: {'; '.join(said)}, which --limit leaves out. Two with one group.instance.id "
        f"fence each other. Run the playbook again with --limit {more}"
    )
