"""A proxy that stops under groups of REST consumers: eager, cooperative and consumer protocol, in turn.

    python -m lab.bench.rebalance.proxies --archive FILE [--seconds 480]     adds its trials to proxies.jsonl
    python -m lab.bench.rebalance.proxies --table                            what all trials come to

Two proxies and a broker on this machine's loopback. Half of a group's consumers is in the proxy that stops,
by TERM, by TERM after a drain, or by KILL. Without ``--archive`` the proxies are the sandbox. Trials
go round by repetition; no new one begins after ``--seconds``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kedge.evidence.writing import EvidenceWriter
from lab.bench.jars import broker_jars
from lab.bench.rest.restarts import Group, steadily
from lab.services.brokers import KAFKA_VERSION, Broker, running_broker
from lab.services.rest_proxies import RunningProxy, running_proxy, sandbox_archive, unpack
from verify.process import leave
from verify.watch.groups import GroupWatcher
from verify.watch.ownership import GroupSample, Owners, Partition, owners_after

ROWS: Final = Path(__file__).with_name("proxies.jsonl")
SIGNALS: Final = ("drain", "term", "kill")
SIZES: Final = (4, 24)
_TOPIC: Final = "rebalanced-rest"
_PARTITIONS: Final = 24
_A_SECOND: Final = 5  # records of each partition, so that a silence is known to 0.2 s
_STALLED_S: Final = 0.5
_SESSION_MS: Final = 6000
_COMMIT_S: Final = 0.5
_DRAIN_S: Final = 1.0
_AFTER_S: Final = 2.0
_WAIT_S: Final = 60.0
_SAMPLING_S: Final = 0.1
_ASSIGNORS: Final = "org.apache.kafka.clients.consumer."
_STRATEGY: Final = "consumer.partition.assignment.strategy"
_CLASSIC: Final = {"consumer.session.timeout.ms": str(_SESSION_MS)}


@dataclass(frozen=True)
class Arm:
    """A way to share partitions: the proxies' own keys, and the heartbeat of the groups on the broker."""

    settings: Mapping[str, str]
    heartbeat_ms: int = 1000
    signals: tuple[str, ...] = SIGNALS


ARMS: Final = {
    "eager": Arm(_CLASSIC | {_STRATEGY: f"{_ASSIGNORS}RangeAssignor"}),
    "cooperative": Arm(_CLASSIC | {_STRATEGY: f"{_ASSIGNORS}CooperativeStickyAssignor"}),
    "consumer": Arm({"consumer.group.protocol": "consumer"}),
    "consumer, heartbeat 5 s": Arm({"consumer.group.protocol": "consumer"}, 5000, ("term",)),
}


class ProxyTrialError(Exception):
    """A trial that could not be brought to its end; one line."""


def main(arguments: list[str] | None = None) -> int:
    """Run trials and keep them, or print what they come to; 1 when a trial failed, 2 when nothing can run."""
    options = _parser().parse_args(arguments)
    if options.table:
        print(table(json.loads(line) for line in options.rows.read_text(encoding="utf-8").splitlines()))
        return 0
    archive = options.archive or sandbox_archive()
    if archive is None:
        print("the sandbox is not built: make setup", file=sys.stderr)
        return 2
    until = time.monotonic() + options.seconds
    try:
        with options.rows.open("a", encoding="utf-8") as rows:
            for row in _trials(archive, options, until):
                rows.write(json.dumps(row) + "\n")
                rows.flush()
                print(row, flush=True)
    except (ProxyTrialError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _trials(archive: Path, options: argparse.Namespace, until: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of trials, in rotation, until their time is over."""
    config = {
        "group.consumer.session.timeout.ms": str(_SESSION_MS),
        "group.consumer.min.session.timeout.ms": str(_SESSION_MS),
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (home := folder / "home").mkdir()
        top = unpack(archive, home)
        broker = stack.enter_context(running_broker(broker_jars(), heap_mb=512, config=config))
        broker.create_topic(_TOPIC, _PARTITIONS)
        rate = _A_SECOND * _PARTITIONS
        stack.enter_context(steadily(broker.bootstrap_servers, _TOPIC, _PARTITIONS, rate))
        names = list(options.arms)
        for repetition in range(options.repetitions):
            at = (options.first + repetition) % len(names)
            for name in names[at:] + names[:at]:
                signals = [s for s in options.signals if s in ARMS[name].signals]
                if time.monotonic() > until:
                    return
                with ExitStack() as pair:
                    site = _Site(broker, top, folder, ARMS[name])
                    other = pair.enter_context(site.proxy())
                    for signal_name in signals:
                        if time.monotonic() > until:
                            return
                        for found in site.trial(other, signal_name, options.sizes):
                            yield {
                                "proxy": archive.name.removesuffix(".tar.gz"),
                                "kafka": KAFKA_VERSION,
                                "date": time.strftime("%Y-%m-%d", time.gmtime()),
                                "cores": os.cpu_count(),
                                "machine": options.load,
                                "arm": name,
                                "signal": signal_name,
                            } | found


@dataclass
class _Site:
    """Where the proxies of an arm run."""

    broker: Broker
    home: Path
    folder: Path
    arm: Arm

    @contextmanager
    def proxy(self) -> Iterator[RunningProxy]:
        """Run a proxy of this arm."""
        settings = {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "fetch.min.bytes": "1",
            "consumer.request.timeout.ms": "1000",
        } | dict(self.arm.settings)
        heap = {"KAFKAREST_HEAP_OPTS": "-Xms384m -Xmx384m"}
        with running_proxy(self.home, Path(tempfile.mkdtemp(dir=self.folder)), settings, heap) as running:
            yield running

    def trial(self, second: RunningProxy, signal_name: str, sizes: Iterable[int]) -> list[dict[str, Any]]:
        """Stop a proxy beside another one under a group of each size; return what each went through.

        Raises:
            TrialError: when the groups do not read in the time given, before or after.
        """
        with ExitStack() as stack:
            first = stack.enter_context(self.proxy())
            groups = []
            for size in sizes:
                group = Group((first.url, second.url), _TOPIC, size, _COMMIT_S)
                self._heartbeat(group.name)
                watched = stack.enter_context(_watched(self.broker, group.name, size, self.folder))
                groups.append((stack.enter_context(group), watched))
            _await(
                lambda: all(
                    _whole(g, w)
                    and all(
                        2 * list(g.homes.values()).count(url) == w.size for url in (first.url, second.url)
                    )
                    for g, w in groups
                ),
                "the groups read, half of each in either proxy",
            )
            time.sleep(_AFTER_S)
            before = [group.redelivered for group, _ in groups]
            for _, watched in groups:
                watched.forget()
            since = time.monotonic()
            if signal_name == "drain":
                for group, _ in groups:
                    group.shut = frozenset({first.url})
                time.sleep(_DRAIN_S)
            first.process.send_signal(signal.SIGKILL if signal_name == "kill" else signal.SIGTERM)
            signalled = time.monotonic()
            try:
                first.process.wait(_WAIT_S)
            except subprocess.TimeoutExpired:
                # As systemd does with a unit that does not stop; the row tells how long it took.
                first.process.kill()
                first.process.wait()
            ended = time.monotonic() - signalled
            _await(
                lambda: time.monotonic() > since + _AFTER_S and all(_whole(g, w) for g, w in groups),
                f"the groups read again after {signal_name}",
            )
            time.sleep(_AFTER_S)
            until = time.monotonic()
            return [
                {
                    "members": watched.size,
                    **_silence(group.silences(since, until)),
                    "ownerless_worst_s": round(watched.worst_s(), 2),
                    "redelivered": group.redelivered - redelivered,
                    "ended_s": round(ended, 2),
                }
                for (group, watched), redelivered in zip(groups, before, strict=True)
            ]

    def _heartbeat(self, group: str) -> None:
        entry = ConfigEntry(
            "consumer.heartbeat.interval.ms",
            str(self.arm.heartbeat_ms),
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers, "log_level": 0})
        for done in admin.incremental_alter_configs([resource]).values():
            done.result()


@dataclass
class _Watched:
    """What the broker says of a group: who owns what, and for how long each partition had nobody."""

    size: int
    owners: Owners = field(default_factory=dict)
    assignor: str = ""
    whole: bool = False
    _alone: dict[Partition, int] = field(default_factory=dict)
    _longest_us: int = 0
    _at_us: int = 0

    def tell(self, sample: GroupSample, at_us: int) -> None:
        """Note a sample."""
        after = owners_after(self.owners, self.assignor, sample)
        for partition in self.owners.keys() - after.keys():
            self._alone.setdefault(partition, self._at_us)
        for partition in after.keys() & self._alone.keys():
            self._longest_us = max(self._longest_us, at_us - self._alone.pop(partition))
        self.owners, self._at_us = after, at_us
        self.assignor = sample.assignor or self.assignor
        self.whole = (
            sample.state == "Stable" and len(sample.members) == self.size and len(after) == _PARTITIONS
        )

    def forget(self) -> None:
        """Begin to measure."""
        self._longest_us = 0

    def worst_s(self) -> float:
        """Return the longest time for which a partition had no owner, in seconds."""
        return max([self._longest_us, *(self._at_us - at for at in self._alone.values())]) / 1e6


@contextmanager
def _watched(broker: Broker, group: str, size: int, folder: Path) -> Iterator[_Watched]:
    watched = _Watched(size)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    states = EvidenceWriter(folder / "evidence", "group_states", f"watch-{group}")
    watcher = GroupWatcher(admin, group, _SAMPLING_S, states, None, watched.tell, {})
    watcher.start()
    try:
        yield watched
    finally:
        watcher.stop()


def _silence(of_partitions: list[float]) -> dict[str, float]:
    return {
        "partitions": len(of_partitions),
        "stalled": sum(silence > _STALLED_S for silence in of_partitions),
        "stall_median_s": round(statistics.median(of_partitions), 2),
        "stall_worst_s": round(max(of_partitions), 2),
    }


def _whole(group: Group, watched: _Watched) -> bool:
    return watched.whole and group.reads(_PARTITIONS, 1.0)


def _await(condition: Any, what: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        if time.monotonic() >= deadline:
            raise ProxyTrialError(f"waited {_WAIT_S:.0f} s in vain until {what}")
        time.sleep(0.05)


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a Markdown table: a row for each proxy, size, signal and arm; medians, and the worst of all."""
    cases: dict[tuple[str, int, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        cases.setdefault((row["proxy"], row["members"], row["signal"], row["arm"]), []).append(row)
    lines = [
        "| proxy | members | ended by | group | n | gaps in 24 | gap, median | worst of all | unassigned "
        "| redelivered |",
        "|---|--:|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    order = {name: at for at, name in enumerate((*SIGNALS, *ARMS))}
    for case in sorted(cases, key=lambda c: (c[0], c[1], order[c[2]], order[c[3]])):
        found = cases[case]

        def middle(key: str, found: list[Mapping[str, Any]] = found) -> float:
            return float(statistics.median(row[key] for row in found))

        lines.append(
            f"| {' | '.join(map(str, case))} | {len(found)} | {middle('stalled'):g} "
            f"| {middle('stall_median_s'):.1f} s | {max(row['stall_worst_s'] for row in found):.1f} s "
            f"| {middle('ownerless_worst_s'):.1f} s | {middle('redelivered'):g} |"
        )
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.rebalance.proxies",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--archive", type=Path, help="of a kafka-rest (default: the sandbox)")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3600, help="none begins later (default: 3600)")
    parser.add_argument("--first", type=int, default=0, help="the variant that begins, a number (default: 0)")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS), metavar="ARM")
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=list(SIGNALS), metavar="SIGNAL")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="N")
    parser.add_argument("--load", default="quiet", help="what else ran, noted with each row")
    parser.add_argument("--rows", type=Path, default=ROWS, help="where rows are kept")
    parser.add_argument("--table", action="store_true", help="print the table of the rows that are kept")
    return parser


if __name__ == "__main__":
    leave(main())
