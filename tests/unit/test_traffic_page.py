"""The report of a watch without a load: its head, its timeline and its tables are of others' traffic."""

from __future__ import annotations

import json
from typing import Any, Final

from kedge.evidence.run import Run
from spark_checks.engine.readers import Evidence
from spark_checks.job import Audit
from spark_checks.rebalance.restarts import Restart
from spark_checks.report import charts, page
from spark_checks.report.answer import answer
from spark_checks.results import Figure, Result
from spark_checks.traffic.check import _measured
from spark_checks.traffic.measures import Found
from spark_checks.traffic.samples import Times

_RUN: Final = Run.model_validate({
    "run_id": "watched",
    "started_us": 10_000_000,
    "ended_us": 310_000_000,
    "measured_until_us": None,
    "topics": [],
    "watch": {
        "interval_us": 1_000_000,
        "started_us": 10_000_000,
        "ended_us": 310_000_000,
        "topics": [{"cluster": "c", "topic": name, "partitions": 3} for name in ("orders", "payments")],
        "groups": {"billing": {"cluster": "c", "group": "billing", "topics": ["orders"], "protocol": "classic"}},
        "balancers": ["lb1"],
        "not_watched": [{"cluster": "c", "kind": "group", "name": "secret", "why": "no right to describe it"}],
    },
})  # fmt: skip
_RESTART: Final = Restart(1, "h1", "kafka_rest", "h1:8082", 190_000_000, 200_000_000, 210_000_000)


def watched() -> Audit:
    """Return an audit of one restart in a watch."""
    found = Found()
    cell: dict[str, Any] = {"restart": 1, "at": "", "unjudged": 0, "usual_us": 0, "low_us": 0, "high_us": 0}
    found.cells["produce_gap_s"] = [cell | {"who": "c/orders", "value_us": 3_000_000, "at": "orders-0"}]
    found.cells["delivery_gap_s"] = [cell | {"who": "billing", "value_us": 9_000_000}]
    found.cells["lag_recovery_s"] = [cell | {"who": "billing", "value_us": 12_000_000, "peak": 400}]
    found.cells["rebalancing_s"] = [cell | {"who": "billing", "value_us": 4_250_000}]
    found.cells["unassigned_s"] = [cell | {"who": "billing", "value_us": 5_750_000}]
    found.groups = {
        "billing": {"group": "billing", "commits_us": 1_000_000, "baseline": 20, "state": "Stable"}
    }
    rate: dict[str, Any] = {"before": 120.5, "after": 118.0, "percent": 97.9, "error": 2.5}
    found.topics = [
        {"who": "c/orders"} | rate,
        {"who": "c/payments"} | rate | {"percent": None, "error": None},
    ]
    found.errors = {
        "requests": 100,
        "client_errors": 0,
        "errors": 2,
        "usual_errors": 0,
        "excess": 2,
        "hosts": {"lb1"},
    }
    watch = _RUN.watch
    assert watch is not None
    series = {
        "rate": {
            "c/orders": [[float(at), 120.0] for at in range(300)],
            "c/payments": [[float(at), 30 + at % 7] for at in range(300)],
        },
        "lag": {"billing": [[float(at), 400 if 181 <= at < 190 else 5] for at in range(300)]},
        "errors": [[float(at), int(at in (182, 183))] for at in range(300)],
        "usual_s": 180.0,
    }
    figures = (
        Figure("delivery gap", 9.0, 5.0, "s", key="traffic.delivery_gap_s"),
        Figure("produce gap", 3.0, None, "s", key="traffic.produce_gap_s"),
        Figure("not back", 0, 0, key="traffic.not_back", of=1),
    )
    times = Times(watch.started_us, 190_000_000, 310_000_000, 1_000_000, [_RESTART])
    result = Result(
        "traffic", "fail", "delivery gap 9.0 s, 2.0 s more or less, of billing orders-0 at h1:8082, the level is 5 s",
        measured=_measured(found, watch, times, _RUN), figures=figures, series=series, definition="What others felt.",
    )  # fmt: skip
    return Audit("watched", "fail", (result,), Evidence("u", _RUN, {}), (_RESTART,), None, {"all": 1.0})


def test_a_watch_without_a_load_has_a_page_of_its_own() -> None:
    text = " ".join(page.render(watched()).split())
    assert "s of load" not in text
    assert "300 s watched, the first 180 s as what is usual; 1 restarts" in text
    assert "What others felt" in text
    # Of the restart and of the group.
    for name, value in (("rebalancing, s", "4.25"), ("unassigned, s", "5.75")):
        assert text.count(f">{value}<") == 2, name
        assert name in text
    assert "2 topics, 1 group, 1 balancer of others, every 1 s; nothing was sent" in text
    assert "loss, duplicates and order are not judged, as nothing was sent" in answer(watched()).why


def test_the_timeline_has_others_topics_groups_and_errors_with_the_restart() -> None:
    drawn = charts.timeline(watched())
    assert [line["name"] for line in drawn["data"]] == [
        "c/orders",
        "c/payments",
        "lag billing",
        "balancer errors",
    ]
    bands = [shape for shape in drawn["layout"]["shapes"] if shape["type"] == "rect"]
    assert [(band["x0"], band["x1"]) for band in bands] == [(180.0, 190.0)]
    assert "seconds since the watch began" in json.dumps(drawn["layout"])
