"""The producer of a mirror process, its batches, linger and buffers; and its consumer, which group it is of.

How much a consumer fetches, Kafka's defaults or a profile say (kedge/services/clients/profiles.py); what that
takes of memory, kedge/services/clients/fetches.py counts.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from kedge.plan.settings import Choice, Sheet
from kedge.plan.values import int_or_zero, value_of
from kedge.plan.variables import basis_of
from kedge.services.clients.client_checks import check_consumer, check_producer
from kedge.services.clients.profile_settings import put_profile
from kedge.services.clients.profiles import JAVA_DEFAULTS
from kedge.services.mirror.flow import ARTICLE, BENCH, CLASSIC, NUMBER, Flow, plan_login
from kedge.services.mirror.keys import GIVEN
from kedge.services.mirror.links import bandwidth_delay_bytes, socket_buffer
from kedge.services.mirror.memory import COMPRESSOR_MIB
from kedge.services.mirror.message_bytes import check_request
from kedge.services.mirror.topics_and_groups import consumer_group
from kedge.services.mirror.variables import MirrorFlow

_SPLIT: Final = "KAFKA-8350, fixed in later versions than classic MirrorMaker has"

#: linger.ms of the article: 95 percent of metric batches filled within 30 s, 99 percent of log batches.
LINGER_MS: Final = {"bulk": 30_000, "latency": 15_000}
FETCH_WAIT_MS: Final = int(JAVA_DEFAULTS["fetch.max.wait.ms"])
_BUFFER_MIN: Final = int(JAVA_DEFAULTS["buffer.memory"])

#: MirrorMaker gives its clients these by itself, so that no record is lost or changes its place.
SET_BY_MIRRORS: Final = frozenset(
    {
        "enable.idempotence",
        "max.in.flight.requests.per.connection",
        "delivery.timeout.ms",
        "enable.auto.commit",
    }
)

_MOST_ZSTD_MIB: Final = 1024


def plan_producer(sheet: Sheet, flow: Flow, file: str, prefix: str, tasks: int = 1) -> int:
    """Plan the producer, of MirrorMaker 2 that of each of ``tasks``; return its buffer.memory in bytes."""
    spec, limits = flow.flow, flow.limits

    def put(key: str, rule: str, documented: Choice | None, measured: Choice | None = None) -> str:
        return sheet.put(file, f"{prefix}{key}", f"mirror.producer.{rule}", documented, measured) or ""

    if not prefix:
        because = f"the brokers of cluster {spec.target}"
        put("bootstrap.servers", "cluster", Choice(flow.target_servers, because, CLASSIC, "derived"))
        because = "flow and number of the process: unique over all hosts, and the same wherever it runs"
        client = put("client.id", "identity", Choice(f"{flow.name}-{NUMBER}", because, CLASSIC, "derived"))
        if NUMBER not in client:
            sheet.warning(
                "mirror.producer.identity",
                f"all processes{sheet.of(sheet.where)} have the client.id {client}: metrics and quotas mix",
                "take client.id" + sheet.either(" out of producer_settings", " out"),
                "client.id",
            )
    because = "fewer bytes on the wire, and on the disks of the target"
    found = (
        "11.0 times the records/s of the defaults over 60 ms; gzip (10.3) and lz4 (11.9) differ by less than "
        "the spread, and zstd sends 0.6 of the bytes of lz4; the document dates from 2017, and zstd came "
        "with Kafka 2.1"
    )
    compressed = Choice("zstd", found, BENCH, "measured")
    if (zstd := math.ceil(COMPRESSOR_MIB["zstd"] * limits.target_partitions)) > _MOST_ZSTD_MIB:
        gzip = math.ceil(COMPRESSOR_MIB["gzip"] * limits.target_partitions)
        found = (
            f"zstd would keep an estimated {zstd} MiB outside the heap for a batch of each of "
            f"{limits.target_partitions} partitions ({limits.target_source}), gzip {gzip}; their records/s "
            "differed by less than the spread"
        )
        compressed = Choice("gzip", found, BENCH, "estimate")
    put(
        "compression.type",
        "compression",
        Choice("gzip", because, f"{ARTICLE}, Enable compression", "documented"),
        compressed,
    )
    request = put(
        "max.request.size",
        "message_bytes",
        Choice(
            limits.message_bytes,
            f"the largest message of the flow: {limits.message_source}",
            f"{ARTICLE}, Batch size should be smaller than max message size",
            "derived",
        ),
    )
    batch = put("batch.size", "batch", _batch(flow))
    put("linger.ms", "linger", _linger(sheet, flow))
    held = _Held(flow, int_or_zero(batch) or batch_bytes(flow), tasks)
    buffer = put("buffer.memory", "buffer", *_buffer_memory(held))
    socket_buffer(sheet, spec, file, f"{prefix}send.buffer.bytes", "mirror.producer.socket", "128 KiB")
    put_profile(sheet, file, prefix, "producer", spec.profile, flow.version, SET_BY_MIRRORS)
    if not prefix:
        plan_login(sheet, flow, "target", file, "")
        sheet.rest_of_own(file, "mirror.own")
        check_producer(sheet, f"flow {flow.name}", "", flow.version, given=GIVEN)
        check_kept(sheet, "")
    _check_producer(sheet, held, prefix, int_or_zero(request))
    return int_or_zero(buffer)


def _batch(flow: Flow) -> Choice:
    ratio, message = flow.flow.max_compression_ratio, flow.limits.message_bytes
    because = (
        f"{ratio:g} x {message}: a batch is filled by its estimated compressed size, so that one which "
        f"compresses {1 / ratio:.0f} times worse than estimated still fits a request"
    )
    value = max(1, math.floor(ratio * message + 1e-6))
    return Choice(
        value,
        because,
        f"{ARTICLE}, Batch size should be smaller than max message size",
        basis_of(MirrorFlow, "max_compression_ratio", ratio, "documented"),
    )


def batch_bytes(flow: Flow) -> int:
    """Return the batch.size that holds, a person's own included."""
    return int_or_zero(flow.flow.producer_settings.get("batch.size", _batch(flow).value))


class _Held(NamedTuple):
    """What one producer of a flow holds: a batch for each partition that it writes to.

    A task of MirrorMaker 2 writes its share of the partitions (MirrorSourceConnector, taskConfigs).
    """

    flow: Flow
    batch: int
    tasks: int

    @property
    def partitions(self) -> int:
        """How many a producer writes to."""
        return math.ceil(self.flow.limits.target_partitions / self.tasks)

    @property
    def bytes(self) -> int:
        """A batch for each of them."""
        return self.partitions * self.batch

    def said(self, what: str) -> str:
        """Return the partitions in words."""
        limits = self.flow.limits
        if self.tasks == 1:
            return f"{self.partitions} {what} ({limits.target_source})"
        return (
            f"{self.partitions} of {limits.target_partitions} {what} ({limits.target_source}), a task's share"
        )


def _buffer_memory(held: _Held) -> tuple[Choice, Choice | None]:
    flow = held.flow
    batches = f"batch of {held.batch} bytes for each of {held.said('partitions of the target')}"
    source = f"{ARTICLE}, Enough buffer memory for all the partitions"
    documented = Choice(max(_BUFFER_MIN, held.bytes), f"a {batches}; 32 MiB at least", source, "documented")
    if flow.classic:
        return documented, None
    link = bandwidth_delay_bytes(flow.flow)
    sent = min(held.bytes, link or held.bytes)
    least = 2 * flow.limits.message_bytes
    on_its_way = f"and {sent} bytes, which the link holds" if sent < held.bytes else "and another on its way"
    because = (
        f"a {batches} that fills, {on_its_way}; two of the largest messages ({least} bytes) at least. Each "
        f"of {held.tasks} tasks has such a buffer of its own"
    )
    return documented, Choice(max(least, held.bytes + sent), because, source, "derived")


def spare_ms(flow: MirrorFlow) -> float:
    """Return what a flow's latency budget leaves after the round trip and the consumer's longest fetch."""
    return flow.latency_budget_ms - flow.round_trip_ms - FETCH_WAIT_MS


def _linger(sheet: Sheet, flow: Flow) -> Choice:
    spec = flow.flow
    filled = (spec.fill_ms_p99 or spec.fill_ms_p95) if spec.priority == "bulk" else (
        spec.fill_ms_p95 or spec.fill_ms_p99)  # fmt: skip
    source = f"{ARTICLE}, Fill message batches"
    instead = f"where {source} says {LINGER_MS[spec.priority]}"
    if filled:
        share = 99 if filled == spec.fill_ms_p99 else 95
        measured = f"mirror_maker_flows.{flow.name}.fill_ms_p{share}"
        instead = f"less than the {filled} ms within which {share} percent of its batches fill ({measured})"
        documented = Choice(
            filled, f"{share} percent of the batches were filled within {filled} ms", source, "derived"
        )
    else:
        kind = (
            "volume counts more than delay" if spec.priority == "bulk" else "the flow is sensitive to latency"
        )
        documented = Choice(
            LINGER_MS[spec.priority], f"no fill times are known; {kind}", source, "documented"
        )
    half = max(0, math.floor(spare_ms(spec) / 2))
    if flow.advice == "documented" or half >= int_or_zero(documented.value):
        return documented
    because = (
        f"half of what the latency budget of {spec.latency_budget_ms} ms leaves after a round trip of "
        f"{spec.round_trip_ms:g} ms and a fetch of {FETCH_WAIT_MS} ms"
    )
    if "linger.ms" not in spec.producer_settings:
        sheet.note(
            "mirror.producer.linger",
            f"linger.ms{sheet.of(sheet.where)} is {half}, {because}, {instead}",
            f"raise {sheet.name(f'{flow.variable}.latency_budget_ms')} if batches are to fill",
            "linger.ms",
        )
    return Choice(half, because, f"mirror_maker_flows.{flow.name}.latency_budget_ms", "estimate")


def _check_producer(sheet: Sheet, held: _Held, prefix: str, request: int) -> None:
    flow, batch = held.flow, held.batch
    spec, limits = flow.flow, flow.limits
    of, ratio = sheet.of(sheet.where), spec.max_compression_ratio
    own = sheet.either("", prefix)
    check_request(
        sheet,
        prefix,
        request,
        message=(limits.message_bytes, limits.message_source),
        target=(limits.target_bytes, limits.target_taker),
    )
    bound = min(request, limits.target_bytes)
    whose = (
        f"{bound} bytes that the target takes"
        if bound == limits.target_bytes
        else f"{bound} bytes of its max.request.size"
    )
    fitting = max(1, math.floor(ratio * bound + 1e-6))
    own_batch = "batch.size" in spec.producer_settings
    if own_batch and batch > limits.target_bytes and flow.classic:
        sheet.error(
            "mirror.producer.batch",
            f"batch.size{of} is {batch}, above the {limits.target_bytes} bytes that the target "
            "takes: a full batch that does not compress is refused, split by batch.size into itself, and "
            f"refused again for ever ({_SPLIT})",
            f"set {own}batch.size to {fitting} or less",
            f"{prefix}batch.size",
        )
    elif own_batch and batch > ratio * bound + 1:
        sheet.warning(
            "mirror.producer.batch",
            f"batch.size{of} is {batch}: a batch that compresses {1 / ratio:.0f} times worse than "
            f"estimated outgrows the {whose}, is split and sent again",
            f"set {own}batch.size to {fitting} or less, or max_compression_ratio to what was measured",
            f"{prefix}batch.size",
        )
    needed = held.bytes
    buffer = int_or_zero(value_of(sheet, f"{prefix}buffer.memory"))
    if buffer < needed and sheet.reader.known(f"{flow.variable}.largest_topic_partitions"):
        sheet.warning(
            "mirror.producer.buffer",
            f"buffer.memory{of} is {buffer}, and {held.said('partitions')} x {batch} bytes are {needed}: "
            "send() will block",
            f"set {own}buffer.memory to {needed} or more, or leave it out",
            f"{prefix}buffer.memory",
        )
    linger = int_or_zero(value_of(sheet, f"{prefix}linger.ms"))
    if linger > spare_ms(spec):
        budget = math.ceil(spec.latency_budget_ms - spare_ms(spec)) + linger
        raised = f"set {sheet.name(f'{flow.variable}.latency_budget_ms')} to {budget} or more"
        sheet.warning(
            "mirror.latency",
            f"linger.ms{of} is {linger}, and its latency budget leaves {spare_ms(spec):g} ms",
            f"set {own}linger.ms to {max(0, math.floor(spare_ms(spec) / 2))} or less, or {raised}"
            if any(s.key == f"{prefix}linger.ms" and s.by == "person" for s in sheet.settings)
            else raised
            + sheet.either(
                ", or take advice: documented out: by measurement linger.ms follows the budget", ""
            ),
            f"{prefix}linger.ms",
        )


def check_kept(sheet: Sheet, prefix: str) -> None:
    """Report a producer that loses or reorders records; ``prefix`` is that of its keys.

    To be called when a person's own values are taken over: no rule puts these keys, so they come last.
    """
    of = sheet.of(sheet.where)
    acks = value_of(sheet, f"{prefix}acks")
    if acks not in ("", "all", "-1"):
        sheet.error(
            "mirror.producer.acks",
            f"{prefix}acks{of} is {acks}: records are lost when a leader fails, and their "
            "offsets are committed all the same",
            f"take {prefix}acks out: MirrorMaker sets all",
            f"{prefix}acks",
        )
    if value_of(sheet, f"{prefix}retries") == "0":
        sheet.error(
            "mirror.producer.retries",
            f"{prefix}retries{of} is 0: a record that fails once is given up",
            f"take {prefix}retries out: MirrorMaker tries again for ever",
            f"{prefix}retries",
        )
    in_flight = value_of(sheet, f"{prefix}max.in.flight.requests.per.connection")
    if in_flight not in ("", "1"):
        sheet.warning(
            "mirror.producer.order",
            f"{prefix}max.in.flight.requests.per.connection{of} is {in_flight}: a batch that "
            "is sent again comes after later ones",
            f"take {prefix}max.in.flight.requests.per.connection out: MirrorMaker sets 1",
            f"{prefix}max.in.flight.requests.per.connection",
        )


def put_receive_buffer(sheet: Sheet, flow: Flow, file: str, prefix: str) -> None:
    """Plan the socket buffer of the consumer; ``prefix`` is that of its keys."""
    key = f"{prefix}receive.buffer.bytes"
    socket_buffer(sheet, flow.flow, file, key, "mirror.consumer.socket", "64 KiB")


def put_consumer_profile(sheet: Sheet, flow: Flow, file: str, prefix: str) -> None:
    """Put the keys of the flow's profile; ``prefix`` is that of the consumer's keys."""
    put_profile(sheet, file, prefix, "consumer", flow.flow.profile, flow.version, SET_BY_MIRRORS)


def check_beginning(sheet: Sheet, prefix: str) -> None:
    """Warn of a mirror that begins at the end of partitions; ``prefix`` is that of its consumer's keys.

    MirrorMaker 2 leaves a partition of which no offset is stored to its consumer (MirrorSourceTask).
    """
    key = f"{prefix}auto.offset.reset"
    if value_of(sheet, key) == "latest":
        by = "" if any(s.key == key and s.by == "person" for s in sheet.settings) else " by default"
        sheet.warning(
            "mirror.consumer.offset",
            f"{key}{sheet.of(sheet.where)} is latest{by}: records of a partition without a "
            f"{'stored' if prefix else 'committed'} offset are skipped, those written before the first start "
            "and those of new topics and partitions",
            f"write {key}: earliest",
            key,
        )


def plan_consumer(sheet: Sheet, flow: Flow) -> None:
    """Plan the consumer of a classic process, which has a file of its own."""
    file = f"{flow.folder}/consumer.properties"

    def put(key: str, rule: str, value: str | int, because: str, source: str = CLASSIC) -> None:
        sheet.put(file, key, f"mirror.consumer.{rule}", Choice(value, because, source, "derived"))

    put("bootstrap.servers", "cluster", flow.source_servers, f"the brokers of cluster {flow.flow.source}")
    put("group.id", "group", consumer_group(flow.name), "all processes of the flow share one group")
    if str(flow.flow.environment.get("MIRROR_NUM_STREAMS", 1)) == "1":
        put(
            "group.instance.id",
            "member",
            f"{flow.name}-{NUMBER}",
            "a process that is back within session.timeout.ms, after a restart or a crash, goes on with its "
            "own partitions; without it all wait for a dead member's session before anyone mirrors again",
            "KIP-345, static membership",
        )
    spread = (
        "spreads the partitions of all topics evenly over the processes; without one it warns at each start"
    )
    assignor = Choice("org.apache.kafka.clients.consumer.RoundRobinAssignor", spread, CLASSIC, "documented")
    sheet.put(file, "partition.assignment.strategy", "mirror.consumer.assignor", assignor)
    put(
        "auto.offset.reset",
        "offset",
        "earliest",
        "a new flow mirrors what is there; latest would leave it out",
    )
    put_receive_buffer(sheet, flow, file, "")
    put_consumer_profile(sheet, flow, file, "")
    plan_login(sheet, flow, "source", file, "")
    sheet.rest_of_own(file, "mirror.own")
    check_consumer(sheet, sheet.where, "", flow.version)
    check_beginning(sheet, "")
    if value_of(sheet, "enable.auto.commit") == "true":
        sheet.error(
            "mirror.consumer.commit",
            sheet.either(
                f"consumer_settings of flow {flow.name} set enable.auto.commit", "enable.auto.commit is true"
            )
            + ": records read and not yet "
            "mirrored would be lost with the process",
            "take enable.auto.commit out: MirrorMaker commits after its producer has flushed",
            "enable.auto.commit",
        )
