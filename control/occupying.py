"""What planned services take of a host, which somebody else may have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sizing.rest.distributions import DISTRIBUTIONS
from sizing.review.kinds import MIRROR_MAINS, SIGNS

#: Services whose instances have no port of their own.
_UNITS: Final = ("mirror_maker", "streams_app")
#: The main classes of the processes of a service, whoever starts them.
_MAINS: Final = {
    "kafka_rest": sorted({signs.main for name, signs in SIGNS.items() if not DISTRIBUTIONS[name].fleet_only}),
    "mirror_maker": list(MIRROR_MAINS.values()),
}


def occupying(plan: Mapping[str, Any], host: str) -> list[dict[str, Any]]:
    """Return what the planned services of a host take of it: units, users, folders, ports, kinds of process.

    What a vendor's own tool runs is not looked at: it would be there before the first deploy.
    """
    found = []
    for service, of_service in plan["hosts"].get(host, {}).get("services", {}).items():
        instances = of_service["instances"]
        if not any(instance.get("port") or service in _UNITS for instance in instances):
            continue
        software: Mapping[str, Any] = next((i["software"] for i in instances if "software" in i), {})
        controlled = {i["name"] for i in instances if "control" in i.get("software", {})}
        unit = service.replace("_", "-")
        found.append(
            {
                "unit": unit,
                "user": software.get("user", unit) if software.get("own_user", True) else "",
                "mains": [] if controlled else _MAINS.get(service, []),
                "instances": [
                    {"name": i["name"], "port": None if i["name"] in controlled else i.get("port")}
                    | ({"adopt": i["software"]["adopt"]} if "adopt" in i.get("software", {}) else {})
                    for i in instances
                ],
            }
        )
    return found
