"""Classes of work on a fleet: load tests by compare.yml, and loops of lab.bench.rest."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from kedge.plan.inventory.reading import read_inventory
from kedge.services.registry import SERVICES
from lab.bench.rest.__main__ import restart
from lab.bench.rest.cases import Produce
from lab.bench.rest.drive import ProxyRefusedError, produce, read
from lab.bench.rest.fleet import ROOT, FleetError, Proxies, deployed, play
from lab.bench.turns import Measured, TurnError, steady
from lab.bench.worth.classes import CLASSES, CONNECTIONS, Work, planned_for, variables

_CONNECTIONS: Final = Produce(10, clients=CONNECTIONS)
_BACKLOG: Final = Produce(1000)
#: How a proxy is ended, by class.
_SIGNALS: Final = {"term": "TERM", "kill": "KILL"}


def compared(name: str, work: Work, options: argparse.Namespace) -> dict[str, Any]:
    """Run compare.yml with the load of a class; return what its comparison.json has.

    Raises:
        FleetError: when a playbook fails.
        ValueError: when the inventory has no load through proxies.
    """
    given = variables(work, read_inventory(options.inventory, SERVICES))
    runs = ROOT / "runs" / "worth" / name
    more = {
        "arms": list(options.variants),
        "trials_blocks": options.blocks,
        "trials_restarts": work.restarts,
        "trials_full_s": options.seconds,
        "trials_fresh_s": options.warm_up,
        "kedge_runs_dir": str(runs),
    }
    # compare.yml begins where the hosts run what is planned, and the class is part of the plan.
    play(options.inventory, given)
    play(options.inventory, {**given, **more}, playbook="compare.yml")
    found = json.loads((runs / "latest" / "report" / "comparison.json").read_text(encoding="utf-8"))
    return {key: found[key] for key in ("arms", "blocks", "against", "collapsed", "figures")}


class Loops:
    """Turns of variants at a loop of lab.bench.rest, each with fresh processes that were warmed up by it."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self._name, self._options = name, options
        self._workload = planned_for(CLASSES[name], read_inventory(options.inventory, SERVICES))
        self._running = ""

    def turn(self, variant: str) -> Measured:
        """Deploy a variant and measure; raises TurnError."""
        try:
            fleet = self._deployed(variant)
            if signal := _SIGNALS.get(self._name):
                silent = restart(self._options, fleet, signal)
                return {"rebalance": {"consume_stall_s": silent["worst_partition_s"]}}
            return _LOOPS[self._name](fleet.urls, self._options)
        except (FleetError, ProxyRefusedError) as error:
            self._running = ""
            raise TurnError(str(error)) from error

    def _deployed(self, variant: str) -> Proxies:
        extra = {**self._workload, **({} if variant == "planned" else {"advice": variant})}
        fleet = deployed(self._options.inventory, extra)
        if variant == self._running:
            # A deploy that changes nothing leaves processes that are warm already.
            play(
                self._options.inventory,
                {**extra, "service": "kafka_rest"},
                playbook="rolling_restart.yml",
            )
        self._running = variant
        return fleet


def _produced(urls: tuple[str, ...], options: argparse.Namespace) -> Measured:
    def once(seconds: float) -> dict[str, float]:
        begins = options.warm_up / 4
        return produce(urls, options.topic, _CONNECTIONS, options.record_bytes, seconds, uncounted_s=begins)

    steady(lambda: once(options.warm_up / 4)["records_per_s"])
    found = once(options.seconds)
    return {
        "throughput": {"rest": {"mean_records_per_s": found["records_per_s"]}},
        "latency": {"rest": {"ack_p50_ms": found["p50_ms"], "ack_p99_ms": found["p99_ms"]}},
    }


def _read(urls: tuple[str, ...], options: argparse.Namespace) -> Measured:
    # More than one answer holds, for those who read.
    produce(urls, options.topic, _BACKLOG, options.record_bytes, options.seconds)

    def once(seconds: float) -> float:
        return read(urls[0], options.topic, seconds) * 1e6 / options.record_bytes

    steady(lambda: once(options.warm_up / 2))
    return {"throughput": {"reading": {"mean_records_per_s": once(options.seconds)}}}


_LOOPS: Final[Mapping[str, Callable[[tuple[str, ...], argparse.Namespace], Measured]]] = {
    "connections": _produced,
    "backlog": _read,
}
