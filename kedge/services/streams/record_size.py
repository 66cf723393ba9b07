"""Records of a Streams application, held against its producer's largest request and what its topics take."""

from __future__ import annotations

from typing import Final

from kedge.plan.findings import WITH_INVENTORY, Finding, Reader
from kedge.plan.inventory.clusters import MESSAGE_MAX_BYTES
from kedge.plan.settings import MIB, Sheet
from kedge.plan.values import int_or_zero
from kedge.services.streams.properties import MESSAGE_BYTES
from kedge.services.streams.variables import StreamsApp

_MAX_REQUEST_BYTES: Final = MIB  # default of max.request.size


def check_records(spec: StreamsApp, brokers: int | None, reader: Reader = WITH_INVENTORY) -> list[Finding]:
    """Return what refuses an application's records; ``brokers`` take so many bytes, None by default."""
    sheet = Sheet(f"application {spec.name}", "measured", {}, "streams_app_settings", reader)
    size = _written_bytes(spec)
    request = int_or_zero(spec.settings.get("producer.max.request.size")) or _MAX_REQUEST_BYTES
    if size > request:
        sheet.error(
            "streams.record_bytes",
            f"records have {size} bytes, and the application's producer refuses more than {request}",
            f"set producer.max.request.size to {2 * size}{sheet.inside}",
            "producer.max.request.size",
        )
    own = int_or_zero(spec.settings.get(MESSAGE_BYTES))
    takes = own or brokers or MESSAGE_MAX_BYTES
    if size <= takes:
        return sheet.findings
    taker = (
        f"{MESSAGE_BYTES} is {takes}"
        if own
        else f"cluster {spec.cluster} takes messages of {takes} bytes{'' if brokers else ' by default'}"
    )
    said = f"; kafka_clusters.{spec.cluster}.message_max_bytes says it of its topics"
    packed = str(spec.settings.get("producer.compression.type", "none")) != "none"
    report = sheet.warning if packed else sheet.error
    report(
        "streams.record_bytes",
        f"{taker}, and the application writes records of {size}: they are refused"
        + (", unless they compress so far" if packed else ""),
        f"set {MESSAGE_BYTES} to {2 * size}{sheet.inside}" + ("" if own else sheet.either(said, "")),
        MESSAGE_BYTES,
    )
    return sheet.findings


def _written_bytes(spec: StreamsApp) -> int:
    """Return the largest record that an application is known to write: to changelogs, and as results."""
    stores = [store.record_bytes or spec.record_bytes for store in spec.stores if store.changelog]
    return max([*stores, *([spec.record_bytes] if spec.output_partitions or not stores else [])])
