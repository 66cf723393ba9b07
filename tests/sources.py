"""The page that is made from ``sizing/sources.yml``: ``python -m tests.sources`` writes ``docs/sources.md``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sizing.sources import Source, sources

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

Every setting of a [plan](plan.md) names its source. Each of them is here, under a short key. This page is made from
[sources.yml](../sizing/sources.yml), which also has how a source is written in a plan. A test holds
the two together, and that every source of every plan is one of these.
"""


def page(known: Mapping[str, Source]) -> str:
    """Return the page: a table of each kind, then what is used of each source and what of it is outdated."""
    lines = [_HEAD]
    for kind, (title, said) in _KINDS.items():
        lines += [
            f"## {title}\n",
            f"{said}\n",
            "| key | title | author or publisher | version |",
            "|---|---|---|---|",
        ]
        for key, source in known.items():
            if source.kind == kind:
                lines.append(f"| [{key}](#{key}) | {source.title} | {source.by} | {source.version} |")
        lines.append("")
    lines.append("## Each source\n")
    for key, source in known.items():
        lines += [f"### {key}\n", f"{source.title}\n"]
        address = source.address
        if "://" not in address:
            address = os.path.relpath(address, "docs")
        lines.append(f"- Address: {f'<{address}>' if '://' in address else f'[{address}]({address})'}")
        cited = [*source.aliases, *(["a variable's name"] if key == "inventory" else [])]
        lines.append(f"- In a plan: {'; '.join(cited)}")
        if source.sections:
            lines.append(f"- Sections: {'; '.join(source.sections)}")
        lines += [f"- Outdated: {what}" for what in source.outdated]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(sources()))
