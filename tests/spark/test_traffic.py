"""Others' traffic around restarts: what is found, within which error, and what cannot be judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from kedge.evidence.run import Run
from spark_checks.engine.readers import Evidence
from spark_checks.engine.spark_types import TABLES
from spark_checks.registry import asked, needs
from spark_checks.results import Result
from spark_checks.traffic import check as traffic
from tests.spark import frames
from tests.spark.frames import Row, evidence, us

pytestmark = pytest.mark.spark

END = 200
#: Seconds of a restart: two minutes before it tell what is usual.
STOPPED, READY = 120, 130
SECONDS = range(END + 1)
LEVELS: Row = {
    "produce_gap_s": 5,
    "delivery_gap_s": 5,
    "rebalancing_s": 5,
    "unassigned_s": 5,
    "lag_recovery_s": 30,
}
Of = Callable[[int], int]


def about(topics: Iterable[str] = (), groups: Iterable[str] = (), partitions: int = 1, **changes: Any) -> Run:
    watch = {
        "interval_us": 1_000_000,
        "started_us": us(0),
        "ended_us": us(END),
        "topics": [{"cluster": "c", "topic": topic, "partitions": partitions} for topic in topics],
        "groups": {group: {"cluster": "c", "group": group, "topics": ["orders"]} for group in groups},
    } | changes
    return frames.run(
        ended_us=us(END),
        warm_up_us=0,
        measured_until_us=None,
        topics=[],
        producers={},
        groups={},
        watch=watch,
    )


def ends(of: Of, topic: str = "orders", partition: int = 0) -> list[Row]:
    where = {"cluster": "c", "topic": topic, "partition": partition}
    return [where | {"at_us": us(at), "end_offset": of(at)} for at in SECONDS]


def offsets(committed: Of, end: Of, group: str = "g", partition: int = 0) -> list[Row]:
    where = {"group": group, "topic": "orders", "partition": partition}
    return [where | {"at_us": us(at), "committed": committed(at), "end_offset": end(at)} for at in SECONDS]


def states(of: Callable[[int], str] = lambda at: "Stable", group: str = "g", members: int = 2) -> list[Row]:
    about_group = {"group": group, "members": members, "assigned": members}
    return [about_group | {"at_us": us(at), "state": of(at)} for at in SECONDS]


def owner(event: str, at: float, group: str = "g", partition: int = 0, consumer: str = "a") -> Row:
    where = {"group": group, "topic": "orders", "partition": partition}
    return where | {"consumer": consumer, "event": event, "at_us": us(at)}


def restart(stopped: float = STOPPED, ready: float = READY) -> list[Row]:
    def action(what: str, begin: float, end: float) -> Row:
        who = {"host": "h1", "service": "kafka_rest", "instance": "h1:8082", "action": what, "ok": True}
        return who | {"started_us": us(begin), "ended_us": us(end)}

    begun = (stopped + 1, stopped + 2)
    return [action("stop", stopped, begun[0]), action("start", *begun), action("ready", begun[1], ready)]


def busy(at: int) -> int:
    return 10 * at


def near(at: int) -> int:
    return busy(at) - 5


def behind_after(records: int) -> Of:
    """Of a reader that is so far behind since the restart."""
    return lambda at: busy(at) if at <= STOPPED else busy(at) - records


def found(spark: SparkSession, run: Run, levels: Row | None = None, **tables: list[Row]) -> Result:
    given = Levels.model_validate({"traffic": {} if levels is None else levels})
    return traffic.check(evidence(spark, run, **{"actions": restart()} | tables), given)


def verdicts(result: Result) -> dict[str, str]:
    return {figure.key.removeprefix("traffic."): figure.verdict for figure in result.figures}


def test_a_quiet_restart_passes_and_names_what_is_not_judged(spark: SparkSession) -> None:
    left_out = {"cluster": "c", "kind": "group", "name": "secret", "why": "it may not be described"}
    result = found(
        spark,
        about(["orders"], ["g"], not_watched=[left_out], not_watched_more=2),
        LEVELS,
        end_offsets=ends(busy),
        group_offsets=offsets(near, busy),
        group_states=states(),
        # Another member took it over at the same moment: nobody waited.
        assignments=[owner("assigned", 0), owner("revoked", 122), owner("assigned", 122, consumer="b")],
    )
    assert result.verdict == "pass", result.because
    assert "not judged: loss, duplicates and order" in result.because
    assert set(verdicts(result).values()) == {"pass", "measured"}
    assert (result.measured["produce_gap_s"], result.measured["usual_s"]) == (1, 120)
    assert result.measured["unassigned_s"] == 0
    assert [point[1] for point in result.series["rate"]["c/orders"]] == [10.0] * END
    assert result.series["lag"]["g"][0] == [0.0, 5]
    not_watched = result.anomalies["not_watched"]
    assert (not_watched.count, not_watched.examples[0]["name"]) == (3, "secret")


@pytest.fixture(scope="module")
def troubled(spark: SparkSession) -> Result:
    """One restart, and a topic or group for each trouble."""
    silent = lambda at: busy(at) if at <= 121 else busy(121) if at < 135 else busy(at - 13)  # noqa: E731
    stood = lambda at: near(at) if not 125 < at < 137 else near(125)  # noqa: E731
    return found(
        spark,
        about(["orders", "rare", "silent"], ["down", "empty", "lost", "moved", "seldom", "stood"]),
        LEVELS,
        end_offsets=[*ends(busy), *ends(lambda at: at // 60, "rare"), *ends(silent, "silent")],
        group_offsets=[
            *offsets(lambda at: near(min(at, 150)), busy, "down"),
            *offsets(lambda at: 0, busy, "empty"),
            *offsets(near, busy, "lost"),
            *offsets(near, busy, "moved"),
            *offsets(lambda at: busy(at // 5 * 5), busy, "seldom"),
            *offsets(stood, busy, "stood"),
        ],
        group_states=[
            *states(lambda at: "Stable" if at < 150 else "Empty", "down", 0),
            *states(lambda at: "Empty", "empty", 0),
            *states(group="lost"),
            *states(lambda at: "PreparingRebalance" if 122 <= at < 129 else "Stable", "moved"),
            *states(group="seldom"),
            *states(group="stood"),
        ],
        assignments=[
            *(owner("assigned", 0, "moved", n, "ab"[n]) for n in (0, 1)),
            *(owner("revoked", 122, "moved", n, "ab"[n]) for n in (0, 1)),
            *(owner("assigned", 129 + n, "moved", n, "ab"[n]) for n in (0, 1)),
            *(owner(event, at, "lost") for event, at in (("assigned", 0), ("revoked", 140))),
        ],
    )


def test_a_gap_of_a_topic_is_found_within_its_error_and_named(troubled: Result) -> None:
    assert (troubled.verdict, verdicts(troubled)["produce_gap_s"]) == ("fail", "fail")
    # Its last record came at 121 s, the next one after 134 s.
    assert troubled.measured["produce_gap_s"] == 14
    assert "produce gap 14.0 s, 1.0 s more or less, of c/silent silent-0 at h1:8082" in troubled.because
    gaps = {row["topic"]: row["produce_gap_s"] for row in troubled.measured["by_topic"]}
    assert gaps == {"c/orders": 1, "c/rare": None, "c/silent": 14}


def test_a_group_that_stands_still_is_found_and_its_lag(troubled: Result) -> None:
    assert verdicts(troubled)["delivery_gap_s"] == "fail"
    stood = troubled.measured["by_group"]["stood"]
    assert (stood["delivery_gap_s"], stood["lag_records"]) == (12, busy(136) - near(125))
    assert stood["lag_recovery_s"] == 16
    assert troubled.measured["by_group"]["seldom"]["delivery_gap_s"] is None


def test_times_rebalancing_and_unassigned_are_summed_and_the_longest(troubled: Result) -> None:
    moved = troubled.measured["by_group"]["moved"]
    assert (moved["rebalancing_s"], moved["unassigned_s"]) == (7, 8)
    assert (verdicts(troubled)["rebalancing_s"], verdicts(troubled)["unassigned_s"]) == ("fail", "fail")
    assert any("Give moved the cooperative-sticky" in one.advice for one in troubled.recommendations)


def test_groups_that_are_not_as_before_are_not_back(troubled: Result) -> None:
    why = {row["who"]: row["why"] for row in troubled.anomalies["not_back"].examples}
    assert why.keys() == {"down", "lost"}
    assert why["down"].startswith("is Empty, is ")
    assert why["lost"] == "has 1 partitions unassigned"
    assert troubled.measured["by_group"]["empty"]["rebalancing_s"] is None


def test_lag_is_followed_until_the_next_restart_or_the_end(spark: SparkSession) -> None:
    def behind(until: int) -> Of:
        return lambda at: near(at) if not 125 < at < until else near(125)

    def recovery(until: int, level: int, actions: list[Row]) -> tuple[str, float]:
        tables = {"group_offsets": offsets(behind(until), busy), "group_states": states()}
        result = found(spark, about([], ["g"]), {"lag_recovery_s": level}, **tables, actions=actions)
        return verdicts(result)["lag_recovery_s"], result.measured["by_restart"][0]["lag_recovery_s"]

    one = restart()
    assert recovery(161, 30, one) == ("fail", 40)
    assert recovery(161, 50, one) == ("pass", 40)
    assert recovery(END + 1, 50, one) == ("fail", 80)
    # At the end it was not back: nobody knows when it will be.
    assert recovery(END + 1, 100, one) == ("unknown", 80)
    # The next restart began before it was back.
    assert recovery(161, 50, [*one, *restart(150, 155)]) == ("unknown", 30)


def test_a_gap_that_cannot_be_told_from_its_level_is_unknown(spark: SparkSession) -> None:
    silent = lambda at: busy(at) if at <= 121 else busy(121) if at < 127 else busy(at)  # noqa: E731
    result = found(spark, about(["orders"]), {"produce_gap_s": 5.5}, end_offsets=ends(silent))
    assert result.verdict == "unknown"
    assert "cannot be told from its level of 5.5 s" in result.because


def test_a_partition_with_few_records_is_not_judged(spark: SparkSession) -> None:
    rare = ends(lambda at: at // 60)
    result = found(spark, about(["orders"]), {"produce_gap_s": 2}, end_offsets=rare)
    assert (result.verdict, result.figures[0].value) == ("unknown", None)
    assert "c/orders takes a record every 60 s" in result.because
    # Beside one with many, the latter is judged, and it is said.
    both = [*rare, *ends(busy, partition=1)]
    result = found(spark, about(["orders"], partitions=2), {"produce_gap_s": 4}, end_offsets=both)
    assert (result.verdict, result.measured["produce_gap_s"]) == ("pass", 1)
    assert "produce gap not judged: c/orders takes a record every 60 s" in result.because


def test_a_group_that_commits_rarely_is_not_judged_and_advised(spark: SparkSession) -> None:
    seldom = {"group_offsets": offsets(lambda at: busy(at // 5 * 5), busy), "group_states": states()}
    result = found(spark, about([], ["g"]), {"delivery_gap_s": 2}, **seldom)
    assert result.verdict == "unknown"
    assert "delivery gap: g commits every 4 s" in result.because
    assert "auto.commit.interval.ms of g to 500" in result.recommendations[0].advice


def test_a_stall_far_above_its_level_fails_whatever_is_usual(spark: SparkSession) -> None:
    """A record, and a commit, comes each five seconds: no gap of 2 s can be told, one of 40 s can."""

    def often(at: int, stood: int) -> int:
        return busy(at // 5 * 5 if not 120 < at < 120 + stood else 120)

    levels = {"produce_gap_s": 2, "delivery_gap_s": 2}
    for stood, verdict in ((40, "fail"), (8, "unknown")):
        tables = {
            "end_offsets": ends(lambda at, stood=stood: often(at, stood)),
            "group_offsets": offsets(lambda at, stood=stood: often(at, stood), busy),
            "group_states": states(),
        }
        result = found(spark, about(["orders"], ["g"]), levels, **tables)
        assert (result.verdict, *(verdicts(result)[key] for key in levels)) == (verdict,) * 3
        gaps = [
            result.measured["by_topic"][0]["produce_gap_s"],
            result.measured["by_group"]["g"]["delivery_gap_s"],
        ]
        assert gaps == ([40, 39] if verdict == "fail" else [None, None])
    # Nobody ever wrote or read: no stall.
    idle = {"end_offsets": ends(lambda at: 7), "group_offsets": offsets(lambda at: 0, lambda at: 7)}
    assert found(spark, about(["orders"], ["g"]), levels, **idle, group_states=states()).verdict == "unknown"


def test_a_group_for_which_nothing_waits_has_no_gap(spark: SparkSession) -> None:
    result = found(
        spark,
        about([], ["g"]),
        {"delivery_gap_s": 5},
        group_offsets=offsets(busy, busy),
        group_states=states(),
    )
    assert (result.verdict, result.measured["delivery_gap_s"]) == ("pass", 0)


def test_a_group_that_was_empty_all_the_time_passes(spark: SparkSession) -> None:
    empty = {
        "group_offsets": offsets(lambda at: 0, busy),
        "group_states": states(lambda at: "Empty", members=0),
    }
    assert found(spark, about([], ["g"]), **empty).verdict == "pass"


def balancer(
    errors: Of, server: str = "clients", requests: Of = lambda at: 50 * at, own_errors: Of = lambda at: 0
) -> list[Row]:
    def row(at: int) -> Row:
        who = {"host": "lb", "server": server, "at_us": us(at), "status": "UP", "queued": 0}
        of_server = 0 if server == "clients" else errors(at)
        counters = {"client_errors": 0, "connection_errors": of_server, "response_errors": of_server}
        told = {"own_errors": own_errors(at)}
        return who | counters | told | {"requests": requests(at), "server_errors": errors(at)}

    return [row(at) for at in SECONDS]


def test_what_instances_told_prometheus_stands_beside_what_is_usual(spark: SparkSession) -> None:
    who = {"host": "h1", "service": "kafka_rest", "instance": "8082", "name": "errors"}
    told = [who | {"at_us": us(at), "value": float(at > STOPPED) + at % 2 / 4} for at in SECONDS]
    result = found(spark, about([], ["g"]), group_states=states(), metrics=told)
    assert result.measured["by_instance"] == [who | {"usual": 0.25, "later": 1.25}]


@pytest.mark.parametrize(
    ("errors", "level", "verdict", "counted"),
    [
        (lambda at: 0 if at < 125 else 30, 0, "fail", 30),
        # One in ten seconds is usual, and goes on.
        (lambda at: at // 10, 0, "pass", 8),
        # A process that began anew counts from 0: 12 before it did, and 2 after.
        (lambda at: 100 if at < 122 else 112 if at < 126 else 2, 13, "fail", 14),
    ],
)
def test_errors_of_balancers_count_beyond_the_usual_ones(
    spark: SparkSession, errors: Of, level: int, verdict: str, counted: int
) -> None:
    run, levels = about(balancers=["lb"]), {"balancer_errors": level}
    result = found(spark, run, levels, balancer=balancer(errors))
    assert (result.verdict, result.measured["balancer"]["errors"]) == (verdict, counted)


def test_only_what_clients_got_is_an_error_of_a_balancer(spark: SparkSession) -> None:
    """What a server failed, the balancer tried again at the next one."""
    run, levels = about(balancers=["lb"]), {"balancer_errors": 0}
    failed = balancer(lambda at: max(at - 120, 0), "rest/h1")
    result = found(spark, run, levels, balancer=failed + balancer(lambda at: 0))
    assert (result.verdict, result.measured["balancer"]["errors"]) == ("pass", 0)
    # A reload: requests began anew, and more errors came since than there had been.
    began = balancer(lambda at: 2 if at < 125 else 5, requests=lambda at: 50 * (at if at < 125 else at - 125))
    result = found(spark, run, {"balancer_errors": 4}, balancer=failed + began)
    assert (result.verdict, result.measured["balancer"]["errors"]) == ("fail", 5)
    result = found(spark, run, levels, balancer=failed)
    assert (result.verdict, result.measured["balancer"]) == ("unknown", {})
    assert "counters of lb were never sampled" in result.because


def test_consumers_that_a_balancer_tells_to_begin_anew_are_no_errors(spark: SparkSession) -> None:
    run, levels = about(balancers=["lb"]), {"balancer_errors": 0}
    # Twelve, each counted as the balancer's own a second before it is counted at all; then one of a server.
    told = balancer(
        lambda at: min(max(at - 121, 0), 12) + (at > 150), own_errors=lambda at: min(max(at - 120, 0), 12)
    )
    result = found(spark, run, levels | {"balancer_errors": 1}, balancer=told)
    assert (result.verdict, result.measured["balancer"]["errors"]) == ("pass", 1)
    assert result.measured["balancer"]["own_errors"] == 12
    assert found(spark, run, levels, balancer=told).verdict == "fail"


def test_a_hole_in_the_samples_of_a_balancer_is_a_doubt(spark: SparkSession) -> None:
    rows = [row for row in balancer(lambda at: 0) if not us(140) < row["at_us"] < us(150)]
    result = found(spark, about(balancers=["lb"]), balancer=rows)
    assert result.verdict == "unknown"
    assert "counters of lb were not sampled for 10.0 s" in result.because


def test_a_short_hole_in_the_samples_is_told_and_no_doubt(spark: SparkSession) -> None:
    rows = [row for row in balancer(lambda at: 0) if not us(140) < row["at_us"] < us(145)]
    result = found(spark, about(balancers=["lb"]), balancer=rows)
    assert result.verdict == "pass"
    assert result.anomalies["sampler_slept"].examples[0]["longest_s"] == 5


def test_a_group_that_samples_see_just_before_its_commits_is_back(spark: SparkSession) -> None:
    # It commits 10 records a second; up to the restart samples came just after that, and then just before.
    run = about([], ["g"])
    result = found(spark, run, {}, group_offsets=offsets(behind_after(10), busy), group_states=states())
    assert result.verdict == "pass"
    result = found(spark, run, {}, group_offsets=offsets(behind_after(11), busy), group_states=states())
    assert result.measured["by_group"]["g"]["usual_lag_records"] == 0
    assert result.verdict == "fail"


def test_throughput_is_held_against_the_usual_one(spark: SparkSession) -> None:
    slower = ends(lambda at: busy(at) if at < 140 else busy(140) + 4 * (at - 140))
    result = found(spark, about(["orders"]), {"throughput_percent": 90}, end_offsets=slower)
    assert (result.verdict, verdicts(result)["throughput_percent"]) == ("fail", "fail")
    result = found(spark, about(["orders"]), {"throughput_percent": 90}, end_offsets=ends(busy))
    assert result.verdict == "pass"


def test_what_was_not_sampled_is_unknown_and_named(spark: SparkSession) -> None:
    result = found(
        spark,
        about(["cut", "never", "orders"], ["g", "mute"], balancers=["lb"]),
        LEVELS,
        end_offsets=[*ends(busy), *ends(busy, "cut")[:-8]],
        group_offsets=offsets(near, busy),
        group_states=[row for row in states() if not us(140) < row["at_us"] < us(150)] + states(group="mute"),
    )
    assert result.verdict == "unknown"
    seen = {(row["who"], row["what"]): row["longest_s"] for row in result.anomalies["sampler_slept"].examples}
    assert seen == {
        ("c/cut", "ends"): 8,
        ("c/never", "ends"): END,
        ("g", "states"): 10,
        ("lb", "counters"): END,
        ("mute", "commits"): END,
    }


@pytest.mark.parametrize(
    ("cluster", "kind", "verdict"),
    [("c", "cluster", "unknown"), ("", "topic", "unknown"), ("", "group", "unknown"), ("c", "group", "pass")],
)
def test_what_was_named_and_not_watched_is_a_doubt(
    spark: SparkSession, cluster: str, kind: str, verdict: str
) -> None:
    left_out = {"cluster": cluster, "kind": kind, "name": "it", "why": "nobody has it"}
    result = found(spark, about(["orders"], not_watched=[left_out]), end_offsets=ends(busy))
    assert (result.verdict, f"{kind} it was not watched: nobody has it" in result.because) == (
        verdict,
        verdict == "unknown",
    )


def test_a_watch_that_broke_off_or_knows_nothing_usual_is_unknown(spark: SparkSession) -> None:
    run = about(["orders"], ended_us=None, usual_until_us=us(30))
    result = found(spark, run, LEVELS, end_offsets=ends(busy), actions=restart()[:2])
    assert (result.verdict, result.measured["watched_s"]) == ("unknown", END)
    for doubt in (
        "the watch did not end properly",
        "30 s were watched before the first change, 60 are needed",
        "h1:8082 did not become ready again",
    ):
        assert doubt in result.because
    assert found(spark, about(["orders"], ended_us=None)).verdict == "unknown"


def test_an_instance_that_is_removed_needs_not_become_ready(spark: SparkSession) -> None:
    result = found(spark, about(["orders"]), LEVELS, end_offsets=ends(busy), actions=restart()[:1])
    assert "become ready" not in result.because
    assert (verdicts(result)["produce_gap_s"], result.measured["by_restart"][0]["took_s"]) == ("pass", 1)
    failed = [row | {"ok": False} for row in restart()[:1]]
    for actions in (restart()[:2], failed, [restart()[0] | {"action": "kill"}]):
        result = found(spark, about(["orders"]), end_offsets=ends(busy), actions=actions)
        assert (result.verdict, "did not become ready again" in result.because) == ("unknown", True)


def test_a_watch_without_a_restart_is_judged_by_little(spark: SparkSession) -> None:
    tables = {"end_offsets": ends(busy), "group_offsets": offsets(near, busy), "group_states": states()}
    result = found(spark, about(["orders"], ["g"]), LEVELS, **tables, actions=[])
    judged = {key: verdict for key, verdict in verdicts(result).items() if verdict != "measured"}
    assert (result.verdict, judged) == ("pass", {"not_back": "pass"})
    assert (result.measured["produce_gap_s"], result.measured["restarts"]) == (1, 0)
    # As the watch writes it once it has seen what is usual.
    marked = about(["orders"], ["g"], usual_until_us=us(STOPPED))
    result = found(spark, marked, LEVELS | {"throughput_percent": 80}, **tables, actions=[])
    judged = {key: verdict for key, verdict in verdicts(result).items() if verdict != "measured"}
    assert judged == {"throughput_percent": "pass", "not_back": "pass"}
    short = {name: [row for row in rows if row["at_us"] <= us(100)] for name, rows in tables.items()}
    result = found(spark, about(["orders"], ["g"], ended_us=us(100)), LEVELS, **short, actions=[])
    assert result.verdict == "measured"


def test_a_change_without_a_restart_is_judged_as_one(spark: SparkSession) -> None:
    silent = lambda at: busy(at) if at <= 150 else busy(150) if at < 164 else busy(at)  # noqa: E731
    tables = {
        "end_offsets": ends(silent),
        "group_offsets": offsets(lambda at: near(at) if not 160 < at < 170 else near(160), busy),
        "group_states": states(lambda at: "PreparingRebalance" if 160 <= at < 167 else "Stable"),
    }
    run = about(["orders"], ["g"], changing=True, usual_until_us=us(STOPPED))
    result = found(spark, run, LEVELS | {"throughput_percent": 50}, **tables, actions=[])
    expected = {"produce_gap_s": "fail", "delivery_gap_s": "fail", "rebalancing_s": "fail"}
    judged = verdicts(result)
    assert {key: judged[key] for key in expected} == expected
    assert (judged["lag_recovery_s"], judged["throughput_percent"]) == ("pass", "pass")
    assert "produce gap 14.0 s, 1.0 s more or less, of c/orders orders-0 at the change" in result.because
    (change,) = result.measured["by_restart"]
    assert (change["instance"], change["at_s"], change["lag_recovery_s"]) == ("the change", STOPPED, 7)
    assert result.measured["restarts"] == 0
    # Where it began is not known: nothing is usual.
    unmarked = about(["orders"], ["g"], changing=True)
    assert found(spark, unmarked, LEVELS, **tables, actions=[]).verdict == "unknown"


def test_only_what_is_of_others_is_asked_without_a_load() -> None:
    assert [*asked(about(), Levels())] == ["traffic"]
    assert "traffic" not in asked(frames.run(), Levels())
    assert "traffic" in asked(frames.run(), Levels.model_validate({"traffic": {}}))
    assert {"traffic", "delivery"} <= asked(frames.run(watch=about().watch), Levels()).keys()
    assert {"group_offsets", "balancer"} <= {*needs("traffic", about())}


def test_samples_of_many_partitions_never_come_to_the_driver(spark: SparkSession) -> None:
    count, columns = 300 * (END + 1), {"partition": "n % 300", "at_us": f"{us(0)} + n div 300 * 1000000"}
    end = "(n div 300) * 10"
    tables = {
        "end_offsets": frames.many(spark, "end_offsets", ends(busy)[0], count, end_offset=end, **columns),
        "group_offsets": frames.many(
            spark, "group_offsets", offsets(busy, busy)[0], count, committed=end, end_offset=end, **columns
        ),
        "actions": frames.frame(spark, "actions", restart()),
        "group_states": frames.frame(spark, "group_states", states()),
    }
    held = Evidence("memory", about(["orders"], ["g"], 300), dict.fromkeys(TABLES) | tables)
    # Of 60,300 rows each of the two would be more than a megabyte.
    with frames.collecting(spark, "1m"):
        result = traffic.check(held, Levels.model_validate({"traffic": LEVELS | {"unassigned_s": None}}))
    assert result.verdict == "pass", result.because
    assert result.series["rate"]["c/orders"][-1][1] == 3000


def test_twenty_quiet_runs_raise_no_alarm(spark: SparkSession) -> None:
    """Records come by chance, at rates of one in ten seconds to ten a second; commits every five seconds."""
    tables: dict[str, list[Row]] = {"end_offsets": [], "group_offsets": [], "group_states": []}
    names = [f"run-{seed}" for seed in range(20)]
    for seed, name in enumerate(names):
        chance = np.random.default_rng(seed)
        tables["group_states"] += states(group=name)
        for partition, rate in enumerate((0.1, 0.5, 1, 1.3, 2, 3, 5, 10)):
            came = np.cumsum(chance.poisson(rate, END + 1)).tolist()
            committed = [came[max(at - (at + seed) % 5, 0)] for at in SECONDS]
            tables["end_offsets"] += ends(came.__getitem__, name, partition)
            tables["group_offsets"] += offsets(committed.__getitem__, came.__getitem__, name, partition)
    levels = LEVELS | {"delivery_gap_s": 12, "throughput_percent": 80}
    result = found(spark, about(names, names, 8), levels, **tables)
    assert "fail" not in {result.verdict, *verdicts(result).values()}, result.because
    assert verdicts(result)["not_back"] == "pass"
