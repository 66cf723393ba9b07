"""`python -m lab.demo.canary INVENTORY`: a broker loses records; an alert at once, a verdict that names them.

Prometheus on loopback has the rules that `kedge canary rules` writes, and asks the canary of the fleet. Each
rule and each query of the dashboard is asked of it. Then the broker is killed, and of what it has written the
end is torn off before it starts again. Exit 0 where the alert came and the audit named records, else 1.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from kedge.setup.paths import PROJECT
from kedge.setup.problem import Problem
from lab.demo.inventory import CANARY, CANARY_PORT
from lab.fleet.inventory import Fleet, choose, read_fleet
from lab.fleet.nodes import Shell, shell
from lab.services import prometheus
from verify.canary import rules

HOME: Final = PROJECT / "runs" / "canary"
_BROKER, _CLUSTER = "leaf1", "leaf"
_WINDOWS: Final = f"/var/lib/canary/{_CLUSTER}/windows"
#: An alert of what shows at once; a verdict comes a window and an audit later.
_ALERT_S: Final = 60.0
_VERDICT_S: Final = 600.0
_POLL_S: Final = 1.0

T = TypeVar("T")


def tear(partitions: str) -> str:
    """Return what kills a broker and takes from each of these partitions the half that was written last."""
    return f"""
set -e
systemctl kill --signal=KILL kafka-broker@{_CLUSTER}
systemctl stop kafka-broker@{_CLUSTER}
for log in /var/lib/kafka-broker/{_CLUSTER}/data/{partitions}/*.log; do
  size=$(stat -c %s "$log"); truncate -s $((size / 2)) "$log"
done
"""


def main(inventory: str) -> int:
    """Alert and verdict of a fault; return the exit status."""
    place = Path(inventory)
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    fleet = read_fleet(place)
    with asked_of(fleet, HOME) as asked:
        _ask_all(asked)
        return _faulted(asked, shell(fleet))


@contextmanager
def asked_of(fleet: Fleet, folder: Path) -> Iterator[prometheus.Prometheus]:
    """Run a Prometheus with the rules of the fleet's canary; yield it once a window has passed."""
    rules.run(fleet.source, folder)
    (canary,) = choose(fleet, [CANARY], ())
    with prometheus.running(folder, f"{canary.address}:{CANARY_PORT}", folder / rules.RULES) as asked:
        shown = 'kedge_canary_window_verdict{verdict="pass"} == 1'
        awaited("a window passed", _VERDICT_S, lambda: asked.ask(shown))
        yield asked


def _faulted(asked: prometheus.Prometheus, on: Shell) -> int:
    began = time.monotonic()
    try:
        on(_BROKER, tear("kedge-canary-*-kafka-*"))
        print(f"{_BROKER}: killed, and the end of what it had written is torn off", flush=True)
        alerts = awaited("an alert fires", _ALERT_S, asked.alerts)
    finally:
        on(_BROKER, f"systemctl start kafka-broker@{_CLUSTER}")
    print(f"{_BROKER}: started again. After {time.monotonic() - began:.0f} s Prometheus had:")
    for name, about in alerts.items():
        print(f"  {name}: {about['summary']}\n    {about['command']}")
    what = "the audit of a window fails"
    failed = awaited(what, _VERDICT_S, lambda: asked.alerts().get("KedgeCanaryWindowFailed", {}))
    print(f"after {time.monotonic() - began:.0f} s: {failed['summary']}", flush=True)
    words = f"runuser -u canary -- /opt/kedge/canary show --home /var/lib/canary/{_CLUSTER} || true"
    print(on(CANARY, words))
    # Offsets of records that are gone have other records now: such a one is corrupted.
    named = 0
    each = f"for file in {_WINDOWS}/*/report/verdicts.json; do tr -d '\\n' < $file; echo; done"
    for line in on(CANARY, each).splitlines():
        delivery = next(check for check in json.loads(line)["checks"] if check["name"] == "delivery")
        for kind in ("lost", "corrupted"):
            for one in delivery["anomalies"].get(kind, {}).get("examples", ()):
                print(f"{kind}: " + ", ".join(f"{key} {value}" for key, value in one.items()))
                named += 1
    return 0 if named else 1


def _ask_all(asked: prometheus.Prometheus) -> None:
    """Ask what the dashboard asks, and for the health of each rule; raises Problem with what is refused."""
    board = json.loads((HOME / rules.DASHBOARD).read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [one["expr"] for one in board["annotations"]["list"]]
    empty = [query for query in queries if not asked.ask(query.replace("$cluster", _CLUSTER))]
    health = awaited("each rule was evaluated", _ALERT_S, lambda: _evaluated(asked.rules()))
    if wrong := [name for name, state in health.items() if state != "ok"]:
        raise Problem(f"Prometheus cannot evaluate {', '.join(wrong)}")
    print(
        f"Prometheus: {len(health)} rules, {len(queries)} queries, of which {len(empty)} have no series yet"
    )
    for query in empty:
        print(f"  no series: {query}")


def _evaluated(health: dict[str, str]) -> dict[str, str]:
    return {} if "unknown" in health.values() else health


def awaited(what: str, seconds: float, ask: Callable[[], T]) -> T:
    """Wait for an answer that is something; raises Problem where it does not come in time."""
    began = time.monotonic()
    while not (found := ask()):
        if time.monotonic() - began > seconds:
            raise Problem(f"waited {seconds:.0f} s until {what}")
        time.sleep(_POLL_S)
    return found


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except Problem as problem:
        sys.exit(f"{problem}")
