"""What must not change while a flow runs, and what must not run beside a worker that starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kedge.plan.running import Notice, Running, values
from kedge.services.mirror.flow import flow_of

#: What no order of steps brings to instances that run -> what to do in its place.
INSTEAD: Final[Mapping[str, str]] = {
    # A worker without transactions reads the offsets of aborted ones, and would skip their records.
    "mirror_exactly_once": "stop the flow's workers on all hosts (systemctl stop "
    "'mirror-maker@FLOW-[0-9]*'), then run the playbook again",
    # Both kinds would copy the same records.
    "mirror_kind": "stop the mirrors on all hosts (systemctl stop mirror-maker.target), then run the "
    "playbook again",
    "mirror_unknown": "have that host answer, or remove it (remove_host.yml -e gone=HOST), then run the "
    "playbook again",
}
#: By which the workers of a flow of MirrorMaker 2 all send in transactions, or none.
EXACTLY_ONCE: Final = ".exactly.once.source.support"


def notices(one: Running) -> Iterator[tuple[str, str]]:
    """Yield what must not change while workers of a flow run: its name, and it in words."""
    if not one.state["active"]:
        return
    files = [values(each, "mm2.properties") for each in (one.was, one.now)]
    was, is_ = (
        next((value for key, value in file.items() if key.endswith(EXACTLY_ONCE)), "disabled")
        for file in files
    )
    # Workers that are preparing may run beside both: Kafka's own way from one to the other.
    if all(files) and {was, is_} == {"disabled", "enabled"}:
        turned = "on" if is_ == "enabled" else "off"
        yield "mirror_exactly_once", f"turns exactly_once {turned} (mirror_maker_flows) while its flow runs"


def others_of_flows(
    names: Iterable[str], starting: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """Return those of a host's processes that are of flows that start: each as a worker that would start."""
    planned = {flow_of(one["name"]): one for one in starting}
    for name in names:
        flow = flow_of(name)
        if flow in planned and re.fullmatch(r"[0-9]+", name.removeprefix(f"{flow}-")):
            one = planned[flow]
            settings = [s | {"file": s["file"].replace(one["name"], name)} for s in one["settings"]]
            yield {**one, "name": name, "settings": settings}


def notices_beside(
    host: str,
    answer: Mapping[str, Any],
    noticed: Iterable[Notice],
    starting: Sequence[Mapping[str, Any]],
) -> list[Notice]:
    """Return which workers of MirrorMaker 2 must not start beside what a host runs that a limit leaves out.

    ``answer`` is that host's of kedge_release in check mode, for its instances as the workers ``starting``
    elsewhere, and ``noticed`` is what is noticed of these: whatever runs of a flow counts for each of its
    workers.
    """
    kind = "starts mirror_maker_2 (mirror_maker_kind) while classic mirrors its flow"
    classic = [
        Notice(str(state["name"]), "mirror_kind", kind)
        for state in answer["instances"]
        if state["active"] and "mm2.properties" not in state["in_force"]
    ]
    where = f"on {host}, which --limit leaves out"
    beside = (
        Notice(str(worker["name"]), one.name, f"{one.said} {where}")
        for worker in starting
        for one in (*noticed, *classic)
        if flow_of(one.instance) == flow_of(worker["name"])
    )
    return list(dict.fromkeys(beside))


def notices_unknown(host: str, why: str, compared: Mapping[str, Mapping[str, Any]]) -> list[Notice]:
    """Return which workers must not start where a host that ``--limit`` leaves out does not say what it runs.

    ``compared`` are the workers as ``kedge.deploy.drift`` describes them. One that starts as it ran before
    may.
    """
    where = f"{host}, which --limit leaves out,"
    otherwise = "as classic or with another exactly_once"
    said = f"starts while it is not known whether {where} runs its flow {otherwise}: {why}"
    return [
        Notice(name, "mirror_unknown", said)
        for name, one in compared.items()
        if one["state"] in ("new", "adopt") or (one["state"] == "off" and _starts_otherwise(one))
    ]


def _starts_otherwise(compared: Mapping[str, Any]) -> bool:
    """Return whether a worker that does not run was classic, or had another exactly_once."""
    turned = any(key.endswith(EXACTLY_ONCE) for key in compared["keys"])
    return turned or "mm2.properties" in compared["added"]
