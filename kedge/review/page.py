"""The review as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence

from kedge.evidence.release import VERSION
from kedge.plan.page import environment
from kedge.review.judging import Judgement
from kedge.review.showing import chosen, looked


def page(judgements: Sequence[Judgement], others: Sequence[str]) -> str:
    """Return the page of a review."""
    return (
        environment("kedge.review")
        .get_template("page.html.j2")
        .render(
            version=VERSION,
            judged=[(one, chosen(one.rows, full=False)) for one in judgements],
            others=others,
            looked=looked,
        )
    )
