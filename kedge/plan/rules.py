"""What the page of rules says of each, and since which release it gives the values that it gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

#: The release that brought every rule which is not named below.
_FIRST: Final = "0.1.0"
#: Rules that a later release brought, changed or took away, with the last release that did; CHANGELOG.md
#: names each under that release.
CHANGED: Final[Mapping[str, str]] = {
    "balancer.bind": "0.2.0",
    "balancer.health": "0.2.0",
    "balancer.limits": "0.2.0",
    "broker.cluster": "0.2.0",
    "canary.cluster": "0.2.0",
    "canary.judged": "0.2.0",
    "canary.keep": "0.2.0",
    "canary.login": "0.2.0",
    "canary.memory": "0.2.0",
    "canary.mirror": "0.2.0",
    "canary.rest": "0.2.0",
    "canary.scrape": "0.2.0",
    "canary.share": "0.2.0",
    "canary.topic": "0.2.0",
    "canary.window": "0.2.0",
    "client.stores": "0.2.0",
    "inventory.example": "0.2.0",
    "inventory.facts": "0.2.0",
    "inventory.hidden": "0.2.0",
    "clients.poll": "0.2.0",
    "clients.session": "0.2.0",
    "clients.transactions": "0.2.0",
    "java.flags": "0.2.0",
    "jetty.idle": "0.2.0",
    "mirror.cores": "0.2.0",
    "mirror.flows": "0.2.0",
    "mirror.heap": "0.2.0",
    "mirror.replication": "0.2.0",
    "mirror.producer.buffer": "0.2.0",
    "mirror.producer.retries": "0.2.0",
    "mirror.round_trip": "0.2.0",
    "rest.consumer.pause": "0.2.0",
    "rest.consumers_via": "0.2.0",
    "rest.identity": "0.2.0",
    "rest.consumer.poll_records": "0.2.0",
    "rest.consumer.threads": "0.2.0",
    "rest.cores.readers": "0.2.0",
    "rest.heap.consumers": "0.2.0",
    "rest.host_check": "0.2.0",
    "rest.instances": "0.2.0",
    "rest.load": "0.2.0",
    "rest.producer.batch": "0.2.0",
    "rest.producer.retries": "0.2.0",
    "rest.workload": "0.2.0",
    "review.balancer": "0.2.0",
    "review.twice": "0.2.0",
    "review.brokers": "0.2.0",
    "review.code": "0.2.0",
    "review.converter": "0.2.0",
    "review.login": "0.2.0",
    "review.loopback": "0.2.0",
    "review.missing": "0.2.0",
    "review.ports": "0.2.0",
    "review.tls": "0.2.0",
    "streams.cache": "0.2.0",
    "streams.offsets": "0.2.0",
    "streams.transactions": "0.2.0",
}


#: The page is data as well: of a clone, and as the wheel has it.
_PAGES: Final = (Path(__file__).with_name("rules.md"), Path(__file__).parents[2] / "docs" / "rules.md")
#: The column of the page that has the keys which a rule sets.
_SETS: Final = "sets"


@cache
def told() -> Mapping[str, Mapping[str, str]]:
    """Return the rows of the page by their rules: what each column says, without markup, the keys apart."""
    found: dict[str, dict[str, str]] = {}
    columns: list[str] = []
    for line in next(page for page in _PAGES if page.exists()).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")] if line.startswith("| ") else []
        if cells[:1] == ["rule"]:
            columns = cells
        elif cells and columns:
            cells += [""] * (len(columns) - len(cells))
            of = found.setdefault(_plain(cells[0]), {})
            of |= {column: _plain(cell) for column, cell in zip(columns[1:], cells[1:], strict=False) if cell}
        else:
            columns = [] if not line.startswith("|") else columns
    return found


#: What stands before a client's key where a component hands it on.
_CLIENTS: Final = ("admin", "client", "consumer", "producer")


def names_of(key: str) -> tuple[str, ...]:
    """Return what a key is called: with all that stands before it, with its client alone, and without one."""
    parts = key.split(".")
    at = next((at for at, part in enumerate(parts[:-1]) if part in _CLIENTS), None)
    if at is None:
        return (key,)
    # client.id is a key of its own.
    first = at + (parts[at] != "client" or len(parts) - at > 2)
    return tuple(".".join(parts[begin:]) for begin in dict.fromkeys((0, at, first)))


def setting(key: str) -> list[str]:
    """Return the rules that set a key, with the prefix of a client or without."""
    keys = {rule: re.split(r"[,;]\s*", of.get(_SETS, "")) for rule, of in told().items()}
    return [rule for rule, of in keys.items() if any(key in names_of(one) for one in of)]


def _plain(cell: str) -> str:
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", cell.strip("| ")).replace("`", "").replace("*", "")


def since(rule: str) -> str:
    """Return the release that brought a rule, or that last changed the values it gives."""
    return CHANGED.get(rule, _FIRST)
