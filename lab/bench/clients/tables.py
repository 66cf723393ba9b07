"""What the repetitions come to: tables, and whether max.poll.records changed the throughput."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lab.bench.clients.cases import POLL, STOCK

#: A change of the throughput that is taken for none.
_SAME: Final = 0.10
#: How often an interval may miss what it is of.
_UNSURE: Final = 0.05


def medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the medians of a case's repetitions: each answer has ``full`` and ``steady``."""

    def middle(*path: str) -> float:
        return float(statistics.median(_at(run, path) for run in runs))

    def cpu(side: str) -> float:
        return statistics.median(run["full"][side] / max(run["full"]["records"], 1) * 1e6 for run in runs)

    kind = "Produce" if "sent" in runs[0]["full"] else "FetchConsumer"
    rates = [run["full"]["records_per_s"] for run in runs]
    found = {
        "records_per_s": middle("full", "records_per_s"),
        "spread": (max(rates) - min(rates)) / max(statistics.median(rates), 1e-9),
        "mb_per_s": middle("full", "mb_per_s"),
        "requests_per_s": middle("full", "requests_per_s", kind),
        "client_cpu_s_per_million": cpu("client_cpu_s"),
        "brokers_cpu_s_per_million": cpu("brokers_cpu_s"),
        "steady_requests_per_s": middle("steady", "requests_per_s", kind),
    }
    for point in ("p50", "p99", "p99.9"):
        found[f"{point}_ms"] = middle("steady", "latency_ms", point)
    return found


def table(title: str, rows: Mapping[str, Mapping[str, float]], steady: int) -> str:
    """Return the table of producers or consumers, as Markdown."""
    head = ["records/s", "spread", "MB/s", "requests/s", "client CPU s", "brokers' CPU s", "p50 ms", "p99 ms",
            "p99.9 ms", "requests/s"]  # fmt: skip
    lines = [
        f"{title}: as fast as it goes, CPU per million records | at {steady:,} records/s",
        "",
        _line([title.lower(), *head]),
        _line(["---", *["---:"] * len(head)]),
    ]
    for name, row in rows.items():
        values = [f"{row['records_per_s']:,.0f}", f"{row['spread']:.0%}", f"{row['mb_per_s']:,.1f}",
                  f"{row['requests_per_s']:,.0f}", f"{row['client_cpu_s_per_million']:.2f}",
                  f"{row['brokers_cpu_s_per_million']:.2f}", *(f"{row[f'{p}_ms']:.1f}" for p in
                  ("p50", "p99", "p99.9")), f"{row['steady_requests_per_s']:,.0f}"]  # fmt: skip
        lines.append(_line([name, *values]))
    return "\n".join(lines) + "\n"


def loss_table(runs: Mapping[str, Sequence[Mapping[str, int]]], rate: int) -> str:
    """Return the table of what became of the records when leaders were killed, as Markdown.

    Args:
        runs: a mapping a kill, by acks.
        rate: records/s, 0 for as fast as it went.
    """
    keys = ("sent", "acked", "failed", "lost", "doubled")
    speed = f"at {rate:,} records/s" if rate else "while it took records as fast as it could"
    lines = [
        f"Leader killed {speed}: lost are acknowledged records that the topic lacks, of all kills together",
        "",
        _line(["acks", "kills", "kills that lost", *keys]),
        _line(["---", *["---:"] * (len(keys) + 2)]),
    ]
    for name, kills in runs.items():
        sums = (f"{sum(kill[key] for kill in kills):,}" for key in keys)
        lines.append(_line([name, str(len(kills)), str(sum(kill["lost"] > 0 for kill in kills)), *sums]))
    return "\n".join(lines) + "\n"


def claim(rounds: Sequence[Mapping[str, float]]) -> str:
    """Return what came of the guide's claim that max.poll.records does not change the throughput.

    Args:
        rounds: records/s of defaults and of each value, measured one right after the other.
    """
    found = {
        name: around_median([one[name] / one[STOCK] for one in rounds]) for name in rounds[0] if name != STOCK
    }
    told = {name: _told(low, high) for name, (low, _, high) in found.items()}
    verdict = (
        "does not hold in"
        if "changes it" in told.values()
        else "is not distinguished from"
        if "not distinguished" in told.values()
        else "holds in"
    )
    said = "; ".join(
        f"{name.removeprefix(f'{POLL}=')}: {middle:.2f} ({low:.2f} to {high:.2f}), {told[name]}"
        for name, (low, middle, high) in found.items()
    )
    return (
        f"Whether {POLL} changes the throughput (the guide: it does not): the claim {verdict} this run. Its "
        f"records/s as a share of those with the default of 500 in the same round, the median of "
        f"{len(rounds)} rounds with its 95% interval: {said}. Less than {_SAME:.0%} is taken for no change."
    )


def _told(low: float, high: float) -> str:
    """Return what an interval of shares tells of a setting."""
    if high < 1 - _SAME or low > 1 + _SAME:
        return "changes it"
    return "changes nothing" if low >= 1 - _SAME and high <= 1 + _SAME else "not distinguished"


def around_median(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median between the ends of its interval of 95%; all values where there are less than nine.

    By order statistics: whatever they are drawn from, half of it lies on either side of its median.
    """
    ordered, n = sorted(values), len(values)
    outside = [sum(math.comb(n, i) for i in range(drop + 1)) / 2 ** (n - 1) for drop in range(1, n // 2)]
    drop = sum(share <= _UNSURE for share in outside)
    return ordered[drop], statistics.median(ordered), ordered[n - 1 - drop]


def _at(run: Mapping[str, Any], path: Sequence[str]) -> float:
    value: Any = run
    for key in path:
        value = value[key]
    return float(value)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
