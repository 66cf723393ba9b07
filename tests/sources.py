"""The page that is made from ``kedge/plan/sources.yml``: ``python -m tests.sources`` writes ``docs/sources.md``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kedge.plan.sources import Source, sources

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = DOCS / "sources.md"
_KINDS: Final = {
    "document": ("Documents", "Somebody else's text."),
    "code": ("Components", "Read in the source of the component, or in its packages."),
    "measured": ("Measurements", "Measured or observed with this repository; each page says how."),
    "yours": ("Yours", "What the plan takes from you."),
}
_HEAD: Final = """\
# Sources

Every setting of a [plan](plan.md) names its source, and the section of it. To find what a plan cites, search this page for its
name. *Outdated* is what no longer holds of a source, or was measured to be wrong. This page is made from
[sources.yml](../kedge/plan/sources.yml).
"""


def page(known: Mapping[str, Source]) -> str:
    """Return the page: by kind, a table of sources, and a section of each of which something is outdated."""
    lines = [_HEAD]
    for kind, (title, said) in _KINDS.items():
        lines += [f"## {title}\n", f"{said}\n"]
        of_kind = {key: source for key, source in known.items() if source.kind == kind}
        lines += ["| in a plan | source | version |", "|---|---|---|"]
        lines += [_row(key, source) for key, source in of_kind.items() if not source.outdated]
        lines += [""]
        for key, source in of_kind.items():
            if source.outdated:
                lines += _section(key, source)
    return "\n".join(lines).rstrip() + "\n"


def _cited(key: str, source: Source) -> str:
    names = {name.casefold(): name for name in reversed(source.aliases)}
    return "; ".join([*reversed(names.values()), *(["a variable's name"] if key == "inventory" else [])])


def _named(source: Source) -> str:
    by = "" if source.by in {"Kedge", "you"} else f", by {source.by.removesuffix('.')}"
    address = source.address if "://" in source.address else os.path.relpath(source.address, "docs")
    return f"[{source.title}]({address}){by}"


def _row(key: str, source: Source) -> str:
    return f"| {_cited(key, source)} | {_named(source)} | {source.version} |"


def _section(key: str, source: Source) -> list[str]:
    version = f" Version: {source.version}." if source.version else ""
    said = f"{_named(source)}.{version} In a plan: {_cited(key, source)}."
    return [f"### {key}\n", said, "", *(f"- Outdated: {what}" for what in source.outdated), ""]


if __name__ == "__main__":
    PAGE.write_text(page(sources()))
