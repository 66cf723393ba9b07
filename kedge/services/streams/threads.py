"""How many stream threads an instance runs."""

from __future__ import annotations

from kedge.plan.settings import Choice, Sheet
from kedge.plan.values import int_or_zero
from kedge.services.host.facts import HostFacts
from kedge.services.streams.variables import CONFIG, StreamsApp


def threads_of(spec: StreamsApp, facts: HostFacts) -> int:
    """Return how many stream threads an instance runs on a host."""
    own = int_or_zero(spec.settings.get("num.stream.threads"))
    return own or spec.threads or max(1, facts.cores // spec.instances_per_host)


def put_threads(sheet: Sheet, file: str, spec: StreamsApp, facts: HostFacts) -> int:
    """Plan the stream threads; return how many there are."""
    threads, each = threads_of(spec, facts), spec.instances_per_host
    because = (
        f"threads is {spec.threads}"
        if spec.threads
        else f"{facts.cores} cores for {each} instances on the host"
    )
    sheet.put(file, "num.stream.threads", "streams.threads", Choice(threads, because, CONFIG, "derived"))
    return threads
