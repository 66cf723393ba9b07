"""The plan for a merge request: findings, then what changes by service, long parts folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kedge.plan.compact_names import compact
from kedge.plan.difference import TELL, PlanChange, count, together, untold
from kedge.plan.findings import Finding
from kedge.plan.plan import Plan

#: So many rows of a table are shown open; of one with more findings, only errors are.
_OPEN = 10


def markdown(plan: Plan, found: Sequence[PlanChange] | None = None) -> str:
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
        if untold(found):
            lines += ["", f"{TELL[0].upper()}{TELL[1:]}."]
    return "\n".join(lines)


def _findings(found: Sequence[Finding]) -> Iterator[str]:
    if not found:
        yield "No findings."
        return
    rows = [(f.severity, f"{f.where} (`{f.rule}`)", f.message, f.fix) for f in found]
    heads = ("severity", "where", "what", "fix")
    errors = [row for row in rows if row[0] == "error"]
    if len(rows) <= _OPEN:
        yield from _table(heads, rows)
        return
    if errors:
        yield from (*_table(heads, errors), "")
    others = rows[len(errors) :]  # findings come by severity
    number = Counter(row[0] for row in others)
    title = ", ".join(f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in number.items())
    yield from _folded(title, _table(heads, others))


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from (f"<details><summary>{title}</summary>", "", *lines, "", "</details>")


def _by_service(found: Sequence[PlanChange]) -> Iterator[str]:
    services: dict[str, list[list[PlanChange]]] = {}
    for same in together(found):
        services.setdefault(same[0].subject, []).append(same)
    for service, groups in services.items():
        rows = [_row(same) for same in groups]
        title = f"{service}: {len(rows)} change{'' if len(rows) == 1 else 's'}"
        table = _table(("where", "key", "before", "after", "why"), rows)
        yield ""
        yield from _folded(title, table) if len(rows) > _OPEN else (f"### {title}", "", *table)


def _row(same: Sequence[PlanChange]) -> tuple[str, ...]:
    one, where = same[0], compact(change.where for change in same)
    if not one.key:
        return where, "", one.before or "", one.after or "", one.who
    key = f"`{one.key}`" + (f" in {one.file.rpartition('/')[2]}" if one.file else "")
    return where, key, _value(one.before), _value(one.after), one.why


def _value(value: str | None) -> str:
    if value is None:
        return "(not set)"
    return f"`{value}`" if value else "(empty)"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        cells = (cell.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") for cell in row)
        yield f"| {' | '.join(cells)} |"
