"""What stops an audit before it can judge."""

from __future__ import annotations


class EvidenceError(Exception):
    """Evidence, service levels or a run description that cannot be read; its text is one line for a person.

    The line says what is wrong, where (file, column), and how to mend it. The command exits with status 2.
    """


def one_line(text: object, limit: int = 300) -> str:
    """Return the text folded into one line of at most ``limit`` characters."""
    folded = " ".join(str(text).split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"
