"""The plan for a merge request: findings, then what changes by service, long parts folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sizing.against import TELL, Change, count, together
from sizing.core.findings import Finding
from sizing.core.naming import compact
from sizing.core.plan import Plan

#: So many rows are shown open; a service with more is folded.
_OPEN = 10


def markdown(plan: Plan, found: Sequence[Change] | None = None) -> str:
    """Return the findings of a plan and, where it was held against an older one, what changes.

    Args:
        plan: today's plan.
        found: what changes against an older plan; None where it was held against none.
    """
    lines = ["## Kedge plan", "", *_findings(plan.findings)]
    if found is None:
        lines += ["", f"{sum(1 for _ in plan.settings())} settings are planned."]
    else:
        lines += ["", f"**{count(found) if found else 'No value changes'}.**", *_by_service(found)]
        if any(one.whose == "either" for one in found):
            lines += ["", f"{TELL[0].upper()}{TELL[1:]}."]
    return "\n".join(lines)


def _findings(found: Sequence[Finding]) -> Iterator[str]:
    if not found:
        yield "No findings."
        return
    yield from _table(
        ("severity", "where", "what", "fix"),
        [(f.severity, f"{f.where} (`{f.rule}`)", f.message, f.fix) for f in found],
    )


def _by_service(found: Sequence[Change]) -> Iterator[str]:
    services: dict[str, list[list[Change]]] = {}
    for same in together(found):
        services.setdefault(same[0].subject, []).append(same)
    for service, groups in services.items():
        rows = [_row(same) for same in groups]
        title = f"{service}: {len(rows)} change{'' if len(rows) == 1 else 's'}"
        folded = len(rows) > _OPEN
        yield from (("", f"<details><summary>{title}</summary>", "") if folded else ("", f"### {title}", ""))
        yield from _table(("where", "key", "before", "after", "why"), rows)
        if folded:
            yield from ("", "</details>")


def _row(same: Sequence[Change]) -> tuple[str, ...]:
    one, where = same[0], compact(change.where for change in same)
    if not one.key:
        return where, "", one.before or "", one.after or "", one.who
    key = f"`{one.key}`" + (f" in {one.file.rpartition('/')[2]}" if one.file else "")
    said = [f"`{value}`" if value else "(not set)" for value in (one.before, one.after)]
    return where, key, *said, f"{one.who} (`{one.rule}`): {one.because}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        cells = (cell.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") for cell in row)
        yield f"| {' | '.join(cells)} |"
