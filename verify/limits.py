"""`python -m verify.limits --inventory INV [--cluster C]`: the guide's limits against the living cluster.

Leaders of each broker, partitions of the cluster, the latency that replication is expected to add, and on
each broker's host the files open and allowed and the memory maps. Exit 0 when all is within them, 1 when one
is exceeded, 2 when something has to be mended first.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from rich.console import Console
from rich.table import Table

from plugins.module_utils.kafka_admin import TIMEOUT_SECONDS, admin
from sizing.topics import CLUSTER_PARTITIONS, HANDLES_SEEN, LEADERS_WARNING, added_replication_ms
from verify.collect.remote import RemoteError, Shell, on_all
from verify.places import Place, PlaceError, find

#: Above this share of what is allowed, there is too little left for the segments to come.
_SHARE: Final = 0.8
#: Prints open and allowed files, and memory maps, of each process that runs a broker.
COMMAND: Final = (
    "echo max_map_count $(cat /proc/sys/vm/max_map_count); for p in /proc/[0-9]*; do "
    "if tr '\\0' '\\n' < $p/cmdline 2>/dev/null | grep -qx 'kafka\\.Kafka'; then "
    "echo broker $(ls $p/fd | wc -l) $(awk '/^Max open files/ {print $4}' $p/limits) "
    "$(wc -l < $p/maps); fi; done"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A limit: what is there, the most that there should be (None where nothing says), and if it is kept."""

    where: str
    what: str
    found: float
    most: float | None

    @property
    def exceeded(self) -> bool:
        """Whether there is more than there should be."""
        return self.most is not None and self.found > self.most


def of_cluster(name: str, brokers: Iterable[int], topics: Mapping[str, Any]) -> list[Row]:
    """Return the limits that the cluster's metadata tell; ``topics`` is confluent-kafka's ``topics``."""
    ids = sorted(brokers)
    leaders: Counter[int] = Counter()
    added = 0.0
    for topic in topics.values():
        for partition in topic.partitions.values():
            leaders[partition.leader] += 1
            added += added_replication_ms(1, max(1, len(ids)), max(1, len(partition.replicas)))
    rows = [Row(f"broker {n}", "leaders", leaders[n], LEADERS_WARNING) for n in ids]
    rows.append(Row(name, "partitions without a leader", leaders[-1], 0))
    rows.append(Row(name, "partitions", leaders.total(), CLUSTER_PARTITIONS))
    return [*rows, Row(name, "ms that replication is expected to add", added, None)]


def of_host(host: str, lines: Iterable[str]) -> list[Row]:
    """Return the limits of the brokers of a host, from what :data:`COMMAND` printed; raises RemoteError."""
    maps_allowed, rows = 0, []
    for line in lines:
        kind, *words = line.split()
        if kind == "max_map_count":
            maps_allowed = int(words[0])
        elif kind == "broker":
            opened, allowed, maps = words
            most = HANDLES_SEEN if allowed == "unlimited" else int(allowed) * _SHARE
            rows.append(Row(host, f"files open, of {allowed} allowed", int(opened), most))
            what = f"memory maps, of {maps_allowed} allowed"
            rows.append(Row(host, what, int(maps), maps_allowed * _SHARE))
    if not rows:
        raise RemoteError(f"{host}: no broker runs there")
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the limits; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.limits", description=__doc__)
    parser.add_argument(
        "--inventory", "-i", type=Path, help="an Ansible inventory; its brokers' hosts are read"
    )
    parser.add_argument("--cluster", help="the cluster in kafka_clusters; not needed where there is one")
    parser.add_argument("--bootstrap-servers", help="instead of an inventory; no host is read then")
    options = parser.parse_args(arguments)
    console, errors = Console(), Console(stderr=True)
    try:
        rows, failed = _look(_place(options))
    except (PlaceError, ConnectionError, KafkaException) as error:
        errors.print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        return 2
    drawn = Table("where", "what", "found", "at most", "")
    for row in rows:
        most = "" if row.most is None else f"{row.most:.0f}"
        drawn.add_row(row.where, row.what, f"{row.found:.4g}", most, "too many" if row.exceeded else "")
    console.print(drawn)
    for reason in failed:
        errors.print(f"error: {reason}", style="red", highlight=False, markup=False, soft_wrap=True)
    return 2 if failed else int(any(row.exceeded for row in rows))


def _look(place: Place) -> tuple[list[Row], list[str]]:
    metadata = admin(place.bootstrap_servers, dict(place.client)).list_topics(timeout=TIMEOUT_SECONDS)
    rows, failed = of_cluster(place.cluster, metadata.brokers, metadata.topics), []
    if place.brokers:
        for found in on_all(place.brokers, _read).values():
            if isinstance(found, RemoteError):
                failed.append(str(found))
            else:
                rows += found
    return rows, failed


def _read(host: str, shell: Shell) -> list[Row]:
    return of_host(host, shell(COMMAND))


def _place(options: argparse.Namespace) -> Place:
    if options.inventory is not None:
        return find(options.inventory, options.cluster)
    if options.bootstrap_servers:
        return Place(options.cluster or "cluster", options.bootstrap_servers)
    raise PlaceError("say which cluster: --inventory INV, or --bootstrap-servers HOST:PORT")


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # librdkafka's threads may still wait for a broker that is gone; everything is written.
    os._exit(status)
