"""The load of a run (load.json), made of ``verify`` and the plan, and how long it may take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from kedge.evidence.load_options import LoadSpec, RestLoad
from kedge.plan.document import reached
from kedge.plan.inventory.secrets import public
from kedge.services.registry import SERVICES

#: How long processes of a load may take to start beyond its warm-up, and to end beyond its own time limits.
_START_SECONDS: Final = 90
_END_SECONDS: Final = 200


def load_spec(
    verify: Mapping[str, Any],
    plan: Mapping[str, Any],
    run_id: str,
    generators: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the load of a run (load.json) from the inventory's ``verify`` and the plan.

    REST clients go to the first planned balancer, unless ``verify.rest.url`` names another place. They speak
    the dialect of the planned proxies, unless ``verify.rest.dialect`` has another, and follow them alone to
    where consumers are made, unless ``verify.rest.proxies`` names others. ``generators`` make the
    load; the control machine does where there are none.

    Raises:
        ValueError: when there is neither, or proxies of several dialects.
    """
    # load.json is kept with the run; passwords reach the load by its environment.
    verify = public(verify)
    spec = {"kafka": None, "rest": None, **verify, "run_id": run_id, "generators": list(generators)}
    spec |= reached(plan, verify["cluster"])
    spec["client"] = {**spec.get("client", {}), **verify.get("client", {})}
    for service in SERVICES:
        spec |= service.load(plan, spec)
    return spec


def load_option(verify: Mapping[str, Any], name: str) -> Any:
    """Return an option of ``verify``; its default where the inventory does not set it."""
    return verify.get(name, LoadSpec.model_fields[name].default)


def load_seconds(verify: Mapping[str, Any], phase: Literal["running", "done"]) -> float:
    """Return within how many seconds a load of ``verify`` is in a phase, unless something is wrong."""

    def given(name: str) -> float:
        return float(load_option(verify, name))

    if phase == "running":
        return given("warm_up_s") + _START_SECONDS
    name = "request_timeout_s"
    request = (verify.get("rest") or {}).get(name, RestLoad.model_fields[name].default)
    return given("max_s") + given("drain_s") + float(request) + _END_SECONDS
