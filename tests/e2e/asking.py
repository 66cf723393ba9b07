"""Clients that produce through a balancer while something changes, and must notice nothing of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx

GOOD: Final = "good"
#: At least so many requests have to have been answered for a change to have been seen.
SEEN: Final = 100


@contextmanager
def asking(balancer: str, login: tuple[str, str] | None = None) -> Iterator[Counter[str]]:
    """Produce through the balancer all the while, a connection a request; count the answers."""
    answers: Counter[str] = Counter()
    done = threading.Event()

    def ask() -> None:
        while not done.wait(0.05):
            answers[_produced(balancer, login)] += 1

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        done.set()
        for thread in threads:
            thread.join()


def none_failed(answers: Counter[str]) -> None:
    """Assert that every request was answered with an offset, and that there were enough of them."""
    assert list(answers) == [GOOD], answers
    assert answers[GOOD] >= SEEN


def _produced(balancer: str, login: tuple[str, str] | None) -> str:
    """Produce a record; return ``GOOD``, or what is wrong with the answer."""
    try:
        said = httpx.post(
            f"{balancer}/topics/kedge-ready",
            headers={"Content-Type": "application/vnd.kafka.binary.v2+json"},
            json={"records": [{"value": "a2VkZ2U="}]},
            auth=login,
            timeout=70,
            verify=False,  # no TLS here: authorities would be read for each request
        )
        entry = said.json().get("offsets", [{}])[0]
    except (httpx.HTTPError, ValueError) as error:
        return repr(error)
    return GOOD if isinstance(entry.get("offset"), int) else said.text[:200]
