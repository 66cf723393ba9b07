"""A member of a consumer group, in a process of its own: the load's consumer, without the load around it.

    python -m lab.bench.rebalance.member RUN_DIR GROUP NAME PARENT

``RUN_DIR/load.json`` says which topic; ``RUN_DIR/members/GROUP.json`` the consumer's librdkafka keys. What it
gets and owns goes into the run's evidence. It ends in order by SIGTERM.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from confluent_kafka import KafkaException

from kedge.evidence.load_options import read_load
from kedge.evidence.writing import EvidenceWriter
from verify.load import kafka_consumer
from verify.load.board import Board
from verify.process import Ending, die_with_parent, leave


def main(run_dir: Path, group: str, name: str, parent: int) -> int:
    """Consume until told to end; 0 when it ended in order."""
    ending = Ending()
    die_with_parent(parent)
    load = read_load(run_dir)
    if load.kafka is None:
        raise ValueError("the load has no part by the Kafka protocol")
    config = json.loads((run_dir / "members" / f"{group}.json").read_text(encoding="utf-8"))
    mine = load.model_copy(
        update={"kafka": load.kafka.model_copy(update={"group": group, "consumer": config})}
    )
    folder = run_dir / "members" / name
    folder.mkdir(parents=True, exist_ok=True)
    board = Board(folder, [name], create=True)
    evidence = run_dir / "evidence"
    deliveries = EvidenceWriter(evidence, "deliveries", name)
    assignments = EvidenceWriter(evidence, "assignments", name)
    try:
        kafka_consumer.run(mine, name, board, deliveries, assignments, ending)
    except KafkaException as error:
        print(f"{name}: {error.args[0].str()}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    leave(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
