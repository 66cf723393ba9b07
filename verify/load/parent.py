"""The parent of a load: checks, starts the processes, leads them through the phases, and always ends them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from kedge.evidence.listing import files_of
from kedge.evidence.load_options import ClusterTopic, LoadError, LoadSpec
from kedge.evidence.load_state import ENOUGH, HOLD, OF_CANARY, Phase
from kedge.evidence.record import run_tag
from verify.load import cluster
from verify.load.actors import REST_CONSUMERS, WATCH, group_actor, lanes, workers
from verify.load.board import ActorState, Board, Cell, Head
from verify.load.generator_hosts import Generator, RemoteWorker, spread
from verify.load.mirrored import Mirrored
from verify.load.progress import (
    LINE_EVERY_S,
    STATE_EVERY_S,
    RunFacts,
    TopicFacts,
    progress,
    run_document,
    write_run,
    write_state,
)
from verify.load.rest_probe import probe
from verify.load.unfinished import mend_ledger
from verify.process import Ending, end_all, last_line, now_us, start_module

_READY_S: Final = 90.0
_END_S: Final = 20.0
_TICK_S: Final = 0.1
_ASK_EVERY_TICKS: Final = 3
_WATCH_EVERY_S: Final = 1.0
#: From an order until it holds, so that every producer has seen it; and where orders cross the network.
_LEAD_US: Final = 200_000
_FAR_LEAD_US: Final = 2_000_000
#: What the evidence of generators may take to come here.
_FETCH_S: Final = 120.0

Worker = subprocess.Popen[bytes] | RemoteWorker


class WorkerDiedError(Exception):
    """A process of the load ended by itself; the text says which and what it said last."""


class InterruptedLoadError(Exception):
    """SIGTERM or SIGINT came before the load's end."""


def run_load(
    load: LoadSpec, run_dir: Path, ending: Ending, reached: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Run the load of a run's folder to its end; ``reached`` has the command of each generator's agent.

    Raises LoadError when something has to be mended before it can run, WorkerDiedError when one of its
    processes ended by itself, InterruptedLoadError when told to end. In each case all processes have ended,
    evidence and run.json hold what is known, and ``ended_us`` is null.
    """
    _Run(load, run_dir, ending, reached or {}).run()


class _Run:
    def __init__(
        self, load: LoadSpec, run_dir: Path, ending: Ending, reached: Mapping[str, Sequence[str]]
    ) -> None:
        self._load = load
        self._reached = reached
        self._lead_us = _FAR_LEAD_US if load.generators else _LEAD_US
        self._end_s = _END_S + (_FETCH_S if load.generators else 0)
        self._dir = run_dir
        self._ending = ending
        self._facts = RunFacts()
        self._admins: dict[str, AdminClient] = {}
        self._mirrored = Mirrored(load)
        self._board: Board | None = None
        self._workers: dict[str, Worker] = {}
        self._watch_due = 0.0
        self._phase: Phase = "starting"
        self._message = ""
        self._began = time.monotonic()
        self._state_due = 0.0
        self._line_due = 0.0
        self._line_before = (0.0, 0)

    def run(self) -> None:
        """Lead through the phases."""
        write_state(self._dir, "starting", None)
        try:
            self._check()
            board = self._start()
            self._await_ready(board)
            self._load_until_enough(board)
            self._drain(board)
            self._end(board)
            self._facts.ended_us = now_us()
            self._phase = "done"
        except Exception as error:
            self._phase, self._message = "failed", str(error)
            raise
        finally:
            self._leave()

    def _check(self) -> None:
        """Look at everything that the load needs, before anything is started."""
        for place in self._load.places():
            if place.cluster not in self._admins:
                self._admins[place.cluster] = cluster.connect(self._load, place.cluster)
            admin = self._admins[place.cluster]
            count = cluster.partitions(admin, place.topic)
            policy, retention_ms = cluster.topic_config(admin, place.topic)
            self._facts.topics[place] = TopicFacts(count, policy, retention_ms, {})
        mirrored = {mirror.source.topic for mirror in self._load.mirrors}
        # A copy of the probe may come when the target's offsets are noted: it would be none of the run's.
        if self._load.rest and self._load.rest.topic not in mirrored and not os.environ.get(OF_CANARY):
            probe(self._load.rest)
        for place, topic in self._facts.topics.items():
            topic.start = cluster.offsets(self._admins[place.cluster], place.topic, topic.partitions)
        for group, (_, name, _) in self._load.groups().items():
            admin = self._admins[self._load.cluster]
            cluster.place_group(admin, group, name, self._loaded(name).start)

    def _loaded(self, topic: str) -> TopicFacts:
        return self._facts.topics[ClusterTopic(cluster=self._load.cluster, topic=topic)]

    def _start(self) -> Board:
        plan = workers(self._load)
        self._board = Board(self._dir, [actor for actors in plan.values() for actor in actors], create=True)
        self._facts.started_us = now_us()
        self._write_run()
        (self._dir / "logs").mkdir(exist_ok=True)
        afar = spread(self._load)
        for host, names in afar.items():
            generator = Generator(host, self._reached[host], self._load, names, self._dir)
            self._workers |= generator.workers
            generator.begin(json.loads((self._dir / "load.json").read_text(encoding="utf-8")), self._board)
            self._facts.generators[host] = generator.clock
        here = sorted(plan.keys() - self._workers.keys())
        together = [name for name in here if name != WATCH] if os.environ.get(OF_CANARY) else []
        for names in [together] * bool(together) + [[name] for name in here if name not in together]:
            self._start_worker(*names)
        return self._board

    def _start_worker(self, *names: str) -> None:
        log = self._dir / "logs" / f"{names[0]}.log"
        words = (self._dir, ",".join(names), os.getpid())
        self._workers |= dict.fromkeys(names, start_module("verify.load.worker", *words, log=log))

    def _await_ready(self, board: Board) -> None:
        actors = [actor for part in workers(self._load).values() for actor in part]
        self._await(
            lambda: board.all_at_least(actors, ActorState.READY),
            _READY_S,
            "the load's processes are not ready",
        )
        for group, (via, topic, members) in self._load.groups().items():
            cells, count = board.cells(group_actor(via)), self._loaded(topic).partitions
            deadline = time.monotonic() + _READY_S
            while lacks := cluster.group_lacks(cells, group, count, members):
                if time.monotonic() >= deadline:
                    said = f": {self._last_line(REST_CONSUMERS)}" if via == "rest" else ""
                    raise LoadError(f"{lacks} after {_READY_S:.0f} s{said}; see {self._dir / 'logs'}")
                self._tick(board)

    def _load_until_enough(self, board: Board) -> None:
        go = now_us() + self._lead_us
        self._facts.started_us = go
        self._write_run()
        board.head[Head.GO] = go
        self._began = time.monotonic()
        self._line_before = (0.0, 0)
        self._phase = "warming"
        while not self._enough(board):
            if self._loaded_s() >= self._load.warm_up_s:
                self._phase = "running"
            self._tick(board)

    def _loaded_s(self) -> float:
        """Return for how long the load goes on, also where somebody sets the clock meanwhile."""
        return time.monotonic() - self._began - self._lead_us / 1e6

    def _enough(self, board: Board) -> bool:
        elapsed_s = self._loaded_s()
        if elapsed_s >= self._load.max_s or (self._dir / ENOUGH).exists():
            return True
        if elapsed_s < self._load.min_s or board.total(Cell.ACKED) < self._load.min_records:
            return False
        return (self._dir / "stop").exists()

    def _drain(self, board: Board) -> None:
        stop = now_us() + self._lead_us
        deadline = time.monotonic() + self._lead_us / 1e6 + self._load.drain_s
        board.head[Head.FLUSH_UNTIL] = stop + int(self._load.drain_s * 1_000_000)
        board.head[Head.STOP] = stop
        self._facts.measured_until_us = stop
        self._phase = "draining"
        self._write_run()
        # A request that left last may take its whole time.
        answers_s = self._load.rest.request_timeout_s if self._load.rest else 0.0
        self._await(
            lambda: board.all_at_least(self._producers(), ActorState.DONE),
            self._lead_us / 1e6 + self._load.drain_s + answers_s + _END_S,
            "the producers do not end",
        )
        held = self._dir / HOLD
        while not self._all_delivered(last=time.monotonic() >= deadline) or held.exists():
            if time.monotonic() >= deadline:
                return
            for _ in range(_ASK_EVERY_TICKS):
                self._tick(board)

    def _producers(self) -> list[str]:
        """Return the producers that are heard of."""
        found = [lane.actor for lane in lanes(self._load)]
        return [actor for actor in found if not self._refused(actor)]

    def _all_delivered(self, last: bool) -> bool:
        """Note the end offsets and tell whether groups and mirrors have come to them; it may take a while."""
        try:
            loaded = {ClusterTopic(cluster=self._load.cluster, topic=topic) for topic in self._load.topics()}
            copies = self._facts.topics.keys() - loaded
            if not all(self._facts.topics[place].end for place in loaded):
                self._note_offsets(loaded)
            self._note_offsets(copies)
            done = self._caught_up() and self._mirrored.caught_up(self._facts.topics)
            # What was copied since they were asked belongs to the run as well.
            self._note_offsets(copies if done else ())
            return done
        except LoadError:
            if last:
                raise
            return False

    def _note_offsets(self, places: Iterable[ClusterTopic]) -> None:
        for place in places:
            topic, admin = self._facts.topics[place], self._admins[place.cluster]
            topic.log_start = cluster.offsets(admin, place.topic, topic.partitions, earliest=True)
            topic.end = cluster.offsets(admin, place.topic, topic.partitions)
        self._write_run()

    def _caught_up(self) -> bool:
        for group, (_, name, _) in self._load.groups().items():
            end = self._loaded(name).end
            committed = cluster.committed(self._load, group, name, len(end))
            if any(committed.get(partition, -1) < offset for partition, offset in end.items()):
                return False
        return True

    def _end(self, board: Board) -> None:
        board.head[Head.END] = now_us()
        deadline = time.monotonic() + self._end_s
        while any(worker.poll() is None for worker in self._workers.values()):
            if time.monotonic() >= deadline:
                slow = [name for name, worker in self._workers.items() if worker.poll() is None]
                raise WorkerDiedError(
                    f"{', '.join(slow)} did not end within {self._end_s:.0f} s; see {self._dir / 'logs'}"
                )
            self._tick(board)

    def _await(self, condition: Callable[[], bool], limit_s: float, otherwise: str) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() >= deadline:
                raise LoadError(f"{otherwise} after {limit_s:.0f} s; see {self._dir / 'logs'}")
            self._tick(self._board)

    def _tick(self, board: Board | None) -> None:
        """Pass a moment: note ends and signals, tell the state."""
        time.sleep(_TICK_S)
        if self._ending:
            raise InterruptedLoadError(f"ended by signal {self._ending.signal}; the evidence so far is kept")
        for name, worker in self._workers.items():
            if self._ended_early(name, worker) and not (self._refused(name) or self._watches_again(name)):
                raise WorkerDiedError(
                    f"{name} ended with status {worker.returncode}: {self._last_line(name)}"
                )
        if board is not None:
            self._say(board)

    def _ended_early(self, name: str, worker: Worker) -> bool:
        """Tell whether a process is gone that should not be, whatever its status."""
        status = worker.poll()
        if status is None or self._board is None:
            return False
        may_end = self._board.head[Head.STOP if "producer" in name else Head.END]
        return status != 0 or not may_end

    def _refused(self, name: str) -> bool:
        """Tell whether a process is a host's of which nothing is taken any more: the run goes on without it.

        Before the first record is sent, there is no run yet, and that host is what it lacks.
        """
        worker = self._workers.get(name)
        if not isinstance(worker, RemoteWorker) or not worker.refused or self._phase == "starting":
            return False
        if worker.host not in self._facts.refused:
            self._facts.refused[worker.host] = worker.refused
            print(f"load_generator {worker.host}: {worker.refused}; its evidence is missing", flush=True)
        return True

    def _watches_again(self, name: str) -> bool:
        """Start the watcher anew: librdkafka may have aborted it. What it missed is a gap in its samples."""
        if name != WATCH or self._board is None:
            return False
        if time.monotonic() >= self._watch_due:
            self._watch_due = time.monotonic() + _WATCH_EVERY_S
            self._start_worker(name)
        return True

    def _say(self, board: Board) -> None:
        now = time.monotonic()
        if now >= self._state_due:
            self._state_due = now + STATE_EVERY_S
            write_state(self._dir, self._phase, board)
        if now >= self._line_due:
            self._line_due = now + LINE_EVERY_S
            print(self._line(board), flush=True)

    def _line(self, board: Board) -> str:
        elapsed_s = time.monotonic() - self._began
        line = progress(self._load, board, self._phase, elapsed_s, self._line_before)
        self._line_before = (elapsed_s, board.total(Cell.ACKED))
        return line

    def _last_line(self, name: str) -> str:
        return last_line(self._dir / "logs" / f"{name}.log") or "it said nothing"

    def _leave(self) -> None:
        """End whatever still runs, then complete the evidence with what the board knows."""
        end_all(self._workers.values(), self._end_s)
        if self._board is not None:
            self._mend(self._board)
            self._facts.files = files_of(self._dir / "evidence")
            self._write_run()
            print(self._line(self._board), flush=True)
        # Whoever waits for the end of the load finds everything else written.
        write_state(self._dir, self._phase, self._board, self._message)

    def _mend(self, board: Board) -> None:
        """Give every record that may have left a row in the ledger, of which its host told."""
        go = int(board.head[Head.GO])
        for lane in lanes(self._load) if go else []:
            cells = board.cells(lane.actor)
            tag = run_tag(self._load.run_id)
            cells[Cell.UNKNOWN] += mend_ledger(self._dir / "evidence", tag, lane, int(cells[Cell.SENT]), go)

    def _write_run(self) -> None:
        write_run(self._dir, run_document(self._load, self._facts, self._board))
