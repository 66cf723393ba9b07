"""Who owned which partition, how long nobody did, and how a group gives its partitions away in a restart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.rebalance.restarts import Restart

#: Changes of ownership that are drawn: they grow with partitions and restarts, not with the records.
_MOST: Final = 20_000
_MEASURES: Final = ("ownerless_s", "consume_stall_s", "not_stable_s", "lag_recovery_s")
Change = Mapping[str, Any]


def changes(assignments: DataFrame) -> list[Change]:
    """Return the first changes of ownership, in the order in which they happened."""
    order = ("at_us", F.col("event") == "assigned", "group", "topic", "partition")
    return [row.asDict() for row in assignments.orderBy(*order).limit(_MOST).collect()]


def bars(found: Sequence[Change], run: Run) -> list[dict[str, Any]]:
    """Return stretches of ownership: group, place, consumer, from_s and until_s since the load began.

    By group, topic and partition; what came after the load's end is left out.
    """
    owned: dict[tuple[str, str, int], Change] = {}
    result: list[tuple[tuple[str, str, int], dict[str, Any]]] = []

    def end(place: tuple[str, str, int], at_us: int) -> None:
        one = owned.pop(place)
        ends = (min(us, run.measured_until_us) for us in (one["at_us"], at_us))
        begin, until = (max(0.0, (us - run.started_us) / 1e6) for us in ends)
        if until > begin:
            about = {"group": place[0], "place": f"{place[1]}-{place[2]}", "consumer": one["consumer"]}
            result.append((place, about | {"from_s": round(begin, 3), "until_s": round(until, 3)}))

    for change in found:
        place = (change["group"], change["topic"], change["partition"])
        before = owned.get(place)
        if change["event"] == "assigned":
            if before is not None:
                end(place, change["at_us"])
            owned[place] = change
        elif before is not None and before["consumer"] == change["consumer"]:
            end(place, change["at_us"])
    for place in list(owned):
        end(place, run.measured_until_us)
    return [one for _, one in sorted(result, key=lambda pair: (pair[0], pair[1]["from_s"]))]


def by_group(
    found: Sequence[Change], restarts: Sequence[Restart], table: Sequence[Mapping[str, Any]], run: Run
) -> dict[str, dict[str, Any]]:
    """Return for each group its protocol, how it gives partitions away, and its worst figures of a restart.

    ``gives_away`` is what was seen, not what was set: ``all at once`` (eager) when in every restart that took
    partitions away at all the whole group lost them, ``some`` (cooperative) when fewer did, ``nothing`` when
    none did.
    """
    partitions: dict[str, set[tuple[str, int]]] = defaultdict(set)
    taken: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    for change in found:
        place = (change["topic"], change["partition"])
        partitions[change["group"]].add(place)
        if change["event"] != "assigned":
            for restart in restarts:
                if restart.begin_us <= change["at_us"] < restart.until_us:
                    taken[change["group"], restart.number].add(place)
    result: dict[str, dict[str, Any]] = {}
    for group in run.watched_groups():
        cells = [row["by"][group] for row in table if group in row["by"]]
        about = run.groups.get(group)
        lost = [len(places) for (name, _), places in taken.items() if name == group]
        whole = len(partitions[group])
        gives = "nothing" if not lost else "all at once" if min(lost) == whole else "some"
        worst = {
            name: round(max(cell[name] for cell in cells if name in cell), 3)
            for name in _MEASURES
            if any(name in cell for cell in cells)
        }
        streams = group in [app.name for app in run.applications]
        result[group] = {
            "protocol": about.protocol if about else "streams" if streams else "classic",
            "assignor": about.assignor if about else "",
            "via": about.via if about else "kafka" if streams else "mirror",
            "partitions": whole,
            "gives_away": gives if whole else "not watched",
            "most_taken_away": max(lost, default=0),
            **worst,
        }
    return result
