"""The checks: pure functions from evidence and service levels to a result, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kedge.evidence.levels import Levels
from kedge.evidence.run import Run
from spark_checks.checks import latency, memory, outputs, partitions, settings, spread, throughput, zombies
from spark_checks.delivery import check as delivery
from spark_checks.engine.readers import Evidence
from spark_checks.mirror import check as mirror
from spark_checks.rebalance import check as rebalance
from spark_checks.results import Result
from spark_checks.traffic import check as traffic

Check = Callable[[Evidence, Levels], Result]

#: In the order of the report. Checks run at the same time: what two of them fold from one table goes through
#: ``evidence.shared`` (spark_checks.engine.facts).
CHECKS: Final[Mapping[str, Check]] = {
    "delivery": delivery.check,
    "throughput": throughput.check,
    "latency": latency.check,
    "rebalance": rebalance.check,
    "zombies": zombies.check,
    "spread": spread.check,
    "mirror": mirror.check,
    "settings": settings.check,
    "partitions": partitions.check,
    "memory": memory.check,
    "outputs": outputs.check,
    "traffic": traffic.check,
}

#: The tables that a check judges by. Delivery looks at them itself: of its two hops one may be known.
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "throughput": ("ledger", "actions"),
    "latency": ("ledger", "records", "deliveries"),
    "rebalance": ("actions", "ledger", "deliveries", "group_states", "assignments", "processes", "rocksdb"),
    "zombies": ("assignments", "deliveries", "ledger"),
    "spread": ("homes", "actions"),
    "mirror": ("records", "end_offsets", "batches"),
    "settings": ("settings",),
    "partitions": ("ledger", "deliveries"),
    "memory": ("rocksdb", "settings", "actions"),
    "outputs": ("records",),
    "traffic": traffic.TABLES,
}


def needs(name: str, run: Run) -> tuple[str, ...]:
    """Return the tables by which a check judges a run: where one of them is not whole, it is unknown."""
    applied = name == "rebalance" and run.audited_applications()
    return _NEEDS.get(name, ()) + (("records",) if applied else ())


def asked(run: Run, levels: Levels) -> Mapping[str, Check]:
    """Return the checks that a run calls for.

    What run.json names decides, never what evidence was found: a run without mirrors has no parity to show,
    one without Streams applications no memory and no outputs, and one without consumers through REST no
    zombies, unless a service level asks for them. Instances have to own their consumers again only
    where levels name ``spread``, with a value or with null. A run that only compares mirrors, or watches
    others' traffic, has no load to judge. A service level of null for ``settings.different`` says that
    settings are not asked for.
    """
    of_others = {"mirror": bool(run.mirrors), "traffic": run.watch is not None}
    there = dict.fromkeys(CHECKS, run.loaded) | of_others
    if run.loaded:
        there["memory"] = bool(run.applications)
        there["outputs"] = any(app.output for app in run.applications)
        there["zombies"] = any(group.via == "rest" for group in run.groups.values())
        there |= dict.fromkeys(levels.model_fields_set, True)
        there["spread"] = "spread" in levels.model_fields_set
        there["settings"] = levels.settings.different is not None
    return {name: check for name, check in CHECKS.items() if there[name]}
