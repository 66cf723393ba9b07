"""What a balancer runs with while the proxies behind it change: a health check that old and new ones pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from kedge.plan.settings import Setting
from kedge.services.balancer.security import FILE

_OBSERVED: Final = "REST proxy facts, Observed on running proxies"
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
