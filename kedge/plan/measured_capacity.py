"""What hosts were measured to sustain, held against what a service is to carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kedge.plan.findings import Finding
from kedge.plan.variables import Count, Positive, Strict


class Measured(Strict):
    """What hosts of one kind carry, as capacity.yml measured it."""

    run: str
    """Name of the run of capacity.yml."""
    date: str
    """Date of the run."""
    version: str
    """Version of the software that was measured."""
    cores: Positive
    """Cores of each host."""
    hosts: Positive
    """Number of hosts that were measured together."""
    record_bytes: Positive
    """Size of one record."""
    records_per_s: Positive
    """Rate that all hosts together sustained within the service levels."""
    at_least: bool = False
    """Whether the highest rate that was tried still met the levels, so that more may be possible."""
    one_away_records_per_s: Count | None = None
    """The same rate with one host down, if that was measured."""
    one_away_at_least: bool = False
    """Whether the highest rate that was tried with one host down still met the levels."""
    one_restarting_records_per_s: Count | None = None
    """The same rate while an instance restarts, if that was measured."""
    one_restarting_at_least: bool = False
    """Whether the highest rate that was tried during restarts still met the levels."""
    closed: bool = True
    """Whether the search reached the precision that was asked for."""


def of_other_hosts(measured: Measured, was: str, planned: str, cores: int) -> str | None:
    """Return why a measurement says nothing of a host: another version, other cores; None where it does.

    ``was`` and ``planned`` name what was measured and what the host runs, each with its version.
    """
    if was != planned:
        return f"it is of {was}, and {planned} is planned"
    if cores != measured.cores:
        return f"it is of hosts with {measured.cores} cores, and this one has {cores}"
    return None


def not_used(where: str, variable: str, measured: Measured, why: str, *, rule: str) -> Finding:
    """Return the warning that a measurement is of something else."""
    return Finding(
        "warning",
        rule,
        where,
        f"{variable} of run {measured.run} is not used: {why}",
        "measure again with capacity.yml, or take it out",
    )


def rate_of_one(measured: Measured, processes: int, left: int) -> float:
    """Return the records/s of one of the processes that were measured, also when ``left`` stay of them."""
    healthy = measured.records_per_s / processes
    if measured.one_away_records_per_s is not None and left:
        return min(healthy, measured.one_away_records_per_s / left)
    return healthy


_RESTARTING: Final = "while an instance restarts"


class Carriers(NamedTuple):
    """Processes by host: those that are planned, and as many as were measured on so many hosts."""

    planned: Sequence[int]
    measured: Sequence[int]

    def share(self, *, away: bool) -> float:
        """Return what of the measured rate the planned ones carry, ``away`` without the fullest host.

        More processes than were measured are another configuration, of which nothing is known.
        """
        planned, measured = (_left(one) if away else sum(one) for one in self)
        return min(1.0, planned / measured) if measured else 0.0


def _left(by_host: Sequence[int]) -> int:
    """Return how many processes are left without the host that has most."""
    return sum(by_host) - max(by_host)


def headroom(
    where: str,
    measured: Measured,
    what: str,
    carriers: Carriers,
    load: float,
    fix: str,
    *,
    rule: str,
) -> Iterator[Finding]:
    """Say how much of what was measured a load takes: healthy, with one host down, and while one restarts.

    Other numbers of hosts are reckoned from what one of those measured did. Too little is an error; while an
    instance restarts a warning, since that has a moment to choose.

    Args:
        where: what the findings are about; ``rule`` is the name of their rule.
        measured: what was measured; ``what`` names it, with its version.
        carriers: what is planned.
        load: records/s that they are to carry together.
        fix: how too much of it is mended.
    """
    hosts = len(carriers.planned)
    of_host = measured.records_per_s / measured.hosts
    of_others, how, at_least = of_host * (hosts - 1), "what a host of it does", measured.at_least
    if hosts == measured.hosts and measured.one_away_records_per_s is not None:
        of_others, how = measured.one_away_records_per_s, "as measured"
        at_least = measured.one_away_at_least
    conditions = [("healthy", of_host * hosts, "", False, measured.at_least)]
    if hosts > 1:
        conditions.append(("with one host down", of_others, f", {how}", True, at_least))
    if hosts == measured.hosts and measured.one_restarting_records_per_s is not None:
        restarting = float(measured.one_restarting_records_per_s)
        least = measured.one_restarting_at_least
        conditions.append((_RESTARTING, restarting, ", as measured", False, least))
    if not measured.closed:
        what = f"{what}, a search that did not close"
    for condition, of_all, because, away, least in conditions:
        share = carriers.share(away=away)
        carried = share * of_all
        counts = f"{sum(carriers.planned)} of {sum(carriers.measured)} processes"
        by = f" by {counts}" if share < 1 else ""
        run = f"run {measured.run} of {measured.date}, {what}, {measured.cores} cores{because}"
        said = (
            f"{condition} {'at least ' if least else ''}{carried:,.0f} records/s are sustained{by} ({run}), "
            f"and the workload is {load:,.0f}"
        )
        if load <= carried:
            rest = f": {load / carried:.0%} of it, {carried - load:,.0f} are left"
            yield Finding("note", rule, where, said + rest, "")
        else:
            # What carries at least so much may sustain more.
            mild = least or condition == _RESTARTING
            yield Finding("warning" if mild else "error", rule, where, said, fix)
