"""Shows a review in a terminal and as Markdown: what is wrong first, then what is not as planned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kedge.plan.compact_names import fold
from kedge.plan.settings import Basis, apart
from kedge.plan.text import findings as of_findings
from kedge.plan.text import wrapped
from kedge.review.judging import PAIRS, Ask, Judgement, ReviewedKey
from kedge.review.reading import comes_later

#: Differences that are shown unless all are asked for.
_MOST: Final = 10
_NOTHING: Final = "no fault was found in what was looked at"
#: What a difference is worth, the first most: what was measured, what is written down, what is a judgement.
_WORTH: Final[tuple[Basis, ...]] = ("measured", "documented", "derived", "estimate", "yours")

#: Rules of what bounds a process, or lets it be reached: they change nothing of what it sustains.
_BOUNDS: Final = re.compile(r"\.(files|memory|replication|rest|threads)$")


def text(judgements: Sequence[Judgement], others: Sequence[str], *, full: bool = False) -> str:
    """Return the review for a terminal: what is wrong, and what is most worth changing.

    With ``full``, also notes, every key and every reason.
    """
    lines: list[str] = []
    for one in judgements:
        lines += wrapped(f"{one.where}: {one.title}; planned as {one.version}: {one.version_why}", 0)
        lines += wrapped(several(one), 0)
        lines += _whole(one) if full else _short(one)
        lines.append("")
    if others:
        lines += ["not reviewed", *(f"  {other}" for other in others)]
    return "\n".join(lines).rstrip()


def _whole(one: Judgement) -> Iterator[str]:
    again = repeats(one, full=True)
    yield ""
    yield from of_findings(one.findings) if one.findings else [_NOTHING] * (not again)
    yield from again
    yield from wrapped(looked(one), 0)
    if rows := chosen(one.rows, full=True):
        yield from ["", "today, the default, what a document says, the plan"]
        for row in rows:
            yield from _row(row)
    if one.asks:
        yield from ["", "assumed, since it was not given"]
        for ask in one.asks:
            yield from wrapped(f"{ask.option} ({ask.what}) decides {fold(ask.decides)}", 4)


def _short(one: Judgement) -> Iterator[str]:
    shown = [f for f in one.findings if f.severity != "note"]
    file = one.where.partition(",")[0]
    for f in shown:
        place = f.where.removeprefix(file).strip(", ")
        yield from _hung(f"  {f.severity:<9}", f"{place}  " * bool(place) + f"{f.message}")
        if f.fix:
            yield from wrapped(f.fix, 11)
    again = repeats(one, full=False)
    yield from (f"  {line}" for line in again)
    if not shown and not again:
        yield f"  {_NOTHING}"
    yield from _hung("  ", looked(one))
    rows = chosen(one.rows, full=False)
    said = {key for f in shown if f.subject for key in f.subject.keys}
    meant = {key for f in shown if f.subject for key in (f.subject.meant, *f.subject.named)}
    placed = {f.where for f in shown if f.subject is None}
    # What rests on a number that nobody gave is not advised; a value that is filled in later is not known.
    # What writes into a folder that a deploy makes would not start elsewhere; Kafka's scripts have the flags
    # of a collector by themselves.
    worth = [
        row
        for row in rows
        if not row.needs
        and not (row.place and (row.key in said or row.place in placed))
        # A misspelt key stands in its place.
        and not (row.today is None and row.key in meant)
        and not comes_later(row.today or "")
        and not (row.today is None and ("/var/log/" in (row.planned or "") or row.rule.endswith(".gc")))
    ]
    if worth:
        of = f"{min(len(worth), _MOST)} of {len(rows)}, --all shows all" if len(rows) > _MOST else ""
        yield f"  worth having{f' ({of})' * bool(of)}"
        for row in worth[:_MOST]:
            with_it = _partner(row, one.rows, worth)
            yield from _hung("    - ", f"{_change(row)}{with_it}: {row.because} ({row.basis})")
    if one.asks:
        numbers = [ask.option.removeprefix("--workload ") for ask in one.asks if _is_number(ask)]
        options = [ask.option for ask in one.asks if not _is_number(ask)]
        options += [f"--workload {' '.join(numbers)}"] * bool(numbers)
        decided = fold(list(dict.fromkeys(key for ask in one.asks for key in ask.decides)))
        yield from _hung("  ", f"not judged: {decided}. Give {', '.join(options)}")


def _is_number(ask: Ask) -> bool:
    return ask.option.startswith("--workload ")


def _hung(first: str, words: str) -> list[str]:
    """Return words as lines that begin under the end of ``first``."""
    lines = wrapped(words, len(first))
    return [first + lines[0].lstrip(), *lines[1:]]


def _change(row: ReviewedKey) -> str:
    line = re.search(r":\d+$", row.place)
    place = f"{line[0]} " if line else ""
    today, planned = row.today or "", row.planned
    if planned is None:
        return f"{place}{row.key}: {today}, better not set"
    if today and len(planned.split()) > 2:
        less, more = apart(today, planned)
        return f"{place}{row.key}: {less}; the plan {more}"
    return f"{place}{row.key}: {today or 'not set'} -> {planned}"


def _partner(row: ReviewedKey, rows: Sequence[ReviewedKey], shown: Sequence[ReviewedKey]) -> str:
    """Return the key that a row rests on, with its value, where it has no line of its own."""
    other = next((one for one in rows if one.key == PAIRS.get(row.key) and one not in shown), None)
    if other is None:
        return ""
    default = f"the default, {other.default}" if other.default else "the default"
    return f", with {other.key}: {other.today or default}"


def several(one: Judgement) -> str:
    """Say of how many processes the values are, where the plan would have more than the one that there is."""
    if one.instances == 1:
        return ""
    if one.alone:
        return f"The values are for one process; the plan would have {one.instances} on this machine."
    return (
        "One process cannot sustain this workload. The values are for one of the "
        f"{one.instances} that the plan would have on this machine."
    )


def repeats(one: Judgement, *, full: bool) -> list[str]:
    """Say how many findings were left out since an earlier process has them; with ``full``, notes too."""
    more = "more, " if any(full or f.severity != "note" for f in one.findings) else ""
    file = one.where.partition(",")[0]
    counts: Counter[str] = Counter()
    for name, severity, count in one.repeated:
        counts[name.removeprefix(f"{file}, ")] += count * (full or severity != "note")
    return [f"{count} {more}as in {name}" for name, count in counts.items() if count]


def looked(one: Judgement) -> str:
    """Say what the judgement rests on, and what it says nothing of."""
    not_at = f"; not at: {', '.join(one.unseen)}" if one.unseen else ""
    return f"looked at: {', '.join(one.looked) or 'its kind alone'}{not_at}"


def chosen(rows: Sequence[ReviewedKey], *, full: bool) -> list[ReviewedKey]:
    """Return the rows to show, those first that are worth most; without ``full``, what differs."""
    wanted = [row for row in rows if full or not (_same(row) or _default(row))]
    # Where nothing is set, the question is asked once, with all that it decides.
    wanted = [row for row in wanted if not row.needs or row.today is not None]
    return sorted(
        wanted,
        key=lambda row: (row.today is None, bool(_BOUNDS.search(row.rule)), _WORTH.index(row.basis)),
    )


def _same(row: ReviewedKey) -> bool:
    """Tell whether today's value is the planned one; words of a list of flags in any order."""
    return row.planned is not None and sorted((row.today or "").split()) == sorted(row.planned.split())


def _default(row: ReviewedKey) -> bool:
    """Tell whether nothing is set today and the plan writes down what holds anyway."""
    if row.today is not None:
        return False
    if row.default is not None:
        return row.planned == row.default
    return (
        row.documented in (None, row.planned)
        and row.basis in ("documented", "measured")
        and "default" in row.because
        and not row.key.isupper()
    )


def _row(row: ReviewedKey) -> Iterator[str]:
    place = f" ({row.place})" if row.place else ""
    today, documented, planned = row.today, row.documented, row.planned
    if row.needs:  # no number is better than one of an assumption
        yield from wrapped(f"{row.key}{place}: today {today}; to judge it, say {', '.join(row.needs)}", 4)
        return
    if planned is not None and len(planned.split()) > 2:
        says, wants = apart(today or "", planned) if today else ("not set", f"is {planned}")
        yield from wrapped(f"{row.key}{place}: today {says}; the plan {wants}", 4)
    else:
        columns = (
            ("today", today),
            ("default", row.default),
            ("documented", documented),
            ("planned", planned),
        )
        said = ", ".join(
            f"{name} {'not set' if value is None else value or 'empty'}"
            for name, value in columns
            # No default is known, or no document has it.
            if value is not None or name in ("today", "planned")
        )
        yield from wrapped(f"{row.key}{place}: {said}", 4)
    yield from wrapped(f"{row.because} [{row.rule}; {row.basis}; {row.source}]", 8)


def markdown(judgements: Sequence[Judgement], others: Sequence[str], *, full: bool = False) -> str:
    """Return the review as Markdown."""
    lines = ["# Review", ""]
    for one in judgements:
        lines += [
            f"## {_cell(one.where)}",
            "",
            f"{one.title}; planned as {one.version}: {one.version_why}.",
            "",
            *([several(one), ""] if several(one) else []),
        ]
        shown = [f for f in one.findings if full or f.severity != "note"]
        if shown:
            lines += ["| | where | what | fix |", "|---|---|---|---|"]
            lines += [
                f"| {f.severity} | {_cell(f.where)} | {_cell(f.message)} | {_cell(f.fix)} |" for f in shown
            ]
            lines.append("")
        if again := repeats(one, full=full):
            lines += [_cell("; ".join(again)), ""]
        lines += [_cell(looked(one)), ""]
        if rows := chosen(one.rows, full=full):
            lines += [
                "| key | today | default | documented | planned | because | rests on |",
                "|---|---|---|---|---|---|---|",
            ]
            lines += ["| " + " | ".join(map(_cell, _cells(row))) + " |" for row in rows]
            lines.append("")
        if one.asks:
            lines += ["Assumed, since it was not given, with the keys that it decides:", ""]
            lines += [f"- `{ask.option}` ({_cell(ask.what)}): {', '.join(ask.decides)}" for ask in one.asks]
            lines.append("")
    if others:
        lines += ["Not reviewed:", "", *(f"- {_cell(other)}" for other in others)]
    return "\n".join(lines).rstrip()


def _cells(row: ReviewedKey) -> tuple[str, ...]:
    """Return the columns of a row; one is empty where no default is known, or no document has the key."""
    key = f"{row.key} ({row.place})" if row.place else row.key
    today, default = "not set" if row.today is None else row.today, row.default or ""
    if row.needs:
        return key, today, default, "", "", f"to judge it, say {', '.join(row.needs)}", ""
    planned = "not set" if row.planned is None else row.planned
    return key, today, default, row.documented or "", planned, row.because, f"{row.basis}: {row.source}"


def _cell(words: str) -> str:
    escaped = re.sub(
        r"([\\`*_\[\]!|])", r"\\\1", words.replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;")
    )
    # What begins like an address is a link without brackets too.
    return re.sub(r"(?i)\b(www)\.", r"\1&#46;", escaped.replace("://", ":&#47;/"))
