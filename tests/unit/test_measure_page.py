"""The page of a measurement: what one partition takes and gives, from the sums of the audit."""

from __future__ import annotations

import json
import re
from typing import Any

from spark_checks.results import Result
from verify.measure.page import page


def curve(stops_at: int | None) -> dict[str, Any]:
    return {
        "curve_mb_per_s": {"1": 30.25, "2": 55.0},
        "curve_spread": {"1": 0.1, "2": 0.04},
        "one_mb_per_s": 30.25,
        "spread": 0.1,
        "repetitions": 3,
        "stops_at": stops_at,
        "limited_by": "<the network>",
    }


MEASURED = {
    **{"record_bytes": 1000, "codec": "zstd", "acks": "all", "replication": 3, "clients": 1},
    "production": curve(2),
    "consumption": curve(None),
    "targets": [{"topic": "orders", "target_mb_per_s": 40.0, "growth": 1.5, "needed_partitions": 3}],
}


def test_the_page_has_both_curves_and_what_each_target_needs_and_loads_nothing() -> None:
    text = page(Result("partitions", "measured", "two are enough", measured=MEASURED), "measure-1")
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", text[: text.index("<script>")])
    drawn = json.loads(text.split('id="figures">')[1].split("</script>")[0])["curve"]["data"]
    assert [(line["name"], line["y"]) for line in drawn] == [
        ("production", [30.25, 55.0]),
        ("consumption", [30.25, 55.0]),
    ]
    said = " ".join(re.sub("<[^>]*>", " ", text[: text.index("<script>")]).split())
    assert "production: one partition 30.25 MB/s (spread 10% of 3 repetitions)" in said
    assert "stops growing at 2 partitions; limited by &lt;the network&gt;" in said
    assert "still grows at its end" in said
    assert "orders 40 1.5 3" in said


def test_a_measurement_that_says_nothing_says_why() -> None:
    text = page(Result("partitions", "unknown", "no round came to its end"), "measure-1")
    assert "no round came to its end" in text
    assert 'id="curve"' not in text
