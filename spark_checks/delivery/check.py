"""Whether the topic has each acknowledged record once, unchanged and in order, and each group received it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any, Final

from pyspark import inheritable_thread_target

from kedge.evidence.levels import DeliveryLevels, Levels
from spark_checks.delivery.order import reordered
from spark_checks.delivery.producer_to_topic import TopicHop, topic_hop
from spark_checks.delivery.topic_to_group import GroupHop, group_hop
from spark_checks.engine.anomalies import add, first
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly, Figure, Recommendation, Result, concluded

KINDS: Final = (
    "lost",
    "duplicated",
    "reordered",
    "corrupted",
    "wrong_key",
    "misplaced",
    "unexpected",
    "unledgered",
    "undelivered",
    "mismatched",
    "phantom",
    "redelivered",
    "skipped",
    "rewound",
)
_TO_GROUP: Final = KINDS[KINDS.index("undelivered") :]
#: By what the first one of a kind is named.
_NAMED: Final = ("group", "consumer", "producer", "seq", "topic", "partition", "offset")
#: What is found where something is absent is known only where its table is whole; all others are found in
#: what is there.
_ABSENT: Final = {
    "lost": "records",
    "reordered": "records",
    "misplaced": "records",
    "phantom": "records",
    "unexpected": "ledger",
    "undelivered": "deliveries",
    "skipped": "deliveries",
}
#: What follows from a kind.
_ADVICE: Final = {
    ("lost",): Recommendation(
        "Produce with acks=all and min.insync.replicas at least 2 on three replicas",
        "{lost:,} acknowledged records are gone",
        effect="a record is acknowledged when two replicas have it, so that the loss of one broker loses "
        "none",
    ),
    ("duplicated", "reordered"): Recommendation(
        "Produce with enable.idempotence=true where the interface allows it",
        "{duplicated:,} duplicated and {reordered:,} reordered records",
        effect="a producer's retries neither repeat nor overtake",
    ),
    ("undelivered",): Recommendation(
        "Commit offsets after processing (enable.auto.commit=false)",
        "{undelivered:,} records never reached their group",
        effect="a consumer that dies leaves nothing committed that it had not processed; some records come "
        "twice instead",
    ),
}


def check(evidence: Evidence, levels: Levels) -> Result:
    """Every record, in two hops, exactly; names of Jepsen's kafka workload in brackets.

    Producer to topic compares the ledger with the records found in the topics.

    - lost [lost-write]: acknowledged, and no copy is in the topic; a damaged one is corrupted.
    - duplicated [duplicate]: the same identity at several offsets.
    - reordered [nonmonotonic-send]: among acknowledged records of one producer in one partition, one whose
      sequence number is lower than its predecessor's. That is what an idempotent producer promises. By REST
      it holds within one request; between requests only where the earlier one was answered before the later
      one was sent, since requests in flight at once have no order.
    - corrupted: the checksum is wrong, is not the ledger's, or the acknowledged place holds a value without
      the run's identity.
    - wrong_key: intact, but under another key than it was given, where run.json says how keys are made.
    - misplaced [inconsistent-offsets]: found, but at another partition or offset than acknowledged.
    - unexpected: carries this run's identity, but no ledger knows it.

    - unledgered: the ledger lacks rows that its generator says that it wrote. Records of theirs in the topic
      are counted as beyond the ledger, not as unexpected, and the verdict is unknown unless something failed.

    A send whose outcome is failed or unknown and that is in the topic is no anomaly; it is counted. When the
    load did not end properly the ledger may be cut off anywhere: records that it does not know are beyond the
    ledger then, too.

    Topic to group compares the records with what each group's consumers received.

    - undelivered [unseen]: in the topic, and no member of the group got it.
    - mismatched [inconsistent-offsets]: a consumer got another identity at an offset than the topic holds.
    - phantom: delivered from an offset of the run's range that holds no record.
    - redelivered: delivered more than once (at-least-once allows it; reported, judged only with a level).
    - skipped [poll-skip]: a consumer's position jumped over records that its group never got.
    - rewound [nonmonotonic-poll]: a consumer's position went back within a partition.

    A table that lacks rows which its writers listed shows no gap: lost, reordered, misplaced, phantom,
    unexpected, undelivered and skipped are unknown then, each where it rests on that table. What is there may
    still fail.

    Before a gap is called a loss, retention and compaction are asked for: places before the log start, and
    missing records of compacted topics, are unknown. Both hops compare digests of blocks of 65,536 first
    (count and sums of 64-bit hashes) and join exactly where they differ. The counts are exact, not estimates:
    digests of different rows agree by chance in about one of 2^64.
    """
    run = evidence.run
    if not evidence.has("records"):
        because = "the topics were not read: no records table, and the cluster could not be asked"
        because = "; ".join([because, *evidence.lacks("records")])
        return Result("delivery", "unknown", because)
    with ThreadPoolExecutor(1, thread_name_prefix="check") as pool:
        # Both hops at the same time, so that Spark has the next job when a core is free. The copied context
        # has the number of examples to show (anomalies.showing), the thread Spark's name of the check.
        has_groups = run.groups and evidence.has("deliveries")
        hop = inheritable_thread_target(evidence.session)(group_hop)
        second = pool.submit(copy_context().run, hop, evidence) if has_groups else None
        to_topic = topic_hop(evidence)
        anomalies = {**to_topic.anomalies, **reordered(evidence, to_topic)}
        to_group = second.result() if second else None
    if to_group is not None:
        anomalies = add(anomalies, to_group.anomalies)
    return _result(evidence, levels, to_topic, to_group, anomalies)


def _result(
    evidence: Evidence,
    levels: Levels,
    to_topic: TopicHop,
    to_group: GroupHop | None,
    anomalies: dict[str, Anomaly],
) -> Result:
    # An incomplete ledger makes the verdict unknown, whatever the levels are.
    allowed = {"unledgered": None, **levels.delivery.model_dump()}
    counts = {
        kind: anomalies[kind].count if kind in anomalies else 0
        for kind in KINDS
        if _ABSENT.get(kind) not in evidence.lacking and not (to_group is None and kind in _TO_GROUP)
    }
    problems = [
        f"{count:,} {kind}{first(anomalies[kind], *_NAMED)}"
        for kind, count in counts.items()
        if allowed[kind] is not None and count > allowed[kind]
    ]
    totals = dict(to_topic.totals)
    measured: dict[str, Any] = {**totals, **counts}
    if to_group is not None:
        measured |= {f"group_{key}": value for key, value in to_group.totals.items()}
    acked = totals["acked"]
    fine = f"{acked:,} acknowledged records, each once in its place"
    fine += f", and {to_group.totals['expected']:,} delivered" if to_group is not None else ""
    doubts = _doubts(evidence, to_topic, to_group)
    if counts["unledgered"] and "ledger" not in evidence.lacking:
        where = first(anomalies["unledgered"], *_NAMED)
        doubts.insert(0, f"the ledger lacks {counts['unledgered']:,} rows that were written{where}")
    doubts[:0] = evidence.lacks("ledger", "records", "deliveries")
    figures = _figures(counts, allowed, to_topic, to_group, evidence.lacking)
    return concluded(
        "delivery",
        problems,
        doubts,
        fine,
        figures,
        measured=measured,
        anomalies={kind: anomalies[kind] for kind in KINDS if kind in anomalies and kind in counts},
        recommendations=tuple(
            replace(one, because=one.because.format(**dict.fromkeys(KINDS, 0) | counts))
            for of, one in _ADVICE.items()
            if any(counts.get(kind) for kind in of)
        ),
    )


def _figures(
    counts: dict[str, int],
    allowed: dict[str, int | None],
    to_topic: TopicHop,
    to_group: GroupHop | None,
    lacking: Mapping[str, str],
) -> tuple[Figure, ...]:
    """Return what came of records first, as most people ask for it, then each other anomaly.

    A table that is not whole may hide more of each kind than was found.
    """
    out_of = {"lost": int(to_topic.totals["acked"])}
    if to_group is not None:
        out_of["undelivered"] = int(to_group.totals["expected"])
    kinds = [kind for kind in KINDS if to_group is not None or kind not in _TO_GROUP]
    order = [*out_of, *(kind for kind in kinds if kind not in out_of)]

    def doubtful(kind: str) -> bool:
        hop = ("records", "deliveries") if kind in _TO_GROUP else ("ledger", "records")
        return counts.get(kind, 0) <= (allowed[kind] or 0) and any(table in lacking for table in hop)

    return tuple(
        Figure(
            kind.replace("_", " "),
            counts.get(kind),
            allowed[kind],
            key=f"delivery.{kind}" if kind in DeliveryLevels.model_fields else "",
            of=out_of.get(kind) if kind in counts else None,
            doubtful=doubtful(kind),
        )
        for kind in order
        if kind != "unledgered" or counts[kind]
    )


def _doubts(evidence: Evidence, to_topic: TopicHop, to_group: GroupHop | None) -> list[str]:
    run, totals = evidence.run, to_topic.totals
    doubts = []
    if not totals["acked"]:
        doubts.append("no record was acknowledged, so there is nothing to judge")
    if totals["expired"]:
        doubts.append(f"{totals['expired']:,} acknowledged records lie before the log start (retention)")
    if totals.get("compacted"):
        doubts.append(f"{totals['compacted']:,} records are missing from compacted topics")
    if not run.complete:
        beyond = totals.get("beyond_ledger", 0) + (to_group.totals.get("not_known", 0) if to_group else 0)
        doubts.append(
            f"the load did not end properly, so its evidence may be cut off ({beyond:,} records unknown)"
        )
    if to_group is None:
        doubts.append("no groups in run.json, so nothing is known of delivery to consumers")
    return doubts
