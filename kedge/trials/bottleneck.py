"""What a trial used of its machines, and which of that was used up: by the samples of its processes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.dataset as ds

from kedge.evidence.tables import arrow_schema
from kedge.services.registry import SERVICES

#: From this share on a processor is called used up: a queue before a server that is busy for nine tenths of
#: the time is nine long (M/M/1), and samples are means over seconds.
BUSY: Final = 0.9
#: From these shares on, something of a host is called used up: the processors' time by all that runs there;
#: the time in which something waited for memory, which hardly ever happens where there is enough, or for a
#: disk, which every flush waits for; what a link can carry, by counters that are means, as above.
FROM: Final = {"cpu": BUSY, "memory": 0.1, "disk": 0.5, "network": 0.9}
#: From this share on what a hypervisor took is told: a host at its limit carries as much less.
STOLEN: Final = 0.02
_HOW: Final = {"cpu": "of its processors' time was used", "network": "of its link was used"}
#: Columns of the table pressure that only grow.
_COUNTERS: Final = (
    "cpu_used_us",
    "cpu_idle_us",
    "cpu_stolen_us",
    "memory_waited_us",
    "io_waited_us",
    "received_bytes",
    "sent_bytes",
)
#: What other services need is no limit of theirs.
_BROKERS: Final = frozenset(service.name for service in SERVICES if service.last)
#: What sends, as run.json names it; each producer is a process that can use one core.
GENERATORS: Final = ("kafka-producer", "rest-producer")
#: What reads.
CONSUMERS: Final = ("kafka-consumer", "rest-consumer")
#: From these on the time of records is the generators': half of it, and more than the ticks they send by.
OWN_SHARE: Final = 0.5
OWN_MS: Final = 20.0


@dataclass(frozen=True)
class Bottleneck:
    """What was used up, and how sure that is to be what bounds the load.

    Where that is not the service's, ``others`` says whose: ``generators`` or ``brokers``.
    """

    what: str
    because: str
    others: Literal["", "generators", "brokers"] = ""


@dataclass(frozen=True)
class Used:
    """What a trial used.

    Attributes:
        cores: host -> busy cores of its sampled processes, by service.
        has: host -> its cores, where they were read.
        shared: whether the sampled hosts and the generators are one machine.
        machine: cores of this machine.
        generators: kind of generator -> busy cores, of each process; ``consumers`` the same of what reads.
        own: kind of generator -> the share of its records' time in which they waited for it alone, and that
            in ms a record.
        shares: host -> of its processors' time the used share, and what a hypervisor took (``stolen``); of
            the time that in which some process waited for memory or disk; of its link the used share; of what
            was not told nothing.
        makers: hosts that make the load, and do nothing else.
        load: busy cores of what of the load runs on this machine: generators, consumers and watchers.
        figures: cpu_us_a_record and rss_mib, by service; what each record cost.
    """

    cores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    has: Mapping[str, float] = field(default_factory=dict)
    shared: bool = False
    machine: float = 0.0
    generators: Mapping[str, float] = field(default_factory=dict)
    consumers: Mapping[str, float] = field(default_factory=dict)
    own: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    makers: frozenset[str] = frozenset()
    load: float = 0.0
    figures: Mapping[str, float] = field(default_factory=dict)


def costs(folder: Path) -> Used:
    """Return what a trial used; of what was not sampled nothing is said."""
    try:
        run = json.loads((folder / "evidence" / "run.json").read_text(encoding="utf-8"))
        state, asked = (
            json.loads((folder / name).read_text(encoding="utf-8")) for name in ("load.state", "load.json")
        )
    except (OSError, ValueError):
        return Used()
    begin = run["started_us"] + run.get("warm_up_us", 0)
    end = run.get("measured_until_us") or run.get("ended_us")
    rows = _samples(folder, "processes")
    if end is None:
        end = max((row["at_us"] for row in rows), default=begin)
    seconds, acked = max((end - run["started_us"]) / 1e6, 1e-3), state.get("acked", 0)
    cores, rss = _by_host(rows, begin, end)
    told = run.get("cost", {})
    # Generators count from the first record that is due to the last one.
    spent = {kind: entry["cpu_s"] / seconds for kind, entry in told.items()}
    here = {kind: busy for kind, busy in spent.items() if kind == "watch" or not asked.get("generators")}
    generators = {kind: spent[kind] / _processes(asked, kind) for kind in GENERATORS if kind in spent}
    # Consumers go on until all is read.
    until_read = max(((run.get("ended_us") or end) - run["started_us"]) / 1e6, seconds)
    consumers = {
        kind: told[kind]["cpu_s"] / until_read / _processes(asked, kind) for kind in CONSUMERS if kind in told
    }
    own = {
        kind: (told[kind]["own_share"], told[kind]["own_ms"])
        for kind in GENERATORS
        if "own_share" in told.get(kind, {})
    }
    has, shared, machine = _machines(run.get("subject", {}))
    figures: dict[str, float] = {}
    by_service: dict[str, float] = defaultdict(float)
    for of_host in cores.values():
        for service, busy in of_host.items():
            by_service[service] += busy
    for service, busy in by_service.items():
        if acked:
            figures[f"{service}_cpu_us_a_record"] = round(busy * 1e6 / (acked / seconds), 2)
        figures[f"{service}_rss_mib"] = round(max(rss[service]) / 2**20, 1)
    shares = _shares(_samples(folder, "pressure"), begin, end)
    makers = frozenset(asked.get("generators", ()))
    return Used(
        cores, has, shared, machine, generators, consumers, own, shares, makers, sum(here.values()), figures
    )


def cpu_us_a_record(folder: Path, begin_us: int, end_us: int, acked: float) -> float | None:
    """Return the processor time of all that is sampled for each of so many records (microseconds).

    None where nothing is sampled or nothing was acknowledged between the two times.
    """
    cores, _ = _by_host(_samples(folder, "processes"), begin_us, end_us)
    busy = sum(used for of_host in cores.values() for used in of_host.values())
    return busy * (end_us - begin_us) / acked if busy and acked else None


def _processes(asked: Mapping[str, Any], kind: str) -> int:
    """Return how many processes of a kind a load has, each of which can use one core."""
    way, _, does = kind.partition("-")
    # All consumers through proxies share one.
    return 1 if kind == "rest-consumer" else int((asked.get(way) or {}).get(f"{does}s", 1))


def limit_of(used: Used) -> Bottleneck | None:
    """Return what of a trial was used up; None where the samples show nothing."""
    for kind, busy in used.generators.items():
        if busy >= BUSY:
            return Bottleneck(
                "generator", f"{kind} used {busy:.2f} cores of the one that it can use", "generators"
            )
    whole = sum(busy for of_host in used.cores.values() for busy in of_host.values())
    if used.shared and used.machine and whole + used.load >= BUSY * used.machine:
        return Bottleneck(
            "cpu of the one machine",
            f"services used {whole:.1f}, the load {used.load:.1f} of {used.machine:g} cores that all share",
        )
    for host, of_host in sorted(used.cores.items()):
        cores, busy = used.has.get(host), sum(of_host.values())
        if cores and busy >= BUSY * cores:
            most = max(of_host, key=lambda service: of_host[service])
            because = f"{host} used {busy:.1f} of {cores:g} cores, most by {most}"
            if most in _BROKERS:
                return Bottleneck("cpu of a broker", because, "brokers")
            return Bottleneck(f"cpu of {most}", because)
    return _used_up(used) or _of_the_load(used)


def _of_the_load(used: Used) -> Bottleneck | None:
    """Return what of the load itself took the time of records, or has no more of its core."""
    for kind, (share, ms) in used.own.items():
        if share >= OWN_SHARE and ms >= OWN_MS:
            because = f"records waited for {kind} alone for {share:.0%} of their time, {ms:.0f} ms each"
            return Bottleneck("generator", because, "generators")
    # A consumer that is behind delays deliveries, and nobody's acknowledgement: last, and by its own name.
    for kind, busy in used.consumers.items():
        if busy >= BUSY:
            return Bottleneck(
                "consumers of the load", f"{kind} used {busy:.2f} cores of the one that it can use"
            )
    return None


def _used_up(used: Used) -> Bottleneck | None:
    """Return the first host that has no more of something, whatever took it."""
    for host, of_host in sorted(used.shares.items()):
        for what, enough in FROM.items():
            if (share := of_host.get(what, 0.0)) >= enough:
                because = f"{share:.0%} {_HOW.get(what, f'of the time something waited for its {what}')}"
                if what == "cpu" and (stolen := of_host.get("stolen", 0.0)) >= STOLEN:
                    because += f", {stolen:.0%} by the hypervisor for other machines"
                if host in used.makers:
                    return Bottleneck("generator", f"of {host} {because}", "generators")
                if used.shared and what == "cpu":
                    return Bottleneck("cpu of the one machine", because)
                if (of := set(used.cores.get(host, ()))) and of <= _BROKERS:
                    return Bottleneck(f"{what} of broker {host}", because, "brokers")
                return Bottleneck(f"{what} of {host}", because)
    return None


def said(used_up: Bottleneck | None) -> str:
    """Say what bounded a load, or that the samples do not show it."""
    if used_up is None:
        return "nothing sampled was used up: a lock, a bound of requests in flight, or a host without samples"
    return f"{used_up.what}: {used_up.because}"


def _samples(trial: Path, name: str) -> list[dict[str, Any]]:
    folder = trial / "evidence" / name
    if not folder.is_dir() or not any(folder.glob("*.parquet")):
        return []
    table: pa.Table = ds.dataset(folder, schema=arrow_schema(name)).to_table()
    return list(table.to_pylist())


def _shares(rows: list[dict[str, Any]], begin: int, end: int) -> dict[str, dict[str, float]]:
    """Return what hosts used of processors and of their busiest link, and how often something waited."""
    of_link: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if begin <= row["at_us"] <= end:
            of_link[row["host"], row["interface"] or ""].append(row)
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (host, _), mine in of_link.items():
        first, last = (pick(mine, key=lambda row: row["at_us"]) for pick in (min, max))
        if (took_us := last["at_us"] - first["at_us"]) <= 0:
            continue
        # What was told at both ends.
        more = {
            column: last[column] - first[column]
            for column in _COUNTERS
            if last[column] is not None and first[column] is not None
        }
        if ticked := more.get("cpu_used_us", 0) + more.get("cpu_idle_us", 0):
            found[host]["cpu"] = more["cpu_used_us"] / ticked
            found[host]["stolen"] = more.get("cpu_stolen_us", 0) / ticked
        for what, column in (("memory", "memory_waited_us"), ("disk", "io_waited_us")):
            if column in more:
                found[host][what] = more[column] / took_us
        if link := last["link_bytes_per_s"]:
            used = max(more["received_bytes"], more["sent_bytes"]) / (took_us / 1e6) / link
            found[host]["network"] = max(used, found[host].get("network", 0.0))
    return dict(found)


def _by_host(
    rows: list[dict[str, Any]], begin: int, end: int
) -> tuple[dict[str, dict[str, float]], dict[str, list[float]]]:
    """Return busy cores by host and service, and the largest memory of each instance by service."""
    of_instance: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if begin <= row["at_us"] <= end:
            of_instance[row["host"], row["service"], row["instance"]].append(row)
    cores: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    rss: dict[str, list[float]] = defaultdict(list)
    for (host, service, _), mine in of_instance.items():
        mine.sort(key=lambda row: row["at_us"])
        took = (mine[-1]["at_us"] - mine[0]["at_us"]) / 1e6
        spent = sum(_spent(a["cpu_us"], b["cpu_us"]) for a, b in pairwise(mine)) / 1e6
        if took > 0:
            cores[host][service] += spent / took
        rss[service].append(max(row["rss_bytes"] for row in mine))
    return {host: dict(of) for host, of in cores.items()}, rss


def _spent(before: int, after: int) -> int:
    """Return what a process used between two samples; one that was restarted counts from nothing again.

    All that a new process has used is of this time: its start is the dearest part of it.
    """
    return after - before if after >= before else after


def _machines(subject: Mapping[str, Any]) -> tuple[dict[str, float], bool, float]:
    """Return cores by host, whether all of it is one machine, and the cores of this one."""
    has: dict[str, float] = {}
    shared, own = False, 0.0
    for machine in subject.get("machines", ()):
        cores = float(machine.get("cores") or 0)
        has |= dict.fromkeys(machine.get("hosts", ()), cores)
        if machine.get("load"):
            own, shared = cores, bool(machine.get("hosts"))
    return has, shared, own
