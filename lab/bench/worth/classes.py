"""The classes of work that are compared, and by what each is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kedge.plan.hosts import Inventory

#: Consumers of one topic, of which those beyond its partitions have nothing to read. The documented plan of a
#: node of the local fleet, which has 4 GiB, holds no more.
_IDLE: Final = 80
#: Clients of ``connections``, each on one of its own.
CONNECTIONS: Final = 200


@dataclass(frozen=True)
class Work:
    """A class of work.

    Attributes:
        title: what it is, as the page says it.
        by: ``compare`` for compare.yml, ``proxies`` for loops of lab.bench.rest on the same fleet; ``mirror``
        and
            ``streams`` for those benches, which start what they need on this machine.
        load: what it changes in the workload that is planned for and, by compare.yml, in ``verify.rest``. A
            loop makes its load itself.
        share: of the rate of ``verify.rest``.
        restarts: whether an instance restarts, behind its gates, in each load test.
    """

    title: str
    by: Literal["compare", "proxies", "mirror", "streams"]
    load: Mapping[str, int] = field(default_factory=dict)
    share: float = 1.0
    restarts: bool = False


CLASSES: Final = {
    # A request of one record costs nearly what one of a hundred does.
    "requests-1": Work("requests of 1 record", "compare", {"records_per_request": 1}, share=0.1),
    "requests-100": Work("requests of 100 records", "compare", {"records_per_request": 100}),
    "requests-1000": Work("requests of 1,000 records", "compare", {"records_per_request": 1000}, share=2.0),
    "connections": Work(f"{CONNECTIONS} connections that produce", "proxies", {"connections": CONNECTIONS}),
    "backlog": Work("a reader of a backlog", "proxies"),
    "idle-consumers": Work(f"{_IDLE} consumers, most of them idle", "compare", {"consumers": _IDLE}),
    "restart": Work("a restart under load, drained", "compare", restarts=True),
    "term": Work("a proxy that is sent TERM under a group", "proxies"),
    "kill": Work("a proxy that is sent KILL under a group", "proxies"),
    "mirror": Work("a mirror over 60 ms", "mirror"),
    "streams": Work("a Streams application beyond its memory", "streams"),
}
#: What each is measured on; a mirror and an application are no proxies.
FLEET: Final = ("compare", "proxies")


def variables(work: Work, inventory: Inventory) -> dict[str, Any]:
    """Return what makes the load of a class of that of an inventory, and tells its plan of it.

    Raises:
        ValueError: when the inventory has no load through proxies, in one line.
    """
    verify = inventory.common("verify") or {}
    rest = verify.get("rest")
    if not rest:
        raise ValueError("verify.rest is missing in the inventory: it says what goes through its proxies")
    load = {**rest, **work.load, "records_per_s": rest["records_per_s"] * work.share}
    return {"verify": {**verify, "service": "kafka_rest", "rest": load}, **planned_for(work, inventory)}


def planned_for(work: Work, inventory: Inventory) -> dict[str, Any]:
    """Return the variable with the workload of a class; empty where it is that of the inventory.

    A plan for another load would be compared at what it was not made for.
    """
    if not work.load:
        return {}
    hosts = inventory.group("kafka_rest")
    given = (inventory.hosts[hosts[0]].get("kafka_rest_workload") if hosts else None) or {}
    given = {**given, **work.load}
    if consumers := work.load.get("consumers"):
        given |= {"largest_group": consumers, "readers": given.get("partitions", consumers)}
    return {"kafka_rest_workload": given}
