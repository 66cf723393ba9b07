"""How a flow's clients log in to the clusters at its ends."""

from __future__ import annotations

from kedge.plan.inventory.logins import login_of, names_protocol
from kedge.plan.inventory.security import Login, Security, plan_client
from kedge.plan.settings import Sheet
from kedge.services.mirror.flow import Flow


def plan_login(sheet: Sheet, flow: Flow, end: str, file: str, prefix: str) -> None:
    """Plan the keys with which the flow's clients speak with the cluster at its ``end``, source or target.

    Not where a protocol stands among the person's own settings: then all of it is the person's.
    """
    spec = flow.flow
    if not (securities := securities_of(flow)):
        return
    source = end == "source"
    security = securities[0 if source else 1]
    given = (
        Login(spec.source_user, spec.source_password, spec.source_client_tls, spec.source_keytab)
        if source
        else Login(spec.target_user, spec.target_password, spec.target_client_tls, spec.target_keytab)
    )
    login = login_of(sheet, f"mirror_maker_flows.{flow.name}.{end}", security, given)
    plan_client(sheet, file, prefix, f"{flow.folder}/{end}", security, login, flow.version)


def securities_of(flow: Flow) -> tuple[Security | None, ...]:
    """Return how source and target are spoken with; empty where that is the person's own settings'."""
    own = (flow.flow.settings, flow.flow.consumer_settings, flow.flow.producer_settings)
    return () if any(map(names_protocol, own)) else (flow.source_security, flow.target_security)
