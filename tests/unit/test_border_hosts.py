"""What a host prints is read within bounds; a host that prints something else costs its own evidence."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kedge.evidence.border.host_output import LINE_BYTES, lines, machine, nanoseconds, output, sample
from kedge.evidence.border.untrusted import UntrustedError, count, shown
from tests.hostile_ssh import Answer, ssh_host
from tests.unit.test_load_collect import GC_LINES, PROPERTIES, TEN, plan, setting, told
from tests.unit.test_watch_hosts import UNITS, line
from verify.collect import reading
from verify.collect.__main__ import collect
from verify.collect.gc import pauses
from verify.collect.hosts import Access
from verify.collect.reading import read_command, read_output
from verify.collect.remote import RemoteError, on_all
from verify.collect.rocksdb import samples
from verify.watch.host_watcher import rows


def saying(said: bytes, status: int = 0) -> Answer:
    return lambda _command: (iter([said]), status)


def honest(command: str) -> tuple[Iterator[bytes], int]:
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    return iter([done.stdout]), done.returncode


def endless(_command: str) -> tuple[Iterator[bytes], int]:
    return itertools.repeat(b"\0" * 32_768), 0


def silent(_command: str) -> tuple[Iterator[bytes], int]:
    def pieces() -> Iterator[bytes]:
        yield b"1"
        time.sleep(30)

    return pieces(), 0


@pytest.mark.process
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (endless, "it printed more than 1,000 bytes"),
        (saying(b"x\n", 3), "the command failed"),
    ],
)
def test_a_host_that_answers_something_else_is_one_line_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, why: str
) -> None:
    monkeypatch.setattr("kedge.evidence.border.host_output.output.__defaults__", (1_000,))
    with ExitStack() as stack:
        bad = stack.enter_context(ssh_host("bad", tmp_path, answer))
        good = stack.enter_context(ssh_host("good", tmp_path, honest))
        found = on_all([bad, good], lambda _host, shell: shell("echo here"))
    assert found["good"] == ["here"]
    assert isinstance(found["bad"], RemoteError)
    assert str(found["bad"]) == f"bad: {why}"


def test_a_host_that_falls_silent_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verify.collect.remote._COMMAND_S", 0.5)
    with ssh_host("bad", tmp_path, silent) as bad:
        found = on_all([bad], lambda _host, shell: shell("echo here"))
    assert str(found["bad"]) == "bad: TimeoutError"


def test_a_host_is_given_no_password_though_it_asks_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getpass", lambda *_: pytest.fail("asked for a password"))
    with ssh_host("bad", tmp_path, saying(b"sudo: a password is required\n", 1)) as bad:
        found = on_all([bad], lambda _host, shell: shell("true"))
    assert isinstance(found["bad"], RemoteError)


@pytest.mark.process
def test_one_bad_host_leaves_the_collection_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A banner before an answer ended the collection of all."""
    planned = plan(setting(PROPERTIES, "id", "x"))
    planned["hosts"]["bad"] = planned["hosts"]["rest1"]
    run_dir = tmp_path / "run"
    (run_dir / "evidence").mkdir(parents=True)
    (run_dir / "evidence" / "run.json").write_text(json.dumps({"started_us": 1, "ended_us": 2}))
    (run_dir / "plan.json").write_text(json.dumps(planned))

    def bannered(command: str) -> tuple[Iterator[bytes], int]:
        output, status = honest(command)
        return itertools.chain([b"\x1b]0;Welcome\x07\n"], output), status

    with ExitStack() as stack:
        by_name: dict[str, Access] = {
            name: stack.enter_context(ssh_host(name, tmp_path, answer))
            for name, answer in (("bad", bannered), ("rest1", honest))
        }
        monkeypatch.setattr(
            "verify.collect.__main__.read_access", lambda _inventory, names: [by_name[n] for n in names]
        )
        collect(run_dir, "any")
    assert list(json.loads((run_dir / "evidence" / "run.json").read_text())["clock_offsets"]) == ["rest1"]
    assert pq.read_table(run_dir / "evidence" / "settings").num_rows == 2
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert said.startswith("bad answers something else: it printed 2 lines for the time")


def test_output_is_bounded_and_shows_no_control_character() -> None:
    assert lines(b"a\x1b[31m\tb\x85\r\n\xe2\x80\xa8\xff\n\nlast") == [
        "a\\x1b[31m\tb\ufffd",
        "\\u2028\ufffd",
        "",
        "last",
    ]
    with pytest.raises(UntrustedError, match="a line of more than"):
        lines(b"x" * (LINE_BYTES + 1))
    assert lines(b"x" * LINE_BYTES) == ["x" * LINE_BYTES]
    pieces = itertools.repeat(b"x\n")
    with pytest.raises(UntrustedError, match="more than 100 bytes"):
        output(lambda _size: next(pieces), 100)


@pytest.mark.parametrize(
    "said", [[], ["Welcome", "1"], ["-1"], ["1e9"], ["\u0661"], ["9" * 19], ["9" * 5_000], ["NaN"]]
)
def test_a_time_is_a_number_and_nothing_else(said: list[str]) -> None:
    with pytest.raises(UntrustedError):
        nanoseconds(said)


def test_a_machine_tells_only_what_looks_as_it_should() -> None:
    said = [
        "boot_id=../x",
        "cores=\u00b2",
        "memory_kib=" + "9" * 5_000,
        "system=\x1b[31m",
        "other=1",
        "haproxy",
    ]
    assert machine(said) == {}
    assert machine(["boot_id=a-1", "cores=2", "system=Debian GNU/Linux 12 (bookworm)"]) == {
        "boot_id": "a-1",
        "cores": "2",
        "system": "Debian GNU/Linux 12 (bookworm)",
    }


@pytest.mark.parametrize(
    "said",
    [
        b"[" * 100_000,
        b"null",
        b"{}",
        line(["another@unit", 1, 2, 3, 4]),
        line(["kafka-rest@8082", "1", 2, 3, 4]),
        line(["kafka-rest@8082", 1, 2, 3, 2**31]),
        line(["kafka-rest@8082", 1, 2, 3]),
        line(["kafka-rest@8082", 1.5, 2, 3, 4]),
        b'{"units": [], "host": [NaN, 1, 1, 1, null, null], "links": []}',
        b'{"units": [], "host": [1, 1, 1, 1, null, null], "links": [["eth0\\u001b", 1, 1, 1]]}',
    ],
)
def test_a_line_of_samples_is_of_the_hosts_own_units(said: bytes) -> None:
    with pytest.raises(UntrustedError):
        rows("rest1", UNITS, said)
    assert sample(line(), UNITS).units == []


def test_a_log_of_pauses_is_read_in_time_that_grows_with_its_length() -> None:
    broken = [
        "[2026-11-21T99:00:00.000+0000][gc] GC(1) Pause Remark 1.000ms",
        "[2026-11-21T10:00:01.000Q][gc] GC(1)",
    ]
    assert [p.kind for p in pauses([*broken, *GC_LINES], TEN + 1_500_000, TEN + 2_500_000)] == [
        "Pause Remark"
    ]
    head = "[2026-11-21T10:00:01.000+0000]"
    began = time.process_time()
    for crafted in ("[gc] GC(1) Pause " * 10_000, "[a]" * 60_000, "[gc] GC(1) Pause " + "1K->" * 40_000):
        assert list(pauses([head + crafted], 0, TEN * 2)) == []
    # Milliseconds; with the square of the length it would be half a minute.
    assert time.process_time() - began < 5


def test_samples_of_memory_that_are_something_else_are_passed_over() -> None:
    crafted = [
        "[" * 100_000,
        told(5, heap_bytes="many"),
        told(5, stores=2**40),
        told(5, state="\x1b[31m"),
        told(5).replace("9", "NaN"),
        told(5).replace("9", "9" * 5_000),
    ]
    assert [row["at_us"] for row in samples([*crafted, told(6)], 0, 10, shared_cache=True)] == [6]


@pytest.mark.process
def test_a_service_puts_no_links_no_devices_and_no_markers_into_what_is_read(tmp_path: Path) -> None:
    here, log, told_file, secret = (
        tmp_path / name for name in ("a.properties", "gc.log", "s.jsonl", "shadow")
    )
    here.write_text("a=1\n")
    secret.write_text("root:x Pause 1.0ms\n")
    log.symlink_to(secret)
    (tmp_path / "gc.log.0").symlink_to("/dev/zero")
    told_file.write_text(f"@@kedge file {here}\na=2\n")
    (tmp_path / "s.jsonl.1").symlink_to(secret)
    printed = subprocess.run(
        ["sh", "-c", read_command([str(here)], [str(log)], [str(told_file)])],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout
    read = read_output(printed.splitlines())
    assert read.files == {str(here): ["a=1"]}
    assert read.logs == {str(log): None}
    assert read.samples == {str(told_file): [f"@@kedge file {here}", "a=2"]}


@pytest.mark.process
@pytest.mark.parametrize("other", ["link", "pipe"])
def test_a_file_that_becomes_something_else_while_root_looks_is_not_read(tmp_path: Path, other: str) -> None:
    log, told_file, secret, tools = (tmp_path / name for name in ("gc.log", "s.jsonl", "shadow", "bin"))
    secret.write_text("root:x Pause 1.0ms\n")
    tools.mkdir()
    swap = f'ln -sfn "{secret}" "$f"' if other == "link" else 'rm -f "$f"; mkfifo "$f"'
    for name in ("tail", "dd"):
        # What reads finds another thing than the shell has looked at.
        (tools / name).write_text(
            f'#!/bin/sh\nfor f in "{log}" "{told_file}"; do {swap}; done\nexec /usr/bin/{name} "$@"\n'
        )
        (tools / name).chmod(0o755)
    for file in (log, told_file):
        file.write_text("Pause 2.0ms\n")
    printed = subprocess.run(
        ["sh", "-c", read_command([], [str(log)], [str(told_file)])],
        env={"PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout
    assert "root:x" not in printed


@pytest.mark.process
def test_of_a_long_log_its_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LOG_BYTES", 24)
    log = tmp_path / "gc.log"
    log.write_text("Pause 1.0ms\nPause 2.0ms\nPause 3.0ms\n")
    printed = subprocess.run(
        ["sh", "-c", read_command([], [str(log)])], capture_output=True, text=True, check=True
    ).stdout
    assert read_output(printed.splitlines()).logs == {str(log): ["Pause 2.0ms", "Pause 3.0ms"]}


def test_foreign_text_is_one_printable_line() -> None:
    assert shown("a\nb\x1b" + "x" * 500) == "a\\nb\\x1b" + "x" * 196 + "..."
    assert shown(b"\xff") == "\ufffd"
    with pytest.raises(UntrustedError):
        count("\u0661")
