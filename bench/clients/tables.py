"""What the repetitions come to: medians as tables, and whether max.poll.records changed the throughput."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.clients.cases import POLL, STOCK

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
#: A difference of less than the repetitions' own is none; this at least.
_SAME: Final = 0.10
#: Repetitions that differ by more than this cannot tell whether a setting changes anything.
_NOISE: Final = 0.25


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


def loss_table(rows: Mapping[str, Mapping[str, int]], rate: int) -> str:
    """Return the table of what became of the records when the leader was killed, as Markdown."""
    keys = ("sent", "acked", "failed", "lost", "doubled")
    lines = [f"Leader killed at {rate:,} records/s: lost are acknowledged records that the topic lacks", ""]
    lines += [_line(["acks", *keys]), _line(["---", *["---:"] * len(keys)])]
    lines += [_line([name, *(f"{row[key]:,}" for key in keys)]) for name, row in rows.items()]
    return "\n".join(lines) + "\n"


def claim(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Return what came of the guide's claim that max.poll.records does not change the throughput."""
    stock = rows[STOCK]
    own = {name: row for name, row in rows.items() if name.startswith(f"{POLL}=")}
    shares = {name: row["records_per_s"] / stock["records_per_s"] for name, row in own.items()}
    noise = max([_SAME, stock["spread"], *(row["spread"] for row in own.values())])
    said = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    holds = all(abs(share - 1) <= noise for share in shares.values())
    verdict = "cannot be told from" if noise > _NOISE else "holds in" if holds else "does not hold in"
    return (
        f"Whether max.poll.records changes the throughput (the guide: it does not): the claim {verdict} this "
        f"run. Beside the default of 500, {said} times its records/s; the repetitions of one case differ by "
        f"up to {noise:.0%}."
    )


def _at(run: Mapping[str, Any], path: Sequence[str]) -> float:
    value: Any = run
    for key in path:
        value = value[key]
    return float(value)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
