"""The plan as one HTML file that needs no network: findings, settings by place, sources with addresses."""

from __future__ import annotations

from collections import Counter
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from kedge.evidence.release import VERSION
from kedge.plan.plan import Plan
from kedge.plan.settings import Setting
from kedge.plan.sources import cited, leads_to, parts


def page(plan: Plan, inventory: str) -> str:
    """Return the page of an inventory's plan; values of secrets are hidden in it."""
    places: dict[str, dict[str, list[Setting]]] = {}
    every = list(plan.settings())
    for where, setting in every:
        places.setdefault(where, {}).setdefault(setting.file, []).append(setting)
    return _template().render(
        inventory=inventory,
        version=VERSION,
        shares=Counter(setting.basis for _, setting in every).most_common(),
        total=len(every),
        findings=plan.findings,
        places=places,
        sources=cited(setting.source for _, setting in every),
    )


@cache
def _template() -> Template:
    templates = environment("kedge.plan")
    templates.filters["parts"] = _parts
    return templates.get_template("page.html.j2")


def environment(package: str) -> Environment:
    """Return the templates of a package; its pages have the frame of the plan's."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("kedge.plan", "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )


def _parts(source: str) -> list[tuple[str, str]]:
    """Return each part of a setting's source with the key to which it leads; empty where it leads nowhere."""
    return [(part, found[0] if (found := leads_to(part)) else "") for part in parts(source)]
