"""The head of the report: what was tested, so that a report sent to somebody explains itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from kedge.evidence.release import VERSION
from kedge.evidence.run import REST_INSTANCE, DeployedService, IntendedLoad, Machine, PlannedTopic, Run, Watch

#: Said of what older evidence lacks.
NOT_RECORDED: Final = "not recorded"
_HOSTS_SHOWN: Final = 6


def head(run: Run) -> list[tuple[str, list[str]]]:
    """Return (what, its lines) of a run, in the order of the report."""
    about = run.subject
    return [
        ("Run", [f"{run.run_id}, {_when(run)}"]),
        ("Services", [_service(one) for one in about.services] or [NOT_RECORDED]),
        ("Topics", [_topic(one) for one in about.topics or _topics(run)] or [NOT_RECORDED]),
        ("Load as intended", [_load(one) for one in loads(run)] or [NOT_RECORDED if run.loaded else "none"]),
        *([("Watched", _watched(run.watch))] if run.watch else []),
        ("Machines", [_machine(one) for one in about.machines] or [NOT_RECORDED]),
        ("Evidence", [_held(run)]),
        ("Plan", [f"fingerprint {about.plan or NOT_RECORDED}"]),
        ("Kedge", [f"run by {about.kit or NOT_RECORDED}, audited by {VERSION}"]),
    ]


def _watched(watch: Watch) -> list[str]:
    left_out = len(watch.not_watched) + watch.not_watched_more
    parts = [_many(len(watch.topics), "topic"), _many(len(watch.groups), "group")]
    parts += [_many(len(watch.balancers), "balancer")] if watch.balancers else []
    lines = [f"{', '.join(parts)} of others, every {watch.interval_us / 1e6:g} s; nothing was sent"]
    return lines + ([f"not watched: {left_out:,}, see below"] if left_out else [])


def _held(run: Run) -> str:
    """Return what the tables were held against."""
    if run.files is None:
        return f"how many rows each table was to hold: {NOT_RECORDED}"
    rows = sum(count for table in run.files.values() for count in table.values())
    return (
        f"{rows:,} rows in {_many(sum(map(len, run.files.values())), 'file')}, as their writers listed them"
    )


def _when(run: Run) -> str:
    begin = datetime.fromtimestamp(run.started_us / 1e6, UTC)
    if run.ended_us is None:
        return f"{begin:%Y-%m-%d %H:%M:%S} UTC, did not end properly"
    end = datetime.fromtimestamp(run.ended_us / 1e6, UTC)
    return f"{begin:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC"


def _service(one: DeployedService) -> str:
    software = " ".join(part for part in (one.distribution, one.version) if part)
    software += "" if one.version else f"{' ' if software else ''}version {NOT_RECORDED}"
    instances = "" if one.instances is None else f", {_many(one.instances, 'instance')}"
    return f"{one.service}: {software}{instances} on {_names(one.hosts)}"


def _topic(one: PlannedTopic) -> str:
    partitions = NOT_RECORDED if one.partitions is None else f"{one.partitions}"
    replication = NOT_RECORDED if one.replication is None else f"{one.replication}"
    return f"{one.topic} on {one.cluster}: partitions {partitions}, replication {replication}"


def _topics(run: Run) -> list[PlannedTopic]:
    """Return what evidence without a head tells of its topics."""
    return [PlannedTopic(cluster=t.cluster, topic=t.topic, partitions=t.partitions) for t in run.topics]


def _load(one: IntendedLoad) -> str:
    rate = f"rate {NOT_RECORDED}" if not one.records_per_s else f"{one.records_per_s:,.0f} records/s"
    size = f"size {NOT_RECORDED}" if one.record_bytes is None else f"{one.record_bytes:,} bytes each"
    parts = [rate, size]
    if one.records_per_request is not None:
        parts.append(f"{one.records_per_request:,} in a request")
    if one.producers is not None:
        parts.append(_many(one.producers, "producer"))
    if one.consumers is not None:
        parts.append(_many(one.consumers, "consumer"))
    return f"{one.via} to {one.topic}: {', '.join(parts)}"


def loads(run: Run) -> list[IntendedLoad]:
    """Return what was to be sent, by interface; of evidence without a head what its producers tell."""
    return run.subject.load or [*_loads(run)]


def _loads(run: Run) -> Iterator[IntendedLoad]:
    key = lambda one: (one.via, one.topic)  # noqa: E731 - sorts and groups alike
    # How many instances are asked follows from how many there are.
    of_load = [one for one in run.producers.values() if one.via != REST_INSTANCE]
    for (via, topic), producers in groupby(sorted(of_load, key=key), key):
        rates = [one.records_per_s for one in producers]
        yield IntendedLoad(via=via, topic=topic, records_per_s=sum(rates), producers=len(rates))


def _machine(one: Machine) -> str:
    cores = f"cores {NOT_RECORDED}" if one.cores is None else _many(one.cores, "core")
    memory = f"memory {NOT_RECORDED}"
    if one.memory_mib is not None:
        memory = f"{one.memory_mib / 1024:,.1f} GiB"
    system = f", {one.system}" if one.system else ""
    hosts = _names(one.hosts)
    if not one.hosts:
        return f"the load and the audit: {cores}, {memory}{system}"
    shared = len(one.hosts) + one.load > 1
    own = f"{hosts}{', the load and the audit' if one.load else ''}"
    return f"{own}: {'one machine with ' if shared else ''}{cores}, {memory}{system}"


def _names(hosts: Sequence[str]) -> str:
    more = len(hosts) - _HOSTS_SHOWN
    return ", ".join(hosts[:_HOSTS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
