"""Who owned which partition, how long nobody did, and how a group gives its partitions away in a restart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from kedge.evidence.run import Run
from spark_checks.rebalance.groups import PLACE
from spark_checks.rebalance.restarts import Restart

#: Changes of ownership that are drawn: they grow with partitions and restarts, not with the records.
_MOST: Final = 20_000
_MEASURES: Final = ("ownerless_s", "consume_stall_s", "not_stable_s", "lag_recovery_s")
Change = Mapping[str, Any]


def unassigned(assignments: pd.DataFrame, restarts: Sequence[Restart], run: Run) -> list[dict[str, Any]]:
    """Return how long each partition had no owner after it was revoked or lost, by restart.

    From the event until any member's next assignment, or the end of the steady window. When another member
    had it assigned just before, it was never without an owner.

    Returns:
        restart, group, topic, partition, from_us, ownerless_us, the longest last.
    """
    rows = assignments[assignments["group"].isin(run.watched_groups())]
    rows = rows.assign(assigned=rows["event"] == "assigned")
    rows = rows.sort_values([*PLACE, "at_us", "assigned"], kind="stable", ignore_index=True)
    place = rows.groupby(PLACE, sort=False)
    before = place[["assigned", "consumer"]].shift(1)
    taken_over = before["assigned"].eq(True) & (before["consumer"] != rows["consumer"])
    # The next row is another one, so an assignment is not its own next one.
    next_us = rows["at_us"].where(rows["assigned"]).groupby([rows[name] for name in PLACE], sort=False)
    next_us = (
        next_us.transform(lambda at: at.shift(-1).bfill()).fillna(run.measured_until_us).astype(np.int64)
    )
    gone = rows[~rows["assigned"] & ~taken_over & (rows["at_us"] < run.measured_until_us)]
    gone = gone.assign(
        from_us=gone["at_us"], ownerless_us=next_us[gone.index].astype(np.int64) - gone["at_us"]
    )
    parts = [
        gone[(gone["at_us"] >= one.begin_us) & (gone["at_us"] < one.until_us)].assign(restart=one.number)
        for one in restarts
    ]
    found = pd.concat(parts, ignore_index=True)[["restart", *PLACE, "from_us", "ownerless_us"]]
    order = found.sort_values(["ownerless_us", "from_us", "topic", "partition"], kind="stable")
    longest_last: list[dict[str, Any]] = order.to_dict("records")
    return longest_last


def changes(assignments: pd.DataFrame, run: Run) -> list[Change]:
    """Return the first changes of ownership of the run's groups, in the order in which they happened."""
    mine = assignments[assignments["group"].isin(run.watched_groups())]
    mine = mine.assign(assigned=mine["event"] == "assigned")
    order = mine.sort_values(["at_us", "assigned", "group", "topic", "partition"], kind="stable")
    found: list[Change] = order.drop(columns="assigned").head(_MOST).to_dict("records")
    return found


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
