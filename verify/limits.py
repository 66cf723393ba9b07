"""`kedge limits --inventory INV [--cluster C]`: the guide's limits against the living cluster.

Leaders of each broker, partitions of the cluster, the latency that replication is expected to add, and on
each broker's host the files open and allowed and the memory maps. With --measure the latency of replication
is measured beside it, on a temporary topic that is removed.

Exit 0 when all is within its limit, 1 when one is exceeded, 2 when something has to be mended first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException
from rich.console import Console
from rich.table import Table

from kedge.deploy.kafka_admin import TIMEOUT_SECONDS, admin
from kedge.evidence.border.untrusted import count, read_as
from kedge.evidence.command_line import described
from kedge.services.topics.living_cluster import (
    BrokerUse,
    ClusterLimit,
    Led,
    as_rows,
    measured_replication,
    of_broker,
    of_cluster,
)
from verify.addresses import ClusterAccess, PlaceError, add_arguments, chosen
from verify.collect.remote import RemoteError, Shell, on_all
from verify.measure.config import MeasureError
from verify.measure.replication import measure_replication
from verify.process import leave

#: Prints open and allowed files, and memory maps, of each process that runs a broker.
COMMAND: Final = (
    "echo max_map_count $(cat /proc/sys/vm/max_map_count); for p in /proc/[0-9]*; do "
    "if tr '\\0' '\\n' < $p/cmdline 2>/dev/null | grep -qx 'kafka\\.Kafka'; then "
    "echo broker $(ls $p/fd | wc -l) $(awk '/^Max open files/ {print $4}' $p/limits) "
    "$(wc -l < $p/maps); fi; done"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the limits; return the exit status."""
    options = _parser().parse_args(arguments)
    errors = Console(stderr=True)
    try:
        limits, failed = _look(chosen(options), options.measure)
    except (PlaceError, ConnectionError, MeasureError, KafkaException) as error:
        said = f"error: {error}. Nothing was changed. Fix that, then run this again"
        errors.print(said, style="red", highlight=False, markup=False, soft_wrap=True)
        return 2
    if options.format == "json":
        print(json.dumps(as_rows(limits), indent=1))
    else:
        _show(Console(), limits)
    for reason in failed:
        said = f"error: {reason}. Nothing was changed. Fix that, then run this again"
        errors.print(said, style="red", highlight=False, markup=False, soft_wrap=True)
    return 2 if failed else int(any(limit.exceeded for limit in limits))


def led_partitions(topics: Mapping[str, Any]) -> list[Led]:
    """Return leader and copies of each partition; ``topics`` is what confluent-kafka's metadata have."""
    return [Led(p.leader, len(p.replicas)) for t in topics.values() for p in t.partitions.values()]


def broker_uses(host: str, lines: Iterable[str]) -> list[BrokerUse]:
    """Return the brokers of a host, from what :data:`COMMAND` printed; raises RemoteError without one."""
    maps_allowed, found = 0, []
    for line in lines:
        kind, *words = line.split() or [""]
        with read_as("counters of a broker's process"):
            if kind == "max_map_count":
                maps_allowed = count(words[0])
            elif kind == "broker":
                opened, allowed, maps = words
                files_allowed = None if allowed == "unlimited" else count(allowed)
                found.append(BrokerUse(count(opened), files_allowed, count(maps), maps_allowed))
    if not found:
        raise RemoteError(f"{host}: no broker runs there")
    return found


def _look(place: ClusterAccess, measuring: bool) -> tuple[list[ClusterLimit], list[str]]:
    metadata = admin(place.bootstrap_servers, dict(place.client)).list_topics(timeout=TIMEOUT_SECONDS)
    partitions = led_partitions(metadata.topics)
    limits, failed = of_cluster(place.cluster, metadata.brokers, partitions), []
    if measuring:
        # As many copies as the cluster's topics have at most: what its records wait for.
        copies = min(max((each.copies for each in partitions), default=3), len(metadata.brokers))
        times = measure_replication(place.bootstrap_servers, place.client, place.cluster, copies)
        limits.append(measured_replication(place.cluster, *times, copies))
    if place.brokers:
        for found in on_all(place.brokers, _read).values():
            if isinstance(found, RemoteError):
                failed.append(str(found))
            else:
                limits += found
    return limits, failed


def _read(host: str, shell: Shell) -> list[ClusterLimit]:
    return [limit for use in broker_uses(host, shell(COMMAND)) for limit in of_broker(host, use)]


def _show(console: Console, limits: Iterable[ClusterLimit]) -> None:
    drawn = Table("where", "what", "found", "at most", "", "because")
    for limit in limits:
        most = "" if limit.most is None else f"{limit.most:.0f}"
        verdict = "too many" if limit.exceeded else ""
        drawn.add_row(limit.where, limit.what, f"{limit.found:.4g}", most, verdict,
                      f"{limit.because} ({limit.source})")  # fmt: skip
    console.print(drawn)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kedge limits",
        description=described(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(
        parser,
        "an Ansible inventory; its brokers' hosts are read",
        "instead of an inventory; no host is read then",
    )
    parser.add_argument("--measure", action="store_true", help="measure what replication adds, too")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    return parser


if __name__ == "__main__":
    leave(main())
