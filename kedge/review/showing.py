"""Shows a review in a terminal and as Markdown: what is wrong first, then what is not as planned."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from kedge.plan.compact_names import fold
from kedge.plan.settings import Basis, apart
from kedge.plan.text import findings as of_findings
from kedge.plan.text import wrapped
from kedge.review.judging import Ask, Judgement, ReviewedKey

#: What a difference is worth, the first most: what was measured, what is written down, what is a judgement.
_WORTH: Final[tuple[Basis, ...]] = ("measured", "documented", "derived", "estimate", "yours")


def text(judgements: Sequence[Judgement], others: Sequence[str], *, full: bool = False) -> str:
    """Return the review for a terminal; with ``full`` also notes, and keys that are as planned."""
    lines: list[str] = []
    for one in judgements:
        lines += [one.where, f"  {one.title}; planned as {one.version}: {one.version_why}"]
        shown = tuple(f for f in one.findings if full or f.severity != "note")
        lines += ["", *of_findings(shown)] if shown else ["", "no fault was found in what was looked at"]
        lines += wrapped(looked(one), 2)
        rows = chosen(one.rows, full=full)
        if rows:
            lines += ["", "today, the documents, the plan"]
        for row in rows:
            lines += list(_row(row))
        lines += ["", *_asked(one.asks)] if one.asks else []
        lines.append("")
    if others:
        lines += ["not reviewed", *(f"  {other}" for other in others)]
    return "\n".join(lines).rstrip()


def looked(one: Judgement) -> str:
    """Say what the judgement rests on, and what it says nothing of."""
    unseen = [*one.unseen, *(["what follows from numbers that nobody said, below"] if one.asks else [])]
    not_at = f"; not at: {', '.join(unseen)}" if unseen else ""
    return f"looked at: {', '.join(one.looked) or 'its kind alone'}{not_at}"


def chosen(rows: Sequence[ReviewedKey], *, full: bool) -> list[ReviewedKey]:
    """Return the rows to show, those first that are worth most; without ``full``, what differs."""
    wanted = [row for row in rows if full or not (_same(row) or _default(row))]
    # Where nothing is set, the question is asked once, with all that it decides.
    wanted = [row for row in wanted if not row.needs or row.today is not None]
    return sorted(wanted, key=lambda row: (row.today is None, _WORTH.index(row.basis)))


def _same(row: ReviewedKey) -> bool:
    """Tell whether today's value is the planned one; words of a list of flags in any order."""
    return row.planned is not None and sorted((row.today or "").split()) == sorted(row.planned.split())


def _default(row: ReviewedKey) -> bool:
    """Tell whether nothing is set today and the plan writes down what holds anyway."""
    return (
        row.today is None
        and row.planned == row.documented
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
        said = ", ".join(
            f"{name} {'not set' if value is None else value or 'empty'}"
            for name, value in (("today", today), ("documented", documented), ("planned", planned))
        )
        yield from wrapped(f"{row.key}{place}: {said}", 4)
    yield from wrapped(f"{row.because} [{row.rule}; {row.basis}; {row.source}]", 8)


def _asked(asks: Sequence[Ask]) -> Iterator[str]:
    yield "nobody said; each decides"
    for ask in asks:
        yield from wrapped(f"{ask.option} ({ask.what}): {fold(ask.decides)}", 4)


def markdown(judgements: Sequence[Judgement], others: Sequence[str], *, full: bool = False) -> str:
    """Return the review as Markdown."""
    lines = ["# Review", ""]
    for one in judgements:
        lines += [
            f"## {_cell(one.where)}",
            "",
            f"{one.title}; planned as {one.version}: {one.version_why}.",
            "",
        ]
        shown = [f for f in one.findings if full or f.severity != "note"]
        if shown:
            lines += ["| | where | what | fix |", "|---|---|---|---|"]
            lines += [
                f"| {f.severity} | {_cell(f.where)} | {_cell(f.message)} | {_cell(f.fix)} |" for f in shown
            ]
            lines.append("")
        lines += [_cell(looked(one)), ""]
        if rows := chosen(one.rows, full=full):
            lines += [
                "| key | today | documented | planned | because | rests on |",
                "|---|---|---|---|---|---|",
            ]
            lines += [
                "| "
                + " | ".join(_cell(cell if cell is not None else "not set") for cell in _cells(row))
                + " |"
                for row in rows
            ]
            lines.append("")
        if one.asks:
            lines += ["Nobody said; each decides:", ""]
            lines += [f"- `{ask.option}` ({_cell(ask.what)}): {', '.join(ask.decides)}" for ask in one.asks]
            lines.append("")
    if others:
        lines += ["Not reviewed:", "", *(f"- {_cell(other)}" for other in others)]
    return "\n".join(lines).rstrip()


def _cells(row: ReviewedKey) -> tuple[str | None, ...]:
    key = f"{row.key} ({row.place})" if row.place else row.key
    if row.needs:
        return key, row.today, "", "", f"to judge it, say {', '.join(row.needs)}", ""
    return key, row.today, row.documented, row.planned, row.because, f"{row.basis}: {row.source}"


def _cell(words: str) -> str:
    return re.sub(
        r"([\\`*_\[\]!|])", r"\\\1", words.replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;")
    ).replace("://", ":&#47;/")
