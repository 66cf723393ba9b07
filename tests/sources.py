"""docs/sources.yml as the tests read it, and the page that is made from it: ``python -m tests.sources`` writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

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
[sources.yml](sources.yml), which also has how a source is written in a plan; a test holds the two together, and that
every source of every plan is one of these.
"""


def read() -> dict[str, dict[str, Any]]:
    """Return the sources by their keys."""
    found: dict[str, dict[str, Any]] = yaml.safe_load((DOCS / "sources.yml").read_text())
    return found


def parts(source: str) -> list[str]:
    """Return the parts of a setting's source."""
    return source.split("; ")


def found(part: str, sources: Mapping[str, Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return the key and the section to which a part of a source leads; None where it leads nowhere."""
    for key, source in sources.items():
        for alias in source["aliases"]:
            if part == alias:
                return key, ""
            section = part.removeprefix(f"{alias}, ")
            if section != part and section in source.get("sections", ()):
                return key, section
    for key, source in sources.items():
        if "pattern" in source and re.fullmatch(source["pattern"], part):
            return key, ""
    return None


def page(sources: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page: a table of each kind, then what is used of each source and what of it is outdated."""
    lines = [_HEAD]
    for kind, (title, said) in _KINDS.items():
        lines += [
            f"## {title}\n",
            f"{said}\n",
            "| key | title | author or publisher | version |",
            "|---|---|---|---|",
        ]
        for key, source in sources.items():
            if source["kind"] == kind:
                by = ", ".join(source[name] for name in ("author", "publisher") if name in source)
                lines.append(f"| [{key}](#{key}) | {source['title']} | {by} | {source['version']} |")
        lines.append("")
    lines.append("## Each source\n")
    for key, source in sources.items():
        lines += [f"### {key}\n", f"{source['title']}\n"]
        address = source["address"]
        lines.append(f"- Address: {f'<{address}>' if '://' in address else f'[{address}]({address})'}")
        cited = [*source["aliases"], *(["a variable's name"] if key == "inventory" else [])]
        lines.append(f"- In a plan: {'; '.join(cited)}")
        if source.get("sections"):
            lines.append(f"- Sections: {'; '.join(source['sections'])}")
        lines += [f"- Outdated: {what}" for what in source.get("outdated", ())]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(read()))
