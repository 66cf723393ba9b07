"""HAProxy's stick table: how many owning instances of consumers it remembers, and for how long."""

from __future__ import annotations

from typing import Final

from kedge.plan.plan import Part
from kedge.plan.settings import Choice, Sheet
from kedge.plan.values import int_or_none
from kedge.plan.variables import basis_of
from kedge.services.balancer.security import FILE
from kedge.services.balancer.timeouts import proxies_of
from kedge.services.balancer.variables import RestBalancer

_FACTS: Final = "REST proxy facts, Consumer instances behind HAProxy"
_ENTRIES: Final = 200_000
_ENTRY_BYTES: Final = 200  # a key of up to 128 bytes and HAProxy's own
#: Memory of the whole table, when full.
TABLE_BYTES: Final = _ENTRIES * _ENTRY_BYTES


def put_stick_table(sheet: Sheet, rest: Part, variables: RestBalancer) -> None:
    """Plan how many consumers' owning instances are remembered, and for how long."""
    instances = proxies_of(rest.services)
    consumers = max((int_or_none(i.value("consumer.instance.timeout.ms")) or 0 for i in instances), default=0)
    minutes = variables.consumer_minutes
    sheet.put(
        FILE,
        "stick-table expire",
        "balancer.stickiness",
        Choice(
            f"{minutes}m",
            sheet.either(
                f"a consumer instance lives {consumers // 1000} s after its last request",
                "by default a consumer instance of kafka-rest lives 300 s after its last request",
            )
            + f", and its owning instance is remembered for {minutes} minutes",
            _FACTS,
            basis_of(RestBalancer, "consumer_minutes", minutes, "estimate"),
        ),
    )
    if consumers > minutes * 60_000:
        sheet.warning(
            "balancer.stickiness",
            f"rest_balancer_consumer_minutes is {minutes}, and a consumer instance lives {consumers} ms "
            "after its last request: its owning instance is forgotten before it ends",
            f"set rest_balancer_consumer_minutes to {consumers // 60_000 + 1} or more",
        )
    sheet.put(
        FILE,
        "stick-table size",
        "balancer.stickiness",
        Choice(
            _ENTRIES,
            f"owning instances of consumers, by an estimate {TABLE_BYTES // 1_000_000} MB when full",
            _FACTS,
            "estimate",
        ),
    )
