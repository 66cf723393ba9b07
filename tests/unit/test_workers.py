"""Workers of this machine: as many as a master means, in order, and one that is ended is one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from evidence.errors import EvidenceError
from spark_checks.engine import workers


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    workers.stop()


def end_itself(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def refuse(number: int) -> int:
    raise ValueError(f"CANNOT_READ_FILE /evidence/{number}.parquet")


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[2, 4]", 2), ("local[*]", os.cpu_count()), ("yarn", 0),
     ("spark://leader:7077", 0), ("local-cluster[2,1,1024]", 0), ("k8s://https://h:1", 0)],
)  # fmt: skip
def test_a_local_master_means_cores_of_this_machine_and_no_other_does(master: str, cores: int) -> None:
    assert workers.cores_here(master) == cores


def test_what_tasks_make_comes_in_their_order_from_other_processes() -> None:
    assert workers.run(2, abs, [-3, 2, -1]) == [3, 2, 1]
    assert workers.processes()
    assert os.getpid() not in workers.processes()


def test_what_a_task_raises_is_raised_here() -> None:
    with pytest.raises(ValueError, match=r"CANNOT_READ_FILE /evidence/1\.parquet"):
        workers.run(2, refuse, [1, 2])


def test_a_worker_that_is_ended_is_one_line_and_the_next_ones_work() -> None:
    with pytest.raises(EvidenceError, match="want of memory"):
        workers.run(2, end_itself, [1, 2, 3])
    assert workers.run(2, abs, [-1]) == [1]


def test_workers_end_with_a_process_that_does_not_end_them() -> None:
    leaving = "\n".join(
        (
            "import os",
            "from spark_checks.engine import workers",
            "if __name__ == '__main__':",
            "    workers.run(2, abs, [-1])",
            "    print('done', flush=True)",
            "    os._exit(0)",
        )
    )
    # Its output is open for as long as one of them is there.
    done = subprocess.run(
        [sys.executable, "-c", leaving], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "done\n"
