"""What the advice for REST proxies is worth on a fleet of one's own, side by side.

    python -m lab.bench.rest --inventory INV     writes report.md and results.json into --out

Deploys the inventory's proxies with other variables, case after case in rotation, loads them directly from
this machine, and deploys the inventory as it stands at the end. Not for a fleet that serves anybody: every
case restarts the proxies. Parts: requests (records a request, sessions), split (two processes against one of
the same heap), advice (defaults, documented, measured), collectors, reads (settings of a consumer), restarts
(TERM and KILL under a group). What --parts leaves out keeps the figures that --out has of it, where the
conditions were the same.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from kedge.plan.inventory.yaml_files import InventoryError
from kedge.services.rest.distributions import DISTRIBUTIONS
from lab.bench.rest.cases import REQUESTS, Produce, Variant, variants
from lab.bench.rest.drive import ProxyRefusedError, produce, read
from lab.bench.rest.fleet import FleetError, Proxies, deployed, end, proxies, put_back
from lab.bench.rest.restarts import Group

#: A part's figures: case -> measure -> one value a repetition.
Figures = dict[str, dict[str, list[float]]]
_READING: Final = ("advice", "reads")
PARTS: Final = ("requests", "split", "advice", "collectors", "reads", "restarts")
_UNITS: Final = {"records_per_s": "records/s", "p50_ms": "p50 ms", "p99_ms": "p99 ms", "mb_per_s": "MB/s"}
#: How long a group is watched, in session time-outs after a KILL, and in seconds after a TERM.
_AFTER_KILL: Final = 2.0
_AFTER_TERM_S: Final = 12.0
_MEMBERS: Final = 8
#: A group reads when each partition gave something within the last seconds; for how long that is waited for.
_RECENT_S: Final = 3.0
_SETTLED_S: Final = 60.0


def main(arguments: list[str] | None = None) -> int:
    """Measure and report; 0 when every part has its figures, 1 when one failed, 2 for wrong input."""
    options = _parser().parse_args(arguments)
    try:
        before = proxies(options.inventory, {})
    except (InventoryError, FleetError) as error:
        print(error, file=sys.stderr)
        return 2
    options.out = options.out or Path(__file__).parent / "reports" / before.distribution
    began = time.monotonic()
    found = _kept(options, before)
    failed: list[str] = []
    text = ""
    try:
        with put_back(options.inventory):
            for part in options.parts:
                try:
                    found |= measure(part, options, before.distribution)
                except (FleetError, ProxyRefusedError) as error:
                    failed.append(f"{part}: {error}")
                # After each part, for there may be an hour to lose.
                text = _write(options, before, found, time.monotonic() - began)
    except FleetError as error:
        failed.append(f"the fleet is not as it was: {error}")
    print(text or "nothing was measured")
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


def _conditions(options: argparse.Namespace, fleet: Proxies) -> dict[str, Any]:
    """Return what figures must have in common to stand in one report."""
    return {
        "distribution": fleet.distribution,
        "version": fleet.version,
        "instances": len(fleet.urls),
        "cores_of_this_machine": os.cpu_count(),
        "repetitions": options.repetitions,
        "seconds": options.seconds,
        "record_bytes": options.record_bytes,
    }


def _kept(options: argparse.Namespace, fleet: Proxies) -> dict[str, Figures]:
    """Return the figures of an earlier run under the same conditions, but of the parts asked for."""
    try:
        before = json.loads((options.out / "results.json").read_text())
    except FileNotFoundError:
        return {}
    if any(before.get(key) != value for key, value in _conditions(options, fleet).items()):
        return {}
    return {table: of for table, of in before["figures"].items() if table.split(",")[0] not in options.parts}


def _write(options: argparse.Namespace, before: Proxies, found: Mapping[str, Figures], took_s: float) -> str:
    """Write what was found so far, as figures and as a report; return the report."""
    result = {
        **_conditions(options, before),
        "took_s": round(took_s),
        "figures": found,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    text = report(result)
    (options.out / "report.md").write_text(text)
    return text


def measure(part: str, options: argparse.Namespace, distribution: str) -> dict[str, Figures]:
    """Return the tables of one part; its cases take turns, so that none has a machine that is warmer."""
    found: dict[str, Figures] = {}
    if part == "requests":
        urls = deployed(options.inventory, {}).urls
        for load in REQUESTS.values():  # a JVM that has not yet seen a case does half of it
            produce(urls, options.topic, load, options.record_bytes, options.warm_up)
        for _ in range(options.repetitions):
            for name, load in REQUESTS.items():
                _say(f"{part}: {name}")
                figures = produce(urls, options.topic, load, options.record_bytes, options.seconds)
                _keep(found, part, name, figures)
    elif part == "restarts":
        fleet = deployed(options.inventory, {})
        for repetition in range(options.repetitions):
            for signal in ("TERM", "KILL"):
                _say(f"{part}: {signal}, {repetition + 1} of {options.repetitions}")
                _keep(found, part, signal, restart(options, fleet, signal))
    else:
        if part in _READING:
            urls = deployed(options.inventory, {}).urls
            # More than one answer holds, for those who read.
            produce(urls, options.topic, Produce(1000), options.record_bytes, options.warm_up)
        for _ in range(options.repetitions):
            for variant in variants(part, distribution):
                _say(f"{part}: {variant.name}")
                for table, figures in _variant(part, variant, options).items():
                    _keep(found, table, variant.name, figures)
    return found


def _variant(part: str, variant: Variant, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Deploy a variant, warm it up and load it; a JVM that has just started does half."""
    urls = deployed(options.inventory, variant.extra).urls
    warm = Produce(100)
    produce(urls, options.topic, warm, options.record_bytes, options.warm_up)
    found = {}
    if part != "reads":
        found[part] = produce(urls, options.topic, warm, options.record_bytes, options.seconds)
    if part in _READING:
        read(urls[0], options.topic, options.warm_up)
        found[f"{part}, one consumer"] = {"mb_per_s": read(urls[0], options.topic, options.seconds)}
    return found


def restart(options: argparse.Namespace, fleet: Proxies, signal: str) -> dict[str, float]:
    """End a proxy while a group reads; return for how long nobody, and one partition, got nothing."""
    host, unit, _ = fleet.instances[0]
    others = fleet.urls[1:] or fleet.urls
    with Group(fleet.urls, options.topic, _MEMBERS) as group:
        load = (others, options.topic, Produce(10, clients=4), options.record_bytes)
        produce(*load, options.warm_up)
        deadline = time.monotonic() + _SETTLED_S
        while not group.reads_all(_RECENT_S):
            if time.monotonic() > deadline:
                raise ProxyRefusedError(
                    f"after {_SETTLED_S:g} s not every partition of {options.topic} is read"
                )
            produce(*load, 1)
        watched_s = _AFTER_KILL * fleet.session_s if signal == "KILL" else _AFTER_TERM_S
        since = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            # Meanwhile, for who is sent nothing has nothing to read.
            sent = pool.submit(produce, *load, watched_s)
            end(options.inventory, host, unit, signal)
            sent.result()
        nobody, worst = group.longest_silence(since, time.monotonic())
    return {"nobody_s": nobody, "worst_partition_s": worst}


def _keep(found: dict[str, Figures], table: str, name: str, measured: Mapping[str, float]) -> None:
    for key, value in measured.items():
        found.setdefault(table, {}).setdefault(name, {}).setdefault(key, []).append(value)


def report(result: Mapping[str, Any]) -> str:
    """Return the report: conditions, then a table a part, with ratios to its first case."""
    what = f"{result['distribution']} {result['version']}"
    lines = [
        "# The advice for REST proxies, measured on this fleet",
        "",
        f"{what}, {result['instances']} instances, loaded from a machine with "
        f"{result['cores_of_this_machine']} cores; {result['repetitions']} repetitions in rotation of "
        f"{result['seconds']:g} s, records of {result['record_bytes']} bytes. Medians; the spread is the "
        "range of the repetitions over the median. A ratio is to the first case of its table; one within the "
        "spread is none.",
    ]
    measured = DISTRIBUTIONS[result["distribution"]]
    if measured.fleet_only:
        lines += [
            "",
            f"**These are figures of {measured.title}**, which stands in for a vendor's proxy: its clients "
            "are Kafka's own, its HTTP side is not the vendor's. A vendor's proxy has to be measured itself.",
        ]
    figures = result["figures"]
    for part in sorted(figures, key=lambda table: PARTS.index(table.split(",")[0])):
        lines += ["", f"## {part}", "", *_table(figures[part])]
    return "\n".join([*lines, ""])


def _table(cases: Figures) -> Iterable[str]:
    measures = list(next(iter(cases.values())))
    heads = [_UNITS.get(measure, measure.replace("_", " ")) for measure in measures]
    yield f"| case | {' | '.join(heads)} | ratio | spread |"
    yield f"|---|{'---|' * (len(heads) + 2)}"
    first = statistics.median(next(iter(cases.values()))[measures[0]])
    for name, found in cases.items():
        medians = [statistics.median(found[measure]) for measure in measures]
        # Two digits: repetitions differ by more than the third.
        ratio = f"{float(f'{medians[0] / first:.1e}'):g}" if first else "-"
        values = found[measures[0]]
        spread = f"{(max(values) - min(values)) / medians[0]:.0%}" if medians[0] else "-"
        yield f"| {name} | {' | '.join(f'{m:,.1f}' for m in medians)} | {ratio} | {spread} |"


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.rest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--inventory", "-i", type=Path, required=True, help="the fleet that is measured")
    parser.add_argument(
        "--topic", default="kedge-verify-rest", help="written to and read (default %(default)s)"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="measured, each case (default 5)")
    parser.add_argument("--warm-up", type=float, default=5, help="seconds before that (default 5)")
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument(
        "--out", type=Path, help="folder of the report (default lab/bench/rest/reports/DISTRIBUTION)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
