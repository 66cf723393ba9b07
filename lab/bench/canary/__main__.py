"""``python -m lab.bench.canary``: the alerts that planned changes and faults of a fleet with a canary raise.

    python -m lab.bench.canary proxies --restarts 2 --deploys 5
    python -m lab.bench.canary mirrors

A restart takes three minutes, a deploy four, a fault up to ten. Runs the fleet of the demo, of proxies or of
mirrors, with a canary, and takes it down at the end. A real Prometheus has the rules that
``kedge canary rules`` writes, and is asked each second which alerts fire. A canary takes failed records for
those of a change until two minutes after it: so a row begins after two minutes without a change or an alert,
and has the alerts that come until it is as quiet again. Prints a table, and writes FLEET.json after each row.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from kedge.evidence.writing import write_json
from kedge.setup.paths import GENERATED, PROJECT
from kedge.setup.problem import Problem
from lab.bench.rest.fleet import FleetError, play
from lab.demo.canary import asked_of, tear
from lab.demo.inventory import CANARY, with_canary
from lab.fleet.inventory import Fleet, choose, read_fleet
from lab.fleet.nodes import Shell, shell
from lab.services.prometheus import Prometheus

_FOLDER: Final = PROJECT / "runs" / "bench-canary"
#: As deep below the project as inventories/local (lab/demo/inventory.py).
_INVENTORY: Final = GENERATED / "bench-canary"
#: A canary takes what fails within two minutes after a change for planned (verify/canary/rules.py).
_QUIET_S: Final = 130.0
_LONGEST_S: Final = 900.0
#: Prometheus answers within milliseconds.
_SILENT_S: Final = 15.0
#: How long a fault lasts, and so the time by which its alert is due.
_FAULT_S: Final = 60.0
#: The audit's verdict came up to 219 s after a fault (lab/measurements/canary.md).
_AUDITED_S: Final = 300.0
_POLL_S: Final = 1.0
_PROXY: Final = "kafka-rest@8082"
_BROKER: Final = "kafka-broker@leaf"
_OWN: Final = "canary@leaf"
_SHOW: Final = "runuser -u canary -- /opt/kedge/canary show --home /var/lib/canary/leaf --last 100 || true"


class Action(NamedTuple):
    """What is done, how, whether it is planned, and the alert that has to come of it, if not just any."""

    what: str
    do: Callable[[], None]
    planned: bool = False
    alert: str = ""


class Fault(NamedTuple):
    """A fault: its nodes, what begins it there, what ends it a minute later, an alert that has to come."""

    nodes: tuple[str, ...]
    begin: str
    end: str
    alert: str = ""


class Bench(NamedTuple):
    """What is measured: an inventory, the service that restarts, what a deploy changes for it, the faults."""

    inventory: str
    service: str
    changed: Callable[[int], dict[str, Any]]
    faults: dict[str, Fault]


def _stopped(unit: str, *nodes: str) -> Fault:
    return Fault(nodes, f"systemctl stop {unit}", f"systemctl start {unit}")


_OF_ALL: Final = {
    "broker killed": Fault(
        ("leaf1",),
        f"systemctl kill --signal=KILL {_BROKER}; systemctl stop {_BROKER}",
        f"systemctl start {_BROKER}",
    ),
    # All partitions but Kafka's own.
    "log torn": Fault(
        ("leaf1",), tear("[!_]*-[0-9]*"), f"systemctl start {_BROKER}", "KedgeCanaryWindowFailed"
    ),
    "canary stopped": _stopped(_OWN, CANARY),
}
BENCHES: Final = {
    "proxies": Bench(
        "local",
        "kafka_rest",
        lambda number: {"kafka_rest_settings": {"producer.linger.ms": 3 + number}},
        {
            "killed": Fault(("rest1",), f"systemctl kill --signal=KILL {_PROXY}", "true"),
            "stopped": _stopped(_PROXY, "rest1"),
            "frozen": Fault(
                ("rest1",), *(f"systemctl kill --signal={how} {_PROXY}" for how in ("STOP", "CONT"))
            ),
            # What comes from the canary arrives, and no answer leaves.
            "cut off": Fault(
                ("rest2",), *(f"ip route {how} blackhole {{canary}}/32" for how in ("add", "del"))
            ),
            **_OF_ALL,
        },
    ),
    "mirrors": Bench(
        "local-mirror",
        "mirror_maker",
        lambda number: {"mirror_maker_open_files": 90_000 + number},
        {
            "mirrors stopped": _stopped("mirror-maker.target", "mirror1", "mirror2"),
            **_OF_ALL,
        },
    ),
}


class Alerts:
    """Which alerts have fired, and when: asked each second by a thread of its own until it is closed."""

    def __init__(self, asked: Prometheus) -> None:
        self.fired: list[dict[str, Any]] = []
        self._asked = asked
        self._answered = time.monotonic()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def now(self) -> list[dict[str, Any]]:
        """Return the alerts that fire now; raises Problem where Prometheus has not answered for a while."""
        if time.monotonic() - self._answered > _SILENT_S:
            raise Problem(f"Prometheus did not say for {_SILENT_S:g} s which alerts fire: see {_FOLDER}")
        return [one for one in self.fired if one["resolved"] is None]

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(_POLL_S):
            try:
                found = [one["labels"] for one in self._asked.firing()]
            except Problem:
                continue
            self._answered = time.monotonic()
            names = {(of["alertname"], of.get("path", "")) for of in found}
            firing = [one for one in self.fired if one["resolved"] is None]
            for one in firing:
                if (one["alert"], one["path"]) not in names:
                    one["resolved"] = self._answered
                    print(f"  {one['alert']} {one['path']}: resolved", flush=True)
            for alert, path in sorted(names - {(one["alert"], one["path"]) for one in firing}):
                self.fired.append({"alert": alert, "path": path, "at": self._answered, "resolved": None})
                print(f"  {alert} {path}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and write; return 0, or 1 where a change raised an alert or a fault not its own."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.canary", description=__doc__)
    parser.add_argument("fleet", choices=BENCHES)
    parser.add_argument("--restarts", type=int, default=2, help="rolling restarts of the service")
    parser.add_argument("--deploys", type=int, default=2, help="deploys that restart the service")
    parser.add_argument("--faults", nargs="*", help="faults to inject (default: all of the fleet)")
    options = parser.parse_args(arguments)
    bench = BENCHES[options.fleet]
    wanted = bench.faults.keys() if options.faults is None else options.faults
    if unknown := [name for name in wanted if name not in bench.faults]:
        parser.error(
            f"{options.fleet} have no fault {', '.join(unknown)}; they have {', '.join(bench.faults)}"
        )
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    with_canary(PROJECT / "inventories" / bench.inventory, _INVENTORY)
    result = Path(__file__).with_name(f"{options.fleet}.json")
    rows: list[dict[str, Any]] = []
    nodes = read_fleet(_INVENTORY)
    with fleet():
        play(_INVENTORY, {})
        on = shell(nodes)
        faults = [
            Action(name, partial(_inject, bench.faults[name], nodes, on), alert=bench.faults[name].alert)
            for name in wanted
        ]
        with asked_of(nodes, _FOLDER) as asked:
            alerts = Alerts(asked)
            try:
                for row in measured(alerts, [*changes(bench, options.restarts, options.deploys), *faults]):
                    rows.append(row)
                    write_json(result, {"cores": os.cpu_count(), "rows": rows})
            finally:
                alerts.close()
        print(on(CANARY, _SHOW))
    print(table(rows))
    return int(not all(row["as_expected"] for row in rows))


@contextmanager
def fleet() -> Iterator[None]:
    """Run the fleet of the inventory until the block ends."""
    _fleet("up")
    try:
        yield
    finally:
        _fleet("down")


def _fleet(action: str) -> None:
    command = [sys.executable, "-m", "lab.fleet", action, "--inventory", str(_INVENTORY)]
    subprocess.run(command, cwd=PROJECT, check=True)


def changes(bench: Bench, restarts: int, deploys: int) -> list[Action]:
    """Return the planned changes."""
    restart = partial(play, _INVENTORY, {"service": bench.service}, playbook="rolling_restart.yml")
    deployed = [partial(play, _INVENTORY, bench.changed(number)) for number in range(deploys)]
    return [
        *[Action(f"rolling restart of {bench.service}", restart, planned=True)] * restarts,
        *(Action(f"deploy that restarts {bench.service}", deploy, planned=True) for deploy in deployed),
    ]


def _inject(fault: Fault, nodes: Fleet, on: Shell) -> None:
    """Inject a fault for a minute."""
    (canary,) = choose(nodes, [CANARY], ())
    try:
        for node in fault.nodes:
            on(node, fault.begin.format(canary=canary.address))
        time.sleep(_FAULT_S)
    finally:
        for node in fault.nodes:
            on(node, fault.end.format(canary=canary.address))


def measured(alerts: Alerts, wanted: Iterable[Action]) -> Iterator[dict[str, Any]]:
    """Do one after the other; yield a row each.

    A row has what, planned, took_s, as_expected, and its alerts with the seconds in which each fired.
    """
    _await_quiet(alerts)
    for action in wanted:
        print(action.what, flush=True)
        before, began = len(alerts.fired), time.monotonic()
        action.do()
        took_s = round(time.monotonic() - began, 1)
        if action.alert:
            _await_alert(alerts, action.alert, before)
        _await_quiet(alerts)
        raised = [
            {
                "alert": one["alert"],
                "path": one["path"],
                "at_s": round(one["at"] - began, 1),
                "resolved_s": round(one["resolved"] - began, 1),
            }
            for one in alerts.fired[before:]
        ]
        names = {one["alert"] for one in raised}
        expected = not names if action.planned else action.alert in names if action.alert else bool(names)
        yield {
            "what": action.what,
            "planned": action.planned,
            "took_s": took_s,
            "as_expected": expected,
            "alerts": raised,
        }


def _await_alert(alerts: Alerts, name: str, before: int) -> None:
    """Wait for an alert, as long as a window and its audit may take."""
    began = time.monotonic()
    while time.monotonic() - began < _AUDITED_S and name not in {
        one["alert"] for one in alerts.fired[before:]
    }:
        alerts.now()  # raises where Prometheus is silent
        # The alerts are those of a thread, which asks as often.
        time.sleep(_POLL_S)


def _await_quiet(alerts: Alerts) -> None:
    """Wait until no alert has fired for as long as a canary takes failures for those of a change."""
    began = quiet = time.monotonic()
    while time.monotonic() - quiet < _QUIET_S:
        if firing := alerts.now():
            quiet = time.monotonic()
            if quiet - began > _LONGEST_S:
                names = ", ".join(one["alert"] for one in firing)
                raise Problem(f"alerts still fire after {_LONGEST_S:g} s: {names}")
        time.sleep(_POLL_S)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table of Markdown."""
    lines = [
        "| what | took | alerts: the seconds in which each fired |",
        "|---|--:|---|",
    ]
    for row in rows:
        raised = (
            f"`{one['alert']}` {one['path']} {one['at_s']:.0f} to {one['resolved_s']:.0f}".replace("  ", " ")
            for one in row["alerts"]
        )
        lines.append(f"| {row['what']} | {row['took_s']:.0f} s | {', '.join(raised) or 'none'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Problem, FleetError) as problem:
        sys.exit(f"{problem}")
