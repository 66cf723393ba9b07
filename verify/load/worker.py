"""One process of a load, started by verify.load: `python -m verify.load.worker RUN_DIR NAME,... PARENT`.

Each name is a thread of it.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from confluent_kafka import KafkaException

from kedge.evidence.load_options import read_load
from kedge.evidence.writing import EvidenceWriter
from verify.load import kafka_consumer, kafka_producer, rest_consumers, rest_producers
from verify.load.actors import REST_CONSUMERS, WATCH, lanes, workers
from verify.load.board import Board
from verify.process import Ending, die_with_parent, go_first, leave
from verify.watch import watchers


def main(run_dir: Path, names: list[str], parent: int) -> int:
    """Run the actors of one process until the board says end; 0 when they ended in order."""
    ending = Ending()
    die_with_parent(parent)
    go_first()
    if len(names) == 1:
        return _run(run_dir, names[0], ending)
    with ThreadPoolExecutor(len(names)) as pool:
        running = [pool.submit(_run, run_dir, name, ending) for name in names]
        for ended in as_completed(running):
            if ended.exception() is not None:
                traceback.print_exception(ended.exception())
            # The others would go on: the load ends as it does where a process of it ends.
            if ended.exception() is not None or ended.result():
                leave(1)
    return 0


def _run(run_dir: Path, name: str, ending: Ending) -> int:
    load = read_load(run_dir)
    actors = workers(load)[name]
    board = Board(run_dir, [actor for part in workers(load).values() for actor in part])
    evidence = run_dir / "evidence"
    try:
        if name == WATCH:
            watchers.run(load, board, evidence, ending)
        elif name == REST_CONSUMERS:
            asyncio.run(rest_consumers.run(load, actors, board, evidence, ending))
        elif name.startswith("kafka-consumer-"):
            deliveries = EvidenceWriter(evidence, "deliveries", name)
            assignments = EvidenceWriter(evidence, "assignments", name)
            kafka_consumer.run(load, name, board, deliveries, assignments, ending)
        else:
            lane = next(lane for lane in lanes(load) if lane.actor == name)
            ledger = EvidenceWriter(evidence, "ledger", name)
            if lane.via != "kafka":
                asyncio.run(rest_producers.run(load, lane, board, ledger, ending))
            else:
                kafka_producer.run(load, lane, board, ledger, ending)
    except KafkaException as error:
        print(f"{name}: {error.args[0].str()}", file=sys.stderr, flush=True)
        return 1
    except rest_consumers.ConsumerRefusedError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    except OSError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    leave(main(Path(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])))
