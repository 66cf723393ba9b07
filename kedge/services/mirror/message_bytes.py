"""The largest message of a flow: what its topics, its request and the target take of it."""

from __future__ import annotations

from collections.abc import Mapping

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import MESSAGE_MAX_BYTES, KafkaCluster, message_max_bytes
from kedge.plan.settings import Setting, Sheet
from kedge.services.mirror.variables import MirrorFlow


def _max_bytes(settings: tuple[Setting, ...]) -> int | None:
    return next(
        (int(s.value) for s in settings if s.key == "max.message.bytes" and s.value.isdecimal()), None
    )


def message_bytes(
    flow: MirrorFlow, variable: str, source: Mapping[str, tuple[Setting, ...]], cluster: KafkaCluster
) -> tuple[int, str]:
    """Return the largest message of a flow, and where that is said: by ``variable`` if the flow says it."""
    if flow.max_message_bytes:
        return flow.max_message_bytes, variable
    default = cluster.message_max_bytes or MESSAGE_MAX_BYTES
    said = f"message.max.bytes of cluster {flow.source}" if cluster.message_max_bytes else "Kafka's default"
    largest, where = default, said
    if source:
        largest, where = max(
            (_max_bytes(s) or default, f"max.message.bytes of topic {t}" if _max_bytes(s) else said)
            for t, s in source.items()
        )
    return largest, where


def check_messages(
    sheet: Sheet,
    flow: MirrorFlow,
    message: int,
    said: str,
    source: Mapping[str, tuple[Setting, ...]],
    target: Mapping[str, tuple[Setting, ...]],
    inventory: Inventory,
    clusters: Mapping[str, KafkaCluster],
) -> None:
    """Find topics and brokers whose largest message does not agree with the flow's."""
    for topic, settings in sorted(source.items()):
        own = _max_bytes(settings)
        if own is not None and own > message:
            sheet.error(
                "mirror.message_bytes",
                f"topic {topic} on {flow.source} takes messages of {own} bytes, and the flow has messages of "
                f"{message} ({said}): the process would end at the first larger one",
                f"set max_message_bytes of the flow to {own}, on both clusters as well",
            )
    for topic, settings in sorted(target.items()):
        own = _max_bytes(settings)
        if own is not None and own < message:
            sheet.error(
                "mirror.message_bytes",
                f"topic {topic} on {flow.target} refuses messages above {own} bytes, and the flow has "
                f"messages of "
                f"{message} ({said})",
                f"set max.message.bytes of topic {topic} on {flow.target} to {message}",
            )
    covered = bool(target) and all(_max_bytes(s) is not None for s in target.values())
    broker = message_max_bytes(inventory, clusters[flow.target])
    if covered:
        return
    if (broker or MESSAGE_MAX_BYTES) < message:
        what = f"message.max.bytes of cluster {flow.target} is {broker or MESSAGE_MAX_BYTES}"
        what += "" if broker else " by default"
        sheet.error(
            "mirror.message_bytes",
            f"{what}, and the flow has messages of {message} ({said})",
            f"raise it to {message}, or max.message.bytes of each target topic"
            + sheet.either(f" (kafka_clusters.{flow.target}.message_max_bytes tells the plan)", ""),
            variable=f"kafka_clusters.{flow.target}.message_max_bytes",
        )


def target_bytes(
    inventory: Inventory, cluster: KafkaCluster, flow: MirrorFlow, target: Mapping[str, tuple[Setting, ...]]
) -> tuple[int, str]:
    """Return the largest message that each topic of a flow takes on the target, and what takes no more."""
    of_brokers = message_max_bytes(inventory, cluster) or MESSAGE_MAX_BYTES
    own = [(bytes_, f"topic {t} on {flow.target}") for t, s in target.items() if (bytes_ := _max_bytes(s))]
    whole = [] if own and len(own) == len(target) else [(of_brokers, f"cluster {flow.target}")]
    return min([*own, *whole])


def check_request(
    sheet: Sheet, prefix: str, request: int, message: tuple[int, str], target: tuple[int, str]
) -> None:
    """Find a max.request.size below a flow's largest message, or above what the target takes.

    ``message`` is from :func:`message_bytes` and ``target`` from :func:`target_bytes`.
    """
    (largest, said), (takes, taker) = message, target
    if request < largest:
        sheet.error(
            "mirror.producer.message_bytes",
            f"max.request.size{sheet.of(sheet.where)} is {request}, and its messages have up to "
            f"{largest} bytes ({said})",
            f"set {sheet.either('', prefix)}max.request.size to {largest}, or leave it out",
            f"{prefix}max.request.size",
        )
    elif request > takes >= largest:
        sheet.warning(
            "mirror.producer.message_bytes",
            f"max.request.size{sheet.of(sheet.where)} is {request}, above the {takes} that "
            f"{taker} takes: a larger batch is refused there",
            f"set {sheet.either('', prefix)}max.request.size to {largest}, or leave it out",
            f"{prefix}max.request.size",
        )
