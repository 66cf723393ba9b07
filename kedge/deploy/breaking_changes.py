"""What clients notice of a deploy in whatever order. Pure: what a host runs and is to run in, notices out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kedge.deploy.release_rows import of_release, own_texts
from kedge.evidence.printable import plain
from kedge.plan.running import Notice, Running, by_file
from kedge.services.registry import SERVICES

#: What may be allowed by name -> what clients have to do first.
FIRST: Final[Mapping[str, str]] = {name: first for one in SERVICES for name, first in one.allowed.items()}
#: What no order of steps brings to instances that run -> what to do in its place.
_INSTEAD: Final[Mapping[str, str]] = {name: other for one in SERVICES for name, other in one.instead.items()}
_NOTICES: Final = {one.unit: one.notices for one in SERVICES}


def notices(
    answer: Mapping[str, Any], unit: str, instances: Sequence[Mapping[str, Any]], *, balanced: bool = False
) -> list[Notice]:
    """Return what clients notice once the instances run what is planned.

    ``answer`` is that of kedge_release in check mode, ``balanced`` says that balancers stand before them.
    One that does not run yet has no clients.
    """
    found: list[Notice] = []
    for instance, state in zip(instances, answer["instances"], strict=True):
        if state["current"] is None:
            continue
        was, now = map(by_file, of_release(state, unit, instance, own_texts(answer, unit, instance)))
        # Words of the host's own files are among them.
        found += [
            Notice(str(instance["name"]), name, plain(said))
            for name, said in _NOTICES[unit](Running(was, now, state, instance, balanced))
        ]
    return found


def refusal(found: Mapping[str, Iterable[Notice]], allowed: Iterable[str]) -> str:
    """Return why a deploy must not begin, or nothing: what nobody allowed by name.

    ``found`` has the notices of each place, such as ``rest1 kafka_rest``.
    """
    wanted = {name.strip() for name in allowed} - {""}
    if unknown := sorted(wanted - FIRST.keys()):
        return f"allow={','.join(unknown)}: write one or more of {', '.join(FIRST)}"
    where: dict[tuple[str, str], list[str]] = {}
    for place, of_place in found.items():
        for notice in of_place:
            if notice.name not in wanted:
                where.setdefault((notice.name, notice.said), []).append(f"{place}@{notice.instance}")
    if not where:
        return ""
    said = "; ".join(f"{', '.join(places)} {what}" for (_, what), places in where.items())
    names = list(dict.fromkeys(name for name, _ in where))
    first = "; ".join({**FIRST, **_INSTEAD}[name] for name in names)
    first = f"{first[0].upper()}{first[1:]}"
    if _INSTEAD.keys() & set(names):
        return f"No order of steps does this without harm: {said}. {first}"
    byname = ",".join(sorted({*wanted, *names}))
    return f"Clients would notice: {said}. {first}, then run the playbook again with -e allow={byname}"
