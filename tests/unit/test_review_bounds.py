"""Files of others end no process and keep nobody waiting: what is too much is one line, within bounds."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.evidence.bounds import TooMuchError, check_yaml, in_bounds
from kedge.review.command import main, review
from kedge.review.reading import Value, comes_later, properties, settled
from tests.unit.test_host_review import PROXY, rest, written

pytestmark = pytest.mark.process

DEEP = "[" * 120_000
#: Nine levels of nine aliases each: 457 bytes that are 400 million nodes.
BOMB = "".join(
    f"{name}: &{name} [{','.join([f'*{chr(ord(name) - 1)}' if name > 'a' else 'x'] * 9)}]\n"
    for name in "abcdefghi"
)
HOSTILE = {
    "brackets.yml": (DEEP, "nested deeper than 64"),
    "dashes.yml": ("- " * 120_000, "nested deeper than 64"),
    "bomb.yml": (BOMB, "aliases counted in full"),
    "itself.yml": ("a: &a [*a]\n", "refers to itself"),
    "date.yml": ("a: 2026-13-45\n", "month must be in 1..12"),
    "digits.yml": (f"a: {'9' * 5_000}\n", "is no YAML that can be read"),
    "keys.properties": ("".join(f"group.id{n}=1\n" for n in range(3_000)), "more than 2,000 keys"),
    "line.properties": ("group.id=" + "${a:-" * 40_000, "more than 131,072 are taken"),
    "clusters.properties": ("clusters=" + ",".join(f"c{n}" for n in range(1_000)), "names 1,000 clusters"),
}
TAKEN = {
    "consumer.properties": "group.id=" + "${a:-" * 20_000,
    "kafka-rest.properties": "id=x\n" + "".join(f"producer.unknown{n}=1\n" for n in range(400)),
    "empty.properties": "\n" * 400_000 + "group.id=x\n",
    "mirror.sh": "kafka-mirror-maker.sh --num.streams 8" + " " * 100_000 + "x",
    "compose.yml": "services:\n proxy:\n  image: cp-kafka-rest:7.9.1\n  mem_limit: " + "9" * 401 + "\n"
    "  environment: {KAFKA_REST_ID: x, KAFKA_REST_THREAD_POOL_MAX: '" + "9" * 401 + "'}\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_too_much_is_one_line(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, why = HOSTILE[name]
    (tmp_path / name).write_text(text)
    assert main([str(tmp_path / name)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line
    assert why in line


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_much_is_reviewed(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text(TAKEN[name])
    assert main([str(tmp_path / name)]) in (0, 1)
    assert name in capsys.readouterr().out


def test_who_has_more_processes_than_are_reviewed_at_once_is_told(tmp_path: Path) -> None:
    file = tmp_path / "compose.yml"
    proxy = "  image: cp-kafka-rest:7.9.1\n  environment: {KAFKA_REST_ID: x}\n"
    file.write_text("services:\n" + "".join(f" p{n}:\n{proxy}" for n in range(18)))
    judged, others = review([file])
    assert len(judged) == 16
    assert [other for other in others if "2 are left" in other]


def test_each_unknown_key_keeps_its_own_place(tmp_path: Path) -> None:
    file = tmp_path / "kafka-rest.properties"
    file.write_text("id=x\n" + "".join(f"producer.unknown{n}=1\n" for n in range(12)))
    ((judged,), _) = review([file])
    assert sorted(f.where.rpartition(":")[2] for f in judged.findings if "unknown" in f.message) == sorted(
        str(n + 2) for n in range(12)
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("http://0.0.0.0:${PORT:-8082}/", "http://0.0.0.0:8082/"),
        ("${A:-${B:-x}}", "x"),
        ("${A:-${B}}", "${B}"),
        ("${A}${B-y}", "${A}y"),
        ('{"a": "${B:-x}"}', '{"a": "x"}'),
        ("${file:/etc/x:key}", "${file:/etc/x:key}"),
        ("${A:-x", "${A:-x"),
        ("${A:-${B:-x}", "${A:-x"),
    ],
)
def test_defaults_of_a_shell_stand_in_the_place_of_its_variables(text: str, meant: str) -> None:
    assert settled(Value(text, "")).text == meant


@pytest.mark.parametrize("text", ["$(id)", "$((1 + 2))", "a$(b $(c))", "${A}", "{{ a }}", "${env:A}", "$A"])
def test_what_is_put_in_later_is_known(text: str) -> None:
    assert comes_later(text)


@pytest.mark.parametrize("text", ["", "${", "$(", "a", "}${", "x)$("])
def test_what_only_begins_so_is_not_put_in_later(text: str) -> None:
    assert not comes_later(text)


def test_a_key_ends_at_the_first_separator_that_no_backslash_takes_away() -> None:
    found = properties("a\\=b\\ c=d\ne\\\\ f\n", "f")
    assert {key: value.text for key, value in found.items()} == {"a=b c": "d", "e\\": "f"}


def test_yaml_that_people_write_is_no_bomb() -> None:
    check_yaml("a: &a {b: [1, 2]}\nc: {<<: *a, d: *a}\n---\ne: " + "[" * 40 + "]" * 40, 100)


def spin() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (lambda: bytearray(1 << 31), "takes more than 64 MiB"),
        # Of a core, or ten by the clock where others have the cores.
        (spin, "takes more than 10? s"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "ended its process"),
    ],
)
def test_what_takes_too_much_ends_its_own_process(work: Callable[[], object], why: str) -> None:
    with pytest.raises(TooMuchError, match=why):
        in_bounds(work, 64 << 20, 1)


def test_what_stays_in_bounds_is_returned_or_raised() -> None:
    assert in_bounds(lambda: {"a": 1}, 64 << 20, 10) == {"a": 1}
    with pytest.raises(ValueError, match="invalid literal"):
        in_bounds(lambda: int("x"), 64 << 20, 10)


def test_a_host_that_says_too_much_keeps_no_other_from_its_review(tmp_path: Path) -> None:
    hostile = "id=x\n" + "".join(f"key{n}=1\n" for n in range(3_000))
    report = written(
        tmp_path, rest1=[rest(hostile, unit="a"), rest(PROXY + "x" * 200_000, unit="b")], rest2=[rest()]
    )
    assert [one.where for one in report.judgements] == ["rest2 pid-7"]
    assert [other for other in report.others if "rest1 a" in other and "2,000 keys" in other]
    assert [other for other in report.others if "rest1 b" in other and "131,072" in other]


def test_what_drives_a_terminal_is_printed_as_its_letters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driving = "\x1b[2J\x9b31m\u202e"
    file = tmp_path / "kafka-rest.properties"
    file.write_text(f"id=x\nproducer.ackz{driving}=1\nproducer.acks=[a](http://evil)\n", encoding="utf-8")
    for form in ("text", "markdown"):
        main([str(file), "--format", form])
        printed = capsys.readouterr().out
        assert "\\x1b[2J" in printed.replace("\\[", "[").replace("\\\\", "\\")
        assert not {"\x1b", "\x9b", "\u202e"} & set(printed)
    assert "](http://evil)" not in printed


def test_an_address_in_a_reviewed_file_is_no_link_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kafka-rest.properties"
    said = "http://evil.net WWW.evil.net <mailto:b@evil.net>"  # GitHub and GitLab make a link of each
    file.write_text(f"id=x\nproducer.acks={said}\n", encoding="utf-8")
    main([str(file), "--format", "markdown"])
    printed = capsys.readouterr().out
    assert "evil.net" in printed
    assert not re.search(r"://evil|www\.evil|<", printed, re.IGNORECASE)
