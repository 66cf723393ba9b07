"""The rate of a topic from its end offsets, and MapR's answers through a double of maprcli."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from verify.watch.topic_growth import MaprTopic, Rate, TopicReading, WatchError, rates, total
from verify.watch_topic import main

#: MapR cannot be had here. The double answers as `maprcli stream topic info -json` is documented to, each
#: call with the next of the answers that its folder holds, and the last one from then on.
MAPRCLI_DOUBLE = """#!{python}
import pathlib, sys
folder = pathlib.Path(__file__).parent
assert sys.argv[1:] == ["stream", "topic", "info", "-path", "/s/test", "-topic", "t", "-json"], sys.argv
answers = sorted(folder.glob("answer-*.json"))
print(answers[0].read_text())
if len(answers) > 1:
    answers[0].unlink()
"""


@pytest.fixture
def maprcli_double(tmp_path: Path) -> Any:
    folder = tmp_path / "maprcli-double"
    folder.mkdir()
    tool = folder / "maprcli"
    tool.write_text(MAPRCLI_DOUBLE.format(python=sys.executable))
    tool.chmod(0o755)

    def answering(*answers: Any) -> str:
        for number, answer in enumerate(answers):
            (folder / f"answer-{number}.json").write_text(
                answer if isinstance(answer, str) else json.dumps(answer)
            )
        return str(tool)

    return answering


def info(*partitions: tuple[int, int]) -> dict[str, Any]:
    rows = [
        {"partitionid": n, "maxoffset": end, "logicalsize": size, "minoffset": 0, "physicalsize": size}
        for n, (end, size) in enumerate(partitions)
    ]
    return {"status": "OK", "total": len(rows), "data": rows}


def test_rates_are_records_and_megabytes_of_ten_to_the_six() -> None:
    before, after = TopicReading(0, {0: 100, 1: 7}), TopicReading(2_000_000, {0: 2100, 1: 7})
    found = rates(before, after, 500)
    assert found == [Rate(0, 1000, 0.5), Rate(1, 0, 0)]
    assert total(found) == (1000, 0.5)


def test_new_partition_and_topic_made_anew_have_no_rate() -> None:
    found = rates(TopicReading(0, {0: 100}), TopicReading(1_000_000, {0: 3, 1: 50}), 10)
    assert found == [Rate(0, None, None), Rate(1, None, None)]


def test_unknown_size_is_not_said_to_be_zero() -> None:
    found = rates(TopicReading(0, {0: 0}), TopicReading(1_000_000, {0: 5}), None)
    assert found == [Rate(0, 5, None)]
    assert total(found) == (5, None)


@pytest.mark.process
def test_mapr_says_offsets_and_bytes(maprcli_double: Any) -> None:
    topic = MaprTopic("/s/test:t", maprcli_double(info((10, 1000), (0, 0)), info((40, 7000), (20, 4000))))
    before, after = topic.read(), topic.read()
    assert (before.ends, after.ends) == ({0: 10, 1: 0}, {0: 40, 1: 20})
    assert topic.record_bytes(before, after) == 200


@pytest.mark.process
def test_mapr_bytes_that_expiry_took_are_unknown(maprcli_double: Any) -> None:
    topic = MaprTopic("/s/test:t", maprcli_double(info((10, 1000)), info((40, 100))))
    assert topic.record_bytes(topic.read(), topic.read()) is None


@pytest.mark.process
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": "ERROR", "errors": [{"id": 2, "desc": "No such topic"}]}, "No such topic"),
        ("Login failed", "Login failed"),
        ({"status": "OK", "data": [{"id": 1}]}, "not the answer of topic info"),
    ],
)
def test_mapr_that_refuses_is_one_line(maprcli_double: Any, answer: Any, said: str) -> None:
    with pytest.raises(WatchError, match=said) as raised:
        MaprTopic("/s/test:t", maprcli_double(answer)).read()
    assert "\n" not in str(raised.value)


def test_mapr_topic_without_its_stream_is_refused() -> None:
    with pytest.raises(WatchError, match="/path/of/stream:topic"):
        MaprTopic("t")


@pytest.mark.process
def test_command_prints_and_appends(
    maprcli_double: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evidence").mkdir()
    tool = maprcli_double(info((0, 0)), info((1000, 500_000)))
    words = ["--mapr", "--maprcli", tool, "--topic", "/s/test:t", "--every", "0.1", "--samples", "2"]
    assert main([*words, "--append", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].endswith(" 0 records/s 0.000 MB/s")
    rows = pq.read_table(tmp_path / "evidence" / "end_offsets").to_pylist()
    assert [(r["cluster"], r["partition"], r["end_offset"], r["record_bytes"]) for r in rows] == [
        ("mapr", 0, 0, None),
        ("mapr", 0, 1000, 500),
        ("mapr", 0, 1000, None),
    ]


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say which cluster"),
        (["--mapr", "--every", "0"], "--every 0"),
        (["--mapr", "--append", "/nowhere"], "no run is there"),
        (["--mapr", "--maprcli", "/nowhere/maprcli"], "cannot be run"),
    ],
)
def test_what_has_to_be_mended_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--topic", "/s/test:t", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
