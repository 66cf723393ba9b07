"""Text of others, made fit to stand in a line that a program or a terminal reads."""

from __future__ import annotations


def plain(text: object) -> str:
    """Return a text with what is no printable character as its escape (``\\x85``).

    What ends a line (NEL and U+2028 do in YAML), drives a terminal, turns the direction of writing or may not
    stand in XML is then a few letters like any others.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def plain_lines(text: object) -> str:
    """Return a text of several lines so, whose ends of lines and tabs stay."""
    return "\n".join("\t".join(map(plain, line.split("\t"))) for line in str(text).split("\n"))
