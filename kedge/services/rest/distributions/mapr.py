"""Rules for the REST proxy of MapR's build: streams instead of topics, its own paths and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from kedge.plan.hosts import in_url
from kedge.plan.plan import PlannedInstance
from kedge.plan.settings import Basis, Choice, Setting, Sheet
from kedge.plan.values import int_or_none
from kedge.plan.version_numbers import numbers
from kedge.services.rest.distribution import (
    Distribution,
    Groups,
    Keys,
    RestProcess,
    Signs,
    Software,
    Versions,
)
from kedge.services.rest.kafka_rest import ENVIRONMENT, JVM, Build, plan_kafka_rest
from kedge.services.rest.security import refuse_listeners
from kedge.services.rest.variables import KafkaRest

#: What the plan calls the commands that create the default stream and try it, in the place of a service.
_STREAMS: Final = "mapr_streams"
#: Where the package puts itself.
_HOME: Final = "/opt/mapr/kafka-rest/kafka-rest-{version}"
_ARTICLE: Final = "MapR article"
_FACTS: Final = "MapR kafka-rest, KafkaRestConfig of its tags"
_BUFFER_MS: Final = 125
_PARTITIONS_A_NODE: Final = 10
#: The build of 2.0 carries a rest-utils that knows a port alone.
_LISTENERS: Final = (4, 0)
#: The build of 2.0 speaks v1 of the API alone.
_SECOND_API: Final = (4, 0)
#: The build reads the buffer time under the producer's prefix since 2.0.1-mapr-1703, with 1 ms as default.
_PREFIXED: Final = (2, 0, 1)


def _plan(sheet: Sheet, process: RestProcess) -> None:
    """Plan the properties, the environment and the unit of one process.

    The first instance of a host has the file that the package's own start script reads; the others, which the
    package does not know, have theirs under ``/etc/kafka-rest``.
    """
    variables = process.variables
    name = process.distribution.software.properties
    home = _HOME.format(version=variables.version) + "/config"
    folder = home if process.number == 0 else f"/etc/kafka-rest/{process.port}"
    properties = f"{folder}/{name}"
    _streams(sheet, properties, variables)
    refuse_listeners(sheet, process)
    if process.security is not None and process.security.protocol != "PLAINTEXT":
        sheet.error(
            "rest.tls",
            f"cluster {variables.cluster} takes {process.security.protocol}, and the MapR build reaches its "
            "streams by the client that is installed on the host",
            "take security out of the cluster, and secure that client",
        )
    listeners = numbers(variables.version) >= _LISTENERS
    if _api(variables.version) == "v1":
        sheet.error(
            "rest.mapr.api",
            f"kafka_rest_version is {variables.version}, which speaks v1 of the API, and readiness, health "
            "checks of the balancer and verify.yml ask in v2: no instance would ever become ready",
            "use 4.0 or later; the plan's commands and settings hold for a roll-out by hand",
        )
    build = Build(
        current=False,
        since_8=False,
        listeners=listeners,
        advertises=False,
        deprecates_host_name=False,
    )
    plan_kafka_rest(sheet, process, build, properties)


def _stream_commands(host: str, address: str, variables: KafkaRest) -> dict[str, tuple[PlannedInstance, ...]]:
    """Return the commands that create the default stream and try it; none without a default stream."""
    path = variables.default_stream
    if path is None:
        return {}
    partitions = _PARTITIONS_A_NODE * variables.stream_nodes
    rows: Sequence[tuple[str, str, str, str, Basis]] = (
        (
            "maprcli",
            f"maprcli stream create -path {path} -ttl {variables.stream_ttl_s} -autocreate true "
            f"-defaultpartitions {partitions}",
            f"{_PARTITIONS_A_NODE} partitions a node and topic on {variables.stream_nodes} nodes; the "
            "default is 1",
            f"{_ARTICLE}, Number of topics and partitions",
            "estimate",
        ),
        (
            "produce",
            f"curl -X POST -H 'Content-Type: application/vnd.kafka.json.{_api(variables.version)}+json' "
            f'--data \'{{"records":[{{"value":{{"a":1}}}},{{"value":{{"a":2}}}}]}}\' '
            f"http://{in_url(address)}:{variables.first_port}/topics/{topic_in_url(path, 'TOPIC')}",
            "a path and a topic in a URL are encoded: / is %2F and : is %3A; with the default stream "
            "/topics/TOPIC does",
            f"{_ARTICLE}, About the URL for the topic",
            "documented",
        ),
    )
    settings = tuple(
        Setting("", key, value, "rest.mapr.stream", because, source, basis)
        for key, value, because, source, basis in rows
    )
    return {_STREAMS: (PlannedInstance(f"{host}{path}", settings),)}


def _api(version: str) -> str:
    """Return the version of the API that a build speaks."""
    return "v2" if numbers(version) >= _SECOND_API else "v1"


def topic_in_url(path: str, topic: str) -> str:
    """Return how a topic of a stream is written in a URL: ``/s:t`` is ``%2Fs%3At``."""
    return quote(f"{path}:{topic}", safe="")


def _streams(sheet: Sheet, file: str, variables: KafkaRest) -> None:
    bare = Choice(
        _BUFFER_MS,
        "the client would wait 3000 ms for more records before it sends; under about 125 ms the waiting "
        "costs one or two cores",
        f"{_ARTICLE}, Fix very high latency for single API call",
        "documented",
    )
    prefixed = numbers(variables.version) >= _PREFIXED
    latency = Choice(
        min(_BUFFER_MS, variables.workload.delivery_latency_ms),
        "a read waits this long for records, and no longer than the records are wanted",
        f"{_ARTICLE}, Fix very high latency for single API call",
        "documented",
    )
    sheet.put(file, "consumer.request.timeout.ms", "rest.consumer.latency", latency)
    if prefixed:
        sheet.put(
            file,
            "streams.buffer.max.time.ms",
            "rest.mapr.buffer",
            bare,
            Choice(
                None,
                "the build reads it under the producer's prefix since 2.0.1-mapr-1703",
                _FACTS,
                "documented",
            ),
        )
        planned = (
            sheet.put(
                file,
                "producer.streams.buffer.max.time.ms",
                "rest.mapr.buffer",
                None,
                Choice(
                    _BUFFER_MS,
                    "the article's 125 ms under the key that this build reads; its default of 1 ms waits "
                    "busily",
                    f"{_FACTS}; {_ARTICLE}, Fix very high latency",
                    "documented",
                ),
            )
            if sheet.advice == "measured"
            else None
        )
    else:
        planned = sheet.put(file, "streams.buffer.max.time.ms", "rest.mapr.buffer", bare)
    _check_buffer(sheet, int_or_none(planned))
    if variables.default_stream is None:
        return
    because = "topics of this stream need no path in a URL"
    sheet.put(
        file,
        "streams.default.streams",
        "rest.mapr.default_stream",
        Choice(variables.default_stream, because, f"{_ARTICLE}, About the URL for the topic", "derived"),
        Choice(
            None,
            "no tag of the build reads it under this name, streams.default.stream is",
            _FACTS,
            "documented",
        ),
    )
    if sheet.advice == "measured":
        sheet.put(
            file,
            "streams.default.stream",
            "rest.mapr.default_stream",
            None,
            Choice(variables.default_stream, because, _FACTS, "derived"),
        )
    else:
        sheet.warning(
            "rest.mapr.default_stream",
            "advice: documented writes streams.default.streams, which no tag of the build reads",
            f"set advice: measured, or streams.default.stream{sheet.inside}",
            "streams.default.stream",
        )


def _check_buffer(sheet: Sheet, milliseconds: int | None) -> None:
    if milliseconds is not None and milliseconds < _BUFFER_MS:
        sheet.warning(
            "rest.mapr.buffer",
            f"the buffer time is {milliseconds} ms: below about {_BUFFER_MS} ms the processor's use rises, "
            f"at 0 one or two cores are busy all the time ({_ARTICLE}, Fix very high latency)",
            f"set it to {_BUFFER_MS} or more, unless the latency is worth the cores",
        )


MAPR: Final = Distribution(
    name="mapr",
    title="the MapR build",
    versions=Versions((2, 0), (6,), "2.0, 4.x and 5.x"),
    plan=_plan,
    software=Software(
        ("package", "archive"),
        package="mapr-kafka-rest",
        package_home=_HOME,
        user="mapr",
        vendors_user=True,
        control="kafka-rest",
    ),
    # Not all of its keys are known. Its client is one of Kafka 0.9 to 2.x, and the catalogue's oldest comes
    # nearest.
    keys=Keys("mapr", ("mapr",), clients=lambda _: "3.9", unknown="warning"),
    groups=Groups(None, "its clients are those of Kafka 0.9 to 2.x", _FACTS),
    java=lambda _: None,  # the cluster's software brings it
    jvm=JVM,
    environment=ENVIRONMENT,
    streams=_stream_commands,
    signs=Signs(
        "kafka-rest, MapR's build of it",
        ("5.1.2", "4.1.0"),
        r"/opt/mapr/kafka-rest/",
        "io.confluent.kafkarest.KafkaRestMain",
        keys=("streams.buffer.max.time.ms", "streams.default.stream", "streams.default.streams"),
    ),
)
