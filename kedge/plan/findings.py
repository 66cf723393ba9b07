"""What a person should know before a host is touched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kedge.plan.compact_names import compact, natural

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a person should know before a host is touched; an error stops every playbook."""

    severity: Severity
    rule: str
    where: str
    message: str
    fix: str
    """What to do about it, as an instruction; empty where a note only informs."""

    def line(self) -> str:
        """Return the finding as one line: where, what, and the fix where there is one."""
        stop = "" if self.fix.endswith("?") else "."
        fix = f" Fix: {self.fix}{stop}" if self.fix else ""
        return f"{self.where}: {self.message}.{fix}"


def together(findings: Iterable[Finding]) -> list[Finding]:
    """Say once what holds in many places, and name the places."""
    places: dict[tuple[Severity, str, str, str], list[str]] = {}
    for f in findings:
        places.setdefault((f.severity, f.rule, f.message, f.fix), []).append(f.where)
    return [
        Finding(
            severity,
            rule,
            compact(sorted(where, key=natural)) if len(set(where)) > 1 else where[0],
            message,
            fix,
        )
        for (severity, rule, message, fix), where in places.items()
    ]
