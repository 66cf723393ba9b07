"""What planned services take of a host that somebody else may have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.services.registry import SERVICES


def occupying(plan: Mapping[str, Any], host: str) -> list[dict[str, Any]]:
    """Return what the planned services of a host take of it: units, users, folders, ports, kinds of process.

    What a vendor's own tool runs is not looked at: it would be there before the first deploy.
    """
    found = []
    of_host = plan["hosts"].get(host, {}).get("services", {})
    for service in SERVICES:
        instances = of_host.get(service.name, {}).get("instances", ())
        # What nothing waits for, such as a Java or the kernel's settings, is no unit.
        if not instances or not service.waits:
            continue
        software: Mapping[str, Any] = next((i["software"] for i in instances if "software" in i), {})
        controlled = {i["name"] for i in instances if "control" in i.get("software", {})}
        found.append(
            {
                "unit": service.unit,
                "user": software.get("user", service.unit) if software.get("own_user", True) else "",
                "mains": [] if controlled else sorted(service.mains),
                "instances": [
                    {"name": i["name"], "port": None if i["name"] in controlled else i.get("port")}
                    | ({"adopt": i["software"]["adopt"]} if "adopt" in i.get("software", {}) else {})
                    for i in instances
                ],
            }
            | ({"adopts": adopts} if (adopts := service.adopts(plan, host)) else {})
        )
    return found
