"""What a load through the REST proxies is: where it goes, in whose dialect, and what is asked of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kedge.evidence.levels import Levels
from kedge.plan.document import planned_instances
from kedge.plan.hosts import in_url
from kedge.plan.service import LoadTest, instances_of_each
from kedge.services.rest.distribution import SERVICE


def rest_load(plan: Mapping[str, Any], load: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``rest`` of load.json with what the planned proxies add to it.

    Raises:
        ValueError: where proxies of several dialects are planned.
    """
    rest = dict(load["rest"] or {})
    if not rest:
        return {}
    if "proxies" not in rest and (found := proxies(plan)):
        rest["proxies"] = found
    if dialect := rest.get("dialect") or _dialect(plan):
        rest["dialect"] = dialect
    return {"rest": rest}


def proxies(plan: Mapping[str, Any]) -> list[str]:
    """Return the URLs by which the planned proxies tell consumers to come back, without paths."""
    found = set()
    for instance in _instances(plan):
        settings = {s["key"]: str(s["value"]) for s in instance["settings"]}
        found |= set(re.findall(r"https?://[^\s,/?#@]+", settings.get("advertised.listeners", "")))
        if name := settings.get("host.name"):
            scheme = "https" if instance["software"]["tls"] else "http"
            found.add(f"{scheme}://{in_url(name)}:{instance['port']}")
    return sorted(found)


def _dialect(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is otherwise in the planned proxies' dialect than in kafka-rest's; empty for nothing."""
    found: list[Mapping[str, Any]] = []
    for instance in _instances(plan):
        if (dialect := instance["software"].get("dialect", {})) not in found:
            found.append(dialect)
    if len(found) > 1:
        message = (
            "verify.rest: proxies of several dialects are planned. No load was started. Set "
            "verify.rest.dialect to one of them, then run the playbook again"
        )
        raise ValueError(message)
    return found[0] if found else {}


def _instances(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for host in plan["hosts"]:
        yield from planned_instances(plan, host, SERVICE)


def _measured(
    load: Mapping[str, Any], _: str, rows: Sequence[Mapping[str, Any]], hosts: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    row = next(iter(rows), {})
    return {
        "version": row.get("version", ""),
        "distribution": row.get("distribution", ""),
        "instances_per_host": instances_of_each(hosts),
        "records_per_request": load["rest"].get("records_per_request", 1),
    }


def _bounded(levels: Levels) -> bool:
    return any(value is not None for _, value in levels.latency.rest)


LOAD_TEST: Final = LoadTest(
    ways=("rest",),
    level="latency.rest.ack_p99_ms",
    bounded=_bounded,
    figure="ack_p99_ms",
    axis="ack p99, ms",
    measured=_measured,
)
