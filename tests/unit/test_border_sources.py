"""Whatever comes from whomever is taken as what it has to be, or refused in one printable line."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import math
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from kedge.evidence import border
from kedge.evidence.border.untrusted import UntrustedError
from tests.untrusted import PASSES_BORDER, READERS, ROOT, SOURCES, TOOLS, Source, imports, readers
from verify.collect.remote import RemoteError

_CALLED = re.compile(r"\.(\w+\()")
#: What is thrown at every source as it stands, a line each.
THROWN: Mapping[str, bytes] = {
    "nothing": b"",
    "traversal": b"../../etc/shadow\n",
    "an absolute path": b"/etc/shadow\n",
    "nested lists": b"[" * 100_000 + b"\n",
    "nested objects": b'{"a":' * 50_000 + b"\n",
    "binary": bytes(range(256)),
    "escape sequences": b"\x1b]0;x\x07\x1b[31mred\x9b\n",
    "ends of lines that are none": "a\u2028b\x85c\u202ed\n".encode(),
    "NaN": b"NaN\n",
    "an infinite number": b'{"offset": 1e999}\n',
    "a number of 5,000 digits": b"9" * 5_000 + b"\n",
    "null": b"null\n",
    "a list": b"[]\n",
    "an object": b"{}\n",
    "half a character": b'"\\ud800"\n',
    "two megabytes": b"x" * (2 << 20),
    "many short lines": b"a=1\n" * 20_000,
    "many keys": json.dumps({str(n): n for n in range(20_000)}).encode(),
}
#: What is put into each place of a document that is taken.
WRONG: tuple[Any, ...] = (
    None, True, -1, 0.5, 2**31, 2**63, 2**70, 10**400, 1e300, float("nan"), float("inf"), "", "1", "../../x", "/etc/shadow",
    "another-host", "kafka-producer-1", "\x1b[31m", "\x85\u2028\u202e", "\ud800", "\x00", "x" * 20_000, [], {}, [[[[]]]],
    {"a": {"a": {}}}, "<script>", "{{ lookup('pipe', 'id') }}", "http://evil:1/consumers/x",
)  # fmt: skip


def entrances() -> Iterator[str]:
    for module in pkgutil.iter_modules(border.__path__, "kedge.evidence.border."):
        for name, one in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            if one.__module__ == module.name and not name.startswith("_"):
                yield f"{module.name}.{name}"


def test_every_entrance_is_thrown_at_or_says_why_not() -> None:
    listed = {name for name in SOURCES if name.startswith("kedge.evidence.border.")} | TOOLS.keys()
    assert set(entrances()) == listed
    assert not SOURCES.keys() & TOOLS.keys()


def test_it_is_known_whose_word_each_module_reads() -> None:
    assert set(readers()) == READERS.keys()


@pytest.mark.parametrize("path", [path for path, who in READERS.items() if who in PASSES_BORDER])
def test_who_reads_a_host_a_proxy_or_a_topic_does_so_through_the_border(path: str) -> None:
    assert path.startswith("kedge/evidence/border/") or any(
        name.startswith("kedge.evidence.border.") for name in imports(path)
    )


def test_no_other_code_unpickles_or_unpacks_what_it_did_not_write() -> None:
    for path in readers():
        assert "pickle" not in imports(path), path
        assert not {"extract(", "extractall("} & set(
            _CALLED.findall((ROOT / path).read_text(encoding="utf-8"))
        ), path


def taken(source: Source, data: bytes) -> None:
    """Have a source's entrance take something: it does, in bounds, or says in a line that it does not."""
    try:
        found = source.take(data)
    except (UntrustedError, RemoteError) as error:
        assert str(error).isprintable()
        assert len(str(error)) < 5_000
    else:
        assert_sound(found)


def assert_sound(found: Any) -> None:
    """Look at all that was let in: texts that can be shown, numbers that evidence can hold."""
    if isinstance(found, str):
        assert found.replace("\t", "").isprintable()
        assert len(found) <= 1_000_000
    elif isinstance(found, bool | bytes) or found is None:
        pass
    elif isinstance(found, int):
        assert -(2**63) <= found < 2**63
    elif isinstance(found, float):
        assert math.isfinite(found)
    elif isinstance(found, BaseModel):
        assert_sound(found.model_dump())
    elif dataclasses.is_dataclass(found) and not isinstance(found, type):
        assert_sound([getattr(found, each.name) for each in dataclasses.fields(found)])
    elif isinstance(found, Mapping):
        assert_sound([*found.keys(), *found.values()])
    else:
        for one in found:
            assert_sound(one)


@pytest.mark.parametrize("name", SOURCES)
def test_what_a_source_has_to_say_is_taken(name: str) -> None:
    found = SOURCES[name].take(SOURCES[name].good)
    assert found not in (None, [], {}), "the example would be refused"
    assert_sound(found)


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_thrown_is_taken_in_bounds_or_refused_in_a_line(name: str) -> None:
    for what, data in THROWN.items():
        try:
            taken(SOURCES[name], data)
        except BaseException as error:
            error.add_note(f"thrown: {what}")
            raise


def documents(value: Any) -> Iterator[Any]:
    """Yield a document with something wrong at each of its places, or one more than there is."""
    yield from WRONG
    if isinstance(value, dict):
        for key in value:
            yield from ({**value, key: one} for one in documents(value[key]))
            yield {other: one for other, one in value.items() if other != key}
            yield {(f"../{other}" if other == key else other): one for other, one in value.items()}
        yield value | {"more": 1}
    elif isinstance(value, list):
        for number in range(min(len(value), 2)):
            yield from ([*value[:number], one, *value[number + 1 :]] for one in documents(value[number]))
        yield value * 2_000
        yield value[:-1]


def spelt(good: bytes) -> list[Any] | None:
    """Return the documents of a good text, a line each; None where it is none of JSON."""
    try:
        found = [json.loads(each) for each in good.splitlines()]
    except ValueError:
        return None
    return found if all(isinstance(one, dict | list) for one in found) else None


@pytest.mark.parametrize("name", [name for name, source in SOURCES.items() if spelt(source.good)])
def test_nothing_wrong_at_any_place_of_a_document_is_let_in(name: str) -> None:
    source = SOURCES[name]
    (first, *rest) = spelt(source.good) or [None]
    tail = b"".join(json.dumps(one).encode() + b"\n" for one in rest)
    for document in documents(first):
        taken(source, json.dumps(document).encode() + b"\n" + tail)


def mutated(good: bytes) -> st.SearchStrategy[bytes]:
    """Draw what is almost what a source has to say: cut, repeated, with other bytes in it."""
    place = st.integers(0, len(good))
    piece = st.one_of(
        st.binary(max_size=8), st.sampled_from([*THROWN.values()][:12]).map(lambda one: one[:200])
    )
    return st.builds(
        lambda begin, end, between: good[:begin] + between + good[min(begin, end) :], place, place, piece
    )


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_drawn_is_taken_in_bounds_or_refused_in_a_line(name: str) -> None:
    source = SOURCES[name]
    json_texts = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode())

    @settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(st.one_of(st.binary(max_size=200), json_texts, mutated(source.good)))
    def throw(data: bytes) -> None:
        taken(source, data)

    throw()
