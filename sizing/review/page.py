"""The review as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from evidence.release import VERSION
from sizing.review.judging import Judgement
from sizing.review.showing import chosen


def page(judgements: Sequence[Judgement], others: Sequence[str]) -> str:
    """Return the page of a review."""
    environment = Environment(
        loader=PackageLoader("sizing", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("review/page.html.j2").render(
        version=VERSION,
        judged=[(one, chosen(one.rows, full=False)) for one in judgements],
        others=others,
    )
