"""``python -m kedge.deploy.gate_watch``: watches groups while a playbook runs, and answers its gates.

A gate that made a connection of its own for each instance, and watched anew what breathes with the commits,
took seconds an instance. This process keeps one connection, and has seen the seconds before it is asked. It
reads what to watch from its standard input, a JSON object (passwords stand on no command line), and answers
on a socket that only its owner may use. It ends with the playbook.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from kedge.deploy.group_gate import GateDecision, Groups, Look, Looker, Progress, Question, decide

POLL_SECONDS: Final = 0.2
#: Looks that are kept: the longest baseline is a commit's interval.
_LOOKS: Final = 1000
_LATE_SECONDS: Final = 60


class Watch:
    """Looks again and again, and answers questions from what it saw."""

    def __init__(self, looker: Callable[[], Groups]) -> None:
        self._looker = looker
        self._looks: deque[Look] = deque(maxlen=_LOOKS)
        self._known: dict[str, int] = {}
        self._members: Sequence[tuple[str, str]] = ()
        self._progress = Progress()
        self._news = threading.Condition()

    def look(self) -> None:
        """Look once, and tell who waits."""
        began, groups = time.monotonic(), None
        try:
            groups = self._looker()
            seen = Look(began, time.monotonic(), groups.states, groups.lags)
        except ConnectionError as error:
            seen = Look(began, time.monotonic(), error=str(error))
        with self._news:
            if groups:
                self._progress.see(groups.offsets, began)
                self._members = groups.members
            self._looks.append(seen)
            self._news.notify_all()

    def run(self, alive: Callable[[], bool]) -> None:
        """Look until nobody needs it any more; as long as a look took is waited at least."""
        while alive():
            self.look()
            time.sleep(max(POLL_SECONDS, self._looks[-1].ended - self._looks[-1].began))

    def ask(self, question: Question) -> GateDecision:
        """Wait for the answer to a question."""
        late = question.asked + question.seconds + _LATE_SECONDS
        with self._news:
            while True:
                now = time.monotonic()
                stands = self._progress.stands(question.asked)
                answer = decide(question, list(self._looks), self._known, now, stands)
                if answer is not None:
                    if question.kind == "before" and answer.wrong is None:
                        self._known = dict(answer.lags)
                        self._progress.take_as_usual(answer.lags, question.commits)
                    return replace(answer, members=self._members)
                if now > late:
                    return GateDecision({}, f"after {question.seconds:g} s no look came to its end")
                self._news.wait(1)


def serve(path: Path, watch: Watch) -> socket.socket:
    """Answer questions at a socket, each connection in a thread; return the socket that listens."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    path.chmod(0o600)
    listening.listen(64)

    def answer(connection: socket.socket) -> None:
        # Whoever connected may be gone before the question, or before the answer.
        with suppress(ConnectionError), connection, connection.makefile("rw") as stream:
            line = stream.readline()
            if not line.endswith("\n"):
                return
            asked = json.loads(line)
            answered = watch.ask(Question(**asked, asked=time.monotonic()))
            stream.write(json.dumps(asdict(answered)) + "\n")

    def accept() -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listening


def runs(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main() -> int:
    """Watch until the playbook has ended."""
    wanted: dict[str, Any] = json.loads(sys.stdin.readline())
    path, playbook = Path(wanted["socket"]), int(wanted["playbook"])
    watch = Watch(Looker(wanted["where"]))
    made = path.with_suffix(".new")
    listening = serve(made, watch)
    made.replace(path)  # whoever finds it finds it answering
    watch.run(lambda: runs(playbook) and path.exists())
    listening.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
