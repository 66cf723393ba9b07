"""What is known of a canary at once, as OpenMetrics: of loads while they run, and of the last audit."""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from kedge.evidence.canary import (
    CanaryConfig,
    WindowResult,
    WindowVerdict,
    folders,
    read_result,
    thresholds,
)
from kedge.evidence.load_options import LoadError, LoadSpec, read_load
from kedge.evidence.run import REST_INSTANCE
from verify.canary.windows import RunningWindow, sending
from verify.load.actors import lanes, mirror_actor, workers
from verify.load.board import Board, Cell

#: Bounds of the histograms (s); the levels of service_levels are bounds as well.
_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_OUTCOMES: Final = {"acked": Cell.ACKED, "failed": Cell.FAILED, "unknown": Cell.UNKNOWN}
#: A kind of file is looked at this often; boards, which are read from memory, with every step.
_FILES_S: Final = 1.0
_LABELS: Final = ("cluster", "topic", "path")
#: Anomalies of a window are told by these names at most: they come from the checks, whose number is bounded.
_KINDS: Final = 60

Way = tuple[str, str, str]


class Took(NamedTuple):
    """Latencies of new rows in seconds, and their outcomes where the board does not have them."""

    way: Way
    seconds: list[float]
    outcomes: collections.Counter[str]


class Live:
    """The figures of a canary; :meth:`look` brings them up to date."""

    def __init__(self, config: CanaryConfig, home: Path) -> None:
        self._config, self._home = config, home
        self.registry = registry = CollectorRegistry()

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"kedge_canary_{name}", what, labels, registry=registry)

        def gauge(name: str, what: str, *labels: str) -> Gauge:
            return Gauge(f"kedge_canary_{name}", what, labels, registry=registry)

        def histogram(kind: Literal["ack", "delivery"], to: str) -> Histogram:
            what = f"From the time at which a record was to be sent to {to}."
            levels = {bound for one in (config.levels, config.steady) for bound in thresholds(one, kind)}
            bounds = sorted(levels.union(_BOUNDS))
            return Histogram(f"kedge_canary_{kind}_seconds", what, _LABELS, buckets=bounds, registry=registry)

        self._records = counter("records", "Records by their outcome.", *_LABELS, "outcome")
        self._sent = counter("sent", "Records that were sent.", *_LABELS)
        self._delivered = counter(
            "delivered",
            "Records that consumers got; of a mirror, offsets by which its target has grown.",
            *_LABELS,
        )
        self._took = {
            "ack": histogram("ack", "its acknowledgement"),
            "delivery": histogram("delivery", "its delivery"),
        }
        self._ages = {
            "ack": gauge("last_ack_age_seconds", "Since the last acknowledgement.", "cluster", "path"),
            "delivery": gauge("last_delivery_age_seconds", "Since the last delivery.", "cluster", "path"),
        }
        self._planned = gauge("planned", "1 while a change is announced.", "cluster")
        self._sending = gauge("sending", "1 while a window sends.", "cluster")
        audited = "the window that was audited last"
        self._verdict = gauge("window_verdict", f"1 for the verdict of {audited}.", "cluster", "verdict")
        self._anomalies = gauge("anomalies", f"Of {audited}.", "cluster", "kind")
        self._window_end = gauge("window_end_timestamp_seconds", f"End of {audited}.", "cluster")
        self._audited = gauge("audit_timestamp_seconds", "When a window was audited last.", "cluster")
        self._kept = gauge("windows", "Windows that are kept, by verdict.", "cluster", "verdict")
        self._began = time.time()
        self._clusters = sorted({load.cluster for load in config.loads})
        self._of_windows: dict[str, _OfWindow] = {}
        self._last: dict[tuple[str, str, str], float] = {}
        self._files_due = 0.0
        self._results: dict[Path, WindowResult] = {}

    def serve(self) -> None:
        """Answer at the planned address; raises OSError."""
        start_http_server(self._config.scrape_port, self._config.scrape_address, registry=self.registry)

    def look(self, windows: list[RunningWindow], planned: set[str]) -> None:
        """Bring all figures up to date."""
        with_files = time.monotonic() >= self._files_due
        if with_files:
            self._files_due = time.monotonic() + _FILES_S
            self._look_at_results()
        for cluster in self._clusters:
            self._planned.labels(cluster).set(bool(planned))
            self._sending.labels(cluster).set(any(map(sending, windows)))
        for window in windows:
            one = self._of_windows.setdefault(window.run_id, _OfWindow(window.folder))
            self._count(one)
            if with_files:
                self._observe(one)
        for run_id in self._of_windows.keys() - {window.run_id for window in windows}:
            gone = self._of_windows.pop(run_id)
            self._count(gone)
            self._observe(gone, ended=True)
        now = time.monotonic()
        for (kind, cluster, path), at in self._last.items():
            self._ages[kind].labels(cluster, path).set(now - at)

    def _count(self, one: _OfWindow) -> None:
        for way, counts in one.counted().items():
            for outcome in _OUTCOMES.keys() & counts.keys():
                self._records.labels(*way, outcome).inc(counts[outcome])
            for counter, what in ((self._sent, "sent"), (self._delivered, "delivered")):
                if what in counts:
                    counter.labels(*way).inc(counts[what])
            for kind, what in (("ack", "acked"), ("delivery", "delivered")):
                # What counts is that any turn's topic goes on.
                of = (kind, way[0], way[2])
                if counts.get(what) or (what in counts and of not in self._last):
                    self._last[of] = time.monotonic()

    def _observe(self, one: _OfWindow, *, ended: bool = False) -> None:
        for kind, histogram in self._took.items():
            for took in one.took(kind, ended=ended):
                child = histogram.labels(*took.way)
                for each in took.seconds:
                    child.observe(each)
                if took.outcomes:
                    self._count_of_files(took)

    def _count_of_files(self, took: Took) -> None:
        for outcome, count in took.outcomes.items():
            self._records.labels(*took.way, outcome).inc(count)
            self._sent.labels(*took.way).inc(count)
        if took.outcomes["acked"]:
            self._last["ack", took.way[0], took.way[2]] = time.monotonic()

    def _look_at_results(self) -> None:
        there = folders(self._home)
        for gone in self._results.keys() - set(there):
            del self._results[gone]
        for folder in there:
            known = self._results.get(folder)
            if (known is None or known.again_us) and (result := read_result(folder)) is not None:
                self._results[folder] = result
        last = max(self._results.values(), key=_end_us, default=None)
        for cluster in self._clusters:
            for verdict in get_args(WindowVerdict):
                kept = sum(one.verdict == verdict for one in self._results.values())
                self._kept.labels(cluster, verdict).set(kept)
                self._verdict.labels(cluster, verdict).set(last is not None and last.verdict == verdict)
            if last is None:
                # An audit that never works is late as well.
                self._window_end.labels(cluster).set(self._began)
                continue
            self._window_end.labels(cluster).set(_end_us(last) / 1e6)
            self._audited.labels(cluster).set(max(r.audited_us for r in self._results.values()) / 1e6)
            for kind in sorted({kind for r in self._results.values() for kind in r.anomalies})[:_KINDS]:
                self._anomalies.labels(cluster, kind).set(last.anomalies.get(kind, 0))


def _end_us(result: WindowResult) -> int:
    return result.window.ended_us or result.window.began_us


class _OfWindow:
    """What was counted of one window so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._load: LoadSpec | None = None
        self._board: Board | None = None
        #: The producer that sends to instances directly, if there is one.
        self._direct = -1
        self._counted: dict[tuple[Way, str], int] = {}
        #: By writer the number of its newest file that was read, and the rows until there. A writer that ends
        #: merges its files in their order, and gives the whole the oldest one's name.
        self._read: dict[tuple[str, str], tuple[int, int]] = {}

    def _open(self) -> LoadSpec | None:
        if self._board is None:
            # The load makes its board a while after its folder.
            with contextlib.suppress(OSError, ValueError, LoadError):
                self._load = self._load or read_load(self._folder)
                actors = [actor for part in workers(self._load).values() for actor in part]
                of_lanes = {lane.via: lane.producer for lane in lanes(self._load)}
                self._direct = of_lanes.get(REST_INSTANCE, -1)
                self._board = Board(self._folder, actors)
        return self._load

    def counted(self) -> Mapping[Way, Mapping[str, int]]:
        """Return what the processes counted since the last time: sent, outcomes, delivered.

        A mirror's way has only what its target grew by.
        """
        load = self._open()
        found: dict[Way, collections.Counter[str]] = {}
        if load is None or self._board is None:
            return found
        for lane in lanes(load):
            if lane.via == REST_INSTANCE:
                # Only its files have what each instance answered; the counters begin at zero before.
                for name in load.rest_instances:
                    way = _way_to(load, name, lane.topic)
                    found[way] = collections.Counter(dict.fromkeys([*_OUTCOMES, "sent"], 0))
                continue
            cells = self._board.cells(lane.actor)
            own = found.setdefault((load.cluster, lane.topic, lane.via), collections.Counter())
            own.update({outcome: int(cells[cell]) for outcome, cell in _OUTCOMES.items()})
            own["sent"] += int(cells[Cell.SENT])
        for via, topic, _ in load.groups().values():
            actors = [a for part in workers(load).values() for a in part if a.startswith(f"{via}-consumer")]
            got = sum(int(self._board.cells(actor)[Cell.DELIVERED]) for actor in actors)
            found[load.cluster, topic, via]["delivered"] = got
        sent_by = {part.topic: via for via, part in (("kafka", load.kafka), ("rest", load.rest)) if part}
        for place, mirror in enumerate(load.mirrors):
            # By both ways, so that a topic which is copied does not hide one that is not.
            # A copy that is copied once more was sent by neither.
            sent = sent_by.get(mirror.source.topic)
            path = "-".join(filter(None, ("mirror", mirror.target.cluster, sent)))
            way = (load.cluster, mirror.target.topic, path)
            copied = int(self._board.cells(mirror_actor(place))[Cell.COPIED])
            found[way] = collections.Counter(delivered=copied)
        return {
            way: {what: self._more(way, what, count) for what, count in counts.items()}
            for way, counts in found.items()
        }

    def _more(self, way: Way, what: str, now: int) -> int:
        more = max(0, now - self._counted.get((way, what), 0))
        self._counted[way, what] = max(now, self._counted.get((way, what), 0))
        return more

    def took(self, kind: str, *, ended: bool = False) -> list[Took]:
        """Return what new files have, by way; what is left of them once ended."""
        load = self._open()
        table, until = ("ledger", "acked_us") if kind == "ack" else ("deliveries", "received_us")
        names = ["topic", "via", "producer", "intended_us", until]
        names += ["seq", "outcome"] if kind == "ack" else []
        found: list[Took] = []
        files = sorted(
            (self._folder / "evidence" / table).glob("[!.]*.parquet"),
            key=lambda path: int(path.stem.rpartition("-")[2]),
        )
        if load is None:
            return found
        passed: dict[str, int] = {}
        for path in files:
            writer, _, number = path.stem.rpartition("-")
            newest, before = self._read.get((table, writer), (-1, 0))
            if not ended and int(number) <= newest:
                continue
            # A file that is being merged: its rows are read once the load has ended.
            with contextlib.suppress(OSError, ValueError):
                rows = pq.read_table(path, columns=names, partitioning=None)
                skipped = max(0, before - passed.get(writer, 0)) if ended else 0
                passed[writer] = passed.get(writer, 0) + rows.num_rows
                rows = rows.slice(min(skipped, rows.num_rows))
                self._read[table, writer] = int(number), before + rows.num_rows
                found += self._by_way(load, rows, until)
        return found

    def _by_way(self, load: LoadSpec, rows: pa.Table, until: str) -> Iterator[Took]:
        """Yield rows of one file: of one topic and interface, or by instance where these take turns."""
        if not rows.num_rows:
            return
        topic, via = (str(rows[name][0].as_py()) for name in ("topic", "via"))
        if via == REST_INSTANCE and "seq" in rows.column_names:
            turns = load.instances_in_turn()
            which = np.asarray(rows["seq"]) % len(turns)
            for number in np.unique(which).tolist():
                mine = rows.filter(pa.array(which == number))
                outcomes = collections.Counter(mine["outcome"].to_pylist())
                yield Took(_way_to(load, turns[number], topic), _seconds(mine, until), outcomes)
            return
        # A group that reads what the balancer took also reads what instances got directly.
        rows = rows.filter(pc.not_equal(rows["producer"], self._direct))
        yield Took((load.cluster, topic, via), _seconds(rows, until), collections.Counter())


def _way_to(load: LoadSpec, instance: str, topic: str) -> Way:
    return load.cluster, topic, f"rest-{instance}"


def _seconds(rows: Any, until: str) -> list[float]:
    rows = rows.filter(pc.is_valid(rows[until]))
    took = np.asarray(rows[until]) - np.asarray(rows["intended_us"])
    return [float(one) for one in np.maximum(took, 0) / 1e6]
