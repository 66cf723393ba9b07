"""How trouble is told: one line that says what, where and how to mend it."""

from __future__ import annotations


class Problem(Exception):  # noqa: N818 - it is what the user has, not a programming error
    """Something that the user can mend; the message is shown as it is, and the exit status is 2."""
