"""Names many places in few words: ``rest[1-500] kafka_rest@[8082-8085]``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

#: A name that ends with a number, or whose part before the first dot does: rest1, rest-01.example.net.
_NUMBERED: Final = (
    re.compile(r"(?P<stem>.*?)(?P<number>\d+)(?P<domain>)"),
    re.compile(r"(?P<stem>[^.]*?[^.\d])(?P<number>\d+)(?P<domain>\..*)"),
)
_SHOWN: Final = 6


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts names by the numbers in them: rest2 before rest10."""
    parts = re.split(r"(\d+)", name)
    # Text and numbers alternate, so that like is compared with like; the name itself breaks ties (a1, a01).
    return (*((int(part), "") if part.isdecimal() else (0, part) for part in parts), (0, name))


def compact(places: Iterable[str]) -> str:
    """Return places, each a host and perhaps a service or variable, as one short line.

    Hosts that share the same services are folded together, and numbers that follow one another are a range.
    """
    services: dict[str, list[str]] = {}
    separators: dict[str, str] = {}
    for place in dict.fromkeys(places):
        host, _, service = place.partition(" ")
        # A variable stands after a colon, a service does not.
        separators[host.removesuffix(":")] = ": " if host.endswith(":") else " "
        services.setdefault(host.removesuffix(":"), []).append(service)
    hosts: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for host, of_host in services.items():
        hosts.setdefault((separators[host], tuple(of_host)), []).append(host)
    return ", ".join(
        f"{fold(where)}{separator}{fold(of_host)}".strip() for (separator, of_host), where in hosts.items()
    )


def fold(names: Iterable[str]) -> str:
    """Return names as one list, runs of numbers folded: a1, a2, a3, b becomes ``a[1-3], b``."""
    # Stem and domain, first number, last number; of a name without one both are empty.
    runs: list[tuple[tuple[str, str], str, str]] = []
    for name in names:
        match = next(filter(None, (form.fullmatch(name) for form in _NUMBERED)), None)
        around, number = ((match["stem"], match["domain"]), match["number"]) if match else ((name, ""), "")
        if runs and number and runs[-1][0] == around and runs[-1][2]:
            last = runs[-1][2]
            if int(number) == int(last) + 1 and len(number) >= len(last):
                runs[-1] = (around, runs[-1][1], number)
                continue
        runs.append((around, number, number))
    shown = [f"{s}{a}{d}" if a == b else f"{s}[{a}-{b}]{d}" for (s, d), a, b in runs[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else "")
