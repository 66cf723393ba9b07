"""Consumer instances whose client is gone: they hold partitions, and nobody reads these."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from kedge.evidence.levels import Levels, given
from kedge.evidence.run import Run
from spark_checks.engine.anomalies import examples
from spark_checks.engine.facts import acked_grains, delivered_grains
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly, Figure, Recommendation, Result, judge

NAME: Final = "zombies"
#: Shorter silences are a slow first read: 5.2 s were measured through a REST proxy with default settings.
LEAST_S: Final = 6.0
_PLACE: Final = ["group", "topic", "partition"]


def check(evidence: Evidence, levels: Levels) -> Result:
    """Which members held partitions to the end of their membership without reading from them.

    A client of a REST proxy that vanishes leaves its consumer instance behind: it goes on as a member of the
    group until consumer.instance.timeout.ms, and its partitions are read by nobody. Such a member is one that
    got nothing from any of its partitions in its last six seconds or more, while records were acknowledged
    there. Its time is from its last delivery, or from the assignment where it never got any, to the
    revocation; the sampling interval of the group is the error. Only the steady window counts. Ownership is
    known where the group was watched; without it nothing is known.
    """
    run, slo = evidence.run, given(levels.zombies)
    table, delivered = evidence.rows("assignments"), delivered_grains(evidence)
    assignments = None if table is None else table.to_pandas()
    watched = set() if assignments is None else {*assignments["group"].unique()} & run.groups.keys()
    missing = sorted(run.groups.keys() - watched)
    if assignments is None or delivered is None or missing:
        doubt = f"nothing is known of who owned what in {', '.join(missing) or 'any group'}"
        return Result(NAME, "unknown", doubt, slo=slo)
    delivered, acked = (grains.toArrow().to_pandas() for grains in (delivered, acked_grains(evidence)))
    found = silent(owned(assignments, run), delivered, acked, blind_us(run))
    rows = [row for row in found if row["held_us"] >= LEAST_S * 1e6]
    rows.sort(key=lambda row: (-row["held_us"], row["group"], row["consumer"]))
    longest = rows[0]["held_us"] / 1e6 if rows else 0.0
    level = levels.zombies.held_s
    problems = []
    if level is not None and longest > level:
        problems.append(
            f"{rows[0]['consumer']} held partitions unread for {longest:.1f} s, the level is {level:g} s"
        )
    fine = (
        f"{len(rows)} members held partitions that nobody read, {longest:.1f} s at most" if rows else "none"
    )
    verdict, because = judge(problems, [], fine, judged=level is not None)
    shown = tuple(_example(row, run) for row in rows[: examples()])
    return Result(
        NAME,
        verdict,
        because,
        slo=slo,
        measured={"zombies": len(rows), "held_s": longest},
        anomalies={"zombie": Anomaly(len(rows), shown)} if rows else {},
        recommendations=(_advice(longest, run, {row["group"] for row in rows}),) if rows else (),
        figures=(Figure("longest unread hold", longest, level, "s", key="zombies.held_s"),),
    )


def owned(assignments: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Return who owned which partition from when until when: :data:`_PLACE`, consumer, from_us, until_us."""
    rows = assignments[assignments["group"].isin(list(run.groups))]
    rows = rows.assign(assigned=rows["event"] == "assigned").sort_values([*_PLACE, "at_us", "assigned"])
    next_us = rows.groupby(_PLACE)["at_us"].shift(-1).fillna(run.measured_until_us)
    rows["from_us"] = rows["at_us"].clip(lower=run.measured_from_us)
    rows["until_us"] = next_us.clip(upper=run.measured_until_us).astype(np.int64)
    mine = rows[rows["assigned"] & (rows["until_us"] > rows["from_us"])]
    return mine[[*_PLACE, "consumer", "from_us", "until_us"]]


def blind_us(run: Run) -> int:
    """Return for how long before a sampled revocation the next owner may have read already."""
    return 2 * run.sampling_us.get("assignments_rest", 100_000)


def silent(
    owned: pd.DataFrame, delivered: pd.DataFrame, acked: pd.DataFrame, blind_us: int
) -> list[dict[str, Any]]:
    """Return how long each member got nothing before its partitions went, while records came there.

    Deliveries in the last ``blind_us`` of an ownership are the next owner's.

    Returns:
        group, consumer, from_us, until_us, held_us, partitions (``topic-partition``), records (acknowledged
        in that time on the member's partitions).
    """
    read = {place: np.sort(rows["last_us"].to_numpy()) for place, rows in delivered.groupby(_PLACE)}
    sent = {place: rows[["first_us", "records"]].to_numpy() for place, rows in acked.groupby(_PLACE[1:])}
    found = []
    for (group, consumer), mine in owned.groupby(["group", "consumer"]):
        spans = mine.to_dict("records")
        last = [_last(read.get(tuple(one[key] for key in _PLACE)), one, blind_us) for one in spans]
        known = [at for at in last if at is not None]
        silent_us = max(known) if known else min(one["from_us"] for one in spans)
        until_us = max(one["until_us"] for one in spans)
        records, partitions = 0, set()
        for one in spans:
            came = sent.get((one["topic"], one["partition"]), np.empty((0, 2), np.int64))
            inside = (came[:, 0] >= max(silent_us, one["from_us"])) & (came[:, 0] <= until_us)
            if inside.any():
                records += int(came[inside, 1].sum())
                partitions.add(f"{one['topic']}-{one['partition']}")
        if partitions:
            row = {"group": group, "consumer": consumer, "from_us": silent_us, "until_us": until_us}
            held_us = until_us - silent_us
            found.append(row | {"held_us": held_us, "partitions": sorted(partitions), "records": records})
    return found


def _last(read: Any, one: dict[str, Any], blind_us: int) -> int | None:
    """Return when the last delivery of an ownership came, as far as it is its own."""
    if read is None:
        return None
    at = int(np.searchsorted(read, one["until_us"] - blind_us, side="right")) - 1
    return int(read[at]) if at >= 0 and read[at] >= one["from_us"] else None


def _example(row: dict[str, Any], run: Run) -> dict[str, Any]:
    return {
        "group": row["group"],
        "member": row["consumer"],
        "partitions": ", ".join(row["partitions"]),
        "from_s": round((row["from_us"] - run.started_us) / 1e6, 1),
        "held_s": round(row["held_us"] / 1e6, 1),
        "unread_records": row["records"],
    }


def _advice(longest: float, run: Run, groups: set[str]) -> Recommendation:
    because = f"a member that nobody used held partitions for {longest:.1f} s"
    if any(run.groups[group].via == "rest" for group in groups):
        return Recommendation(
            "have clients delete their consumer instance when they end, also when they fail; "
            "consumer.instance.timeout.ms follows from kafka_rest_workload.client_pause_ms and from "
            "service_levels.rebalance.consume_stall_s: lower these where they are longer than true",
            because,
        )
    return Recommendation("see what keeps the member from polling: its log names the partitions", because)
