"""How a balancer sees that an instance is down: HAProxy's health checks, and connections that fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from kedge.plan.hosts import Inventory
from kedge.plan.plan import Part
from kedge.plan.settings import Choice, Setting, Sheet
from kedge.services.balancer.security import FILE
from kedge.services.rest.distribution import SERVICE as REST
from kedge.services.rest.distribution import Health
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.rest.variables import ready_topic

_OBSERVED: Final = "REST proxy facts, Observed on running proxies"
_MANUAL: Final = "HAProxy 2.6 configuration manual"
FALL: Final = 3  # HAProxy's own default
_ERRORS: Final = 10  # HAProxy's own default, so that a burst with lost connections takes none out


def put_health_checks(sheet: Sheet, inventory: Inventory, rest: Part) -> None:
    """Plan how often instances are asked, for what, and which failures put one out."""
    because = (
        f"asked each second; down after {FALL} failures in a row, so that one slow answer is not enough; up "
        "after one success, because a record with an offset proves all that is asked"
    )
    source = f"{_MANUAL}, fall and rise ({FALL} and 2 by default)"
    value = f"inter 1s fall {FALL} rise 1"
    sheet.put(FILE, "default-server check", "balancer.fixed", Choice(value, because, source, "estimate"))
    _asked(sheet, inventory, rest)
    _refused(sheet, max(len(of_host.get(REST, ())) for of_host in rest.services.values()))


def own_health(inventory: Inventory, host: str) -> Health | None:
    """Return where the instances of a host say themselves that they are ready."""
    return DISTRIBUTIONS[str(inventory.hosts[host][f"{REST}_distribution"])].health


def _asked(sheet: Sheet, inventory: Inventory, rest: Part) -> None:
    """Plan what an instance must do to be sent requests: a proxy without its brokers still answers a GET."""
    asked = {own_health(inventory, host) for host, of_host in rest.services.items() if REST in of_host}
    if len(asked) > 1:
        sheet.error(
            "balancer.health",
            "its instances are of distributions with different health checks",
            "give the hosts behind one balancer one kafka_rest_distribution",
        )
    own = next(iter(asked))
    if own is not None:
        sheet.put(
            FILE, "health get", "balancer.health", Choice(own.path, own.because, own.source, "measured")
        )
    topic = ready_topic(inventory.hosts[inventory.group(REST)[0]])
    because = "an instance is healthy when a record produced through it gets an offset, as readiness asks"
    if own is not None:
        because += "; asked so only while the proxies change"
    sheet.put(
        FILE, "health uri", "balancer.health", Choice(f"/topics/{topic}", because, _OBSERVED, "derived")
    )


def _refused(sheet: Sheet, most: int) -> None:
    """Plan what refused connections come to, where the ``most`` instances of one host refuse all at once.

    They have no request and so seem the free ones: until they are out, every request is sent there first.
    """
    because = (
        f"after {_ERRORS} failed connections in a row an instance is down, before a check has noticed; a "
        "check that gets an offset brings it up again"
    )
    source = f"{_MANUAL}, observe, error-limit, on-error"
    value = f"layer4 error-limit {_ERRORS} on-error mark-down"
    sheet.put(
        FILE, "default-server observe", "balancer.refused", Choice(value, because, source, "documented")
    )
    because = (
        f"a failed connection is tried again at another instance, because nothing was sent; {_ERRORS} times "
        f"each of the {most} instances that one host has, until all of them are down"
    )
    source = f"{_MANUAL}, retries and option redispatch"
    sheet.put(FILE, "retries", "balancer.refused", Choice(_ERRORS * most, because, source, "derived"))


#: Marks the settings of such a configuration; the template reads it.
KEY: Final = "changing"
_WHY: Final = (
    "the proxies behind this balancer change: each one is asked for an offset, which every distribution "
    "answers, until the last of them runs its new release; then the planned check follows"
)


def while_proxies_change(balancer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a planned balancer (its JSON form) as it runs from before the first proxy changes to the last.

    Only the health check differs: what the planned one asks, proxies of the former release may not know, and
    what the former one asked, new ones may not. A refused login counts as healthy, for either side may have
    none.
    """
    mark = asdict(Setting(FILE, KEY, "yes", "balancer.health", _WHY, _OBSERVED, "derived"))
    return {**balancer, "settings": [*balancer["settings"], mark]}
