"""What was deployed and is no longer planned, by the records of hosts. Pure: records in, findings out.

A record is the word of the host that keeps it. Of a host that is planned, or of the address of one, it counts
only for that host itself: else whoever has one host could have another one's services removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kedge.plan.compact_names import fold

Hosts = Mapping[str, Mapping[str, Any]]


def left_behind(record: Hosts, planned: Hosts) -> list[dict[str, Any]]:
    """Return what the record has and the plan has not; a host under another name at its address has it."""
    served = {service for has in planned.values() for service in has["services"]}
    at: dict[str, set[str]] = {}
    for has in planned.values():
        at.setdefault(has["address"], set()).update(has["services"])
    found = []
    for host, had in sorted(record.items()):
        now = {*planned.get(host, {}).get("services", ()), *at.get(had["address"], ())}
        for stops in (True, False):
            gone = [s for s in had["services"] if s not in now and (s in served) is stops]
            if gone:
                one = {"host": host, "address": had["address"], "services": gone, "stops": stops}
                found.append(one | {"known": host in planned})
    return found


def reported(by: str, record: Hosts, planned: Hosts) -> list[dict[str, Any]]:
    """Return what a host's record says was left behind, without what it may not say of others."""
    addresses = {has["address"] for has in planned.values()}
    own = planned.get(by, {}).get("address")
    found = []
    for one in left_behind(record, planned):
        if one["known"]:
            counts = one["host"] == by
            one["address"] = own
        else:
            counts = one["address"] not in addresses or one["address"] == own
        found += [one | {"by": by}] if counts else []
    return found


def next_record(record: Hosts, planned: Hosts, forget: str = "") -> dict[str, Any]:
    """Return the record of what is planned, with what may be another inventory's."""
    addresses = {has["address"] for has in planned.values()}
    new = {host: dict(has) for host, has in planned.items()}
    for one in left_behind(record, planned):
        if one["host"] != forget and not (one["host"] not in planned and one["address"] in addresses):
            entry = new.setdefault(one["host"], {"address": one["address"], "services": []})
            entry["services"] = [*entry["services"], *one["services"]]
    return new


def left_together(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what several hosts report, once for each host that was left behind and what it means.

    ``addresses`` has who says that the host was reached there; ``said`` is what a person reads.
    """
    together: dict[tuple[str, bool], list[Mapping[str, Any]]] = {}
    for one in found:
        together.setdefault((one["host"], one["stops"]), []).append(one)
    return [_together(host, stops, of_host) for (host, stops), of_host in together.items()]


def _together(host: str, stops: bool, found: list[Mapping[str, Any]]) -> dict[str, Any]:
    addresses: dict[str, list[str]] = {}
    for one in found:
        addresses.setdefault(one["address"], []).append(one["by"])
    left = {
        "host": host,
        "addresses": addresses,
        "services": list(dict.fromkeys(service for one in found for service in one["services"])),
        "stops": stops,
        "known": found[0]["known"],
    }
    return left | {"said": said(left)}


def said(left: Mapping[str, Any]) -> str:
    """Return what a person reads of a host that was left behind, whose word it is, and what to do."""
    host, services, addresses = left["host"], ", ".join(left["services"]), left["addresses"]
    where = ", ".join(addresses if len(addresses) == 1 else disagreed(addresses))
    there = f"{host} ({where}) had {services} deployed and "
    there += (
        f"is no longer in the group{'s' * (len(left['services']) > 1)}"
        if left["known"]
        else "left the inventory"
    )
    if not left["stops"]:
        return f"{there}, and no other host has that now: if it is not another inventory's, it may still run"
    by = fold(host for hosts in addresses.values() for host in hosts)
    return (
        f"{there}: its processes may still run, with the names and ids that other hosts get. Stop and clear "
        f"them: ansible-playbook -i INV remove_host.yml -e host={host} (-e gone={host} where the machine "
        f"does not exist any more), or put the host back. So says the record of {by}"
    )


def disagreed(addresses: Mapping[str, Iterable[str]]) -> list[str]:
    """Return which hosts name which address."""
    return [f"{address} by the record of {fold(hosts)}" for address, hosts in addresses.items()]
