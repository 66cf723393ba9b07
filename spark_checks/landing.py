"""The topics into the records table, so that a verdict can be computed again when the topics are gone."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evidence.errors import one_line
from evidence.record import CRC, INTENDED_US, MAGIC, MARK, PREFIX_BYTES, PRODUCER, SEQ, run_tag
from evidence.run import Cluster, Run, Topic
from evidence.secrets import from_environment
from sizing.inventory.security import java_client
from spark_checks.engine.readers import local_path
from spark_checks.engine.schemas import TABLES
from spark_checks.engine.session import connector_jars
from spark_checks.mirror.batches import sample
from spark_checks.topics import CannotReadError, land_here

_REACH_S = 3.0
#: Tasks a core: topics of uneven partitions still keep all cores busy to the end.
_TASKS_A_CORE = 3
#: Records that a task reads at most: some seconds of one core, so that cores end together.
_RANGE_RECORDS = 500_000


@dataclass(frozen=True)
class Landing:
    """What landing gave: how many records in how long, or the reason why it could not be done."""

    records: int = 0
    seconds: float = 0.0
    reason: str = ""


def land(session: Callable[[], SparkSession], uri: str, run: Run, cores: int = 0) -> Landing:
    """Read the run's range of every topic from its cluster and write ``records`` under the evidence.

    Of mirrors' sources a sample is compressed as well, into ``batches``.

    What tasks wrote is kept apart until the whole is there, so that a landing that was cut off leaves no
    records behind.

    Args:
        session: gives Spark's, whose tasks read the topics where the evidence lies elsewhere, and samples.
        uri: the evidence folder.
        run: run.json.
        cores: of this machine, whose processes read the topics (spark_checks.topics); 0: Spark's tasks do.
    """
    folder = local_path(uri) if cores else None
    reason = obstacle(run, by_spark=folder is None or bool(run.mirrors))
    if reason:
        return Landing(reason=reason)
    begin = time.monotonic()
    try:
        if folder is None:
            count = _land_by_spark(session(), uri, run)
        else:
            count = land_here(folder, run, _client, cores)
        if run.mirrors:
            spark = session()
            records = spark.read.schema(TABLES["records"]).parquet(f"{uri}/records")
            read = {name: partial(_one_topic, spark, cluster) for name, cluster in run.clusters.items()}
            batches = sample(spark, records, run, read)
            if batches is not None:
                batches.write.mode("overwrite").parquet(f"{uri}/batches")
    except (PySparkException, Py4JJavaError) as error:
        return Landing(reason=f"the topics could not be read: {_cause(error)}")
    except CannotReadError as error:
        return Landing(reason=f"the topics could not be read: {error}")
    return Landing(count, time.monotonic() - begin)


def _land_by_spark(spark: SparkSession, uri: str, run: Run) -> int:
    whole = run.written_exactly_once()
    frames = [
        decode(read_topics(spark, cluster, topics, committed), name, run.run_id, run.keys_per_producer)
        for name, cluster in run.clusters.items()
        for committed in (False, True)
        if (
            topics := [t for t in run.topics if t.cluster == name and ((name, t.topic) in whole) == committed]
        )
    ]
    reduce(DataFrame.unionByName, frames).write.mode("overwrite").parquet(f"{uri}/records")
    return spark.read.schema(TABLES["records"]).parquet(f"{uri}/records").count()


def _one_topic(spark: SparkSession, cluster: Cluster, topic: Topic) -> DataFrame:
    return read_topics(spark, cluster, [topic])


def obstacle(run: Run, *, by_spark: bool) -> str:
    """Return why the topics cannot be read, or nothing."""
    if by_spark and not connector_jars():
        return "the jars of Spark's Kafka source are missing; run: make setup"
    if not run.topics:
        return "run.json names no topics"
    for name in dict.fromkeys(topic.cluster for topic in run.topics):
        cluster = run.clusters.get(name)
        if cluster is None:
            return f"run.json names no address of cluster {name}"
        if "sasl.mechanism" in cluster.client and not from_environment().get("clusters", {}).get(name):
            return f"cluster {name} wants a login, and KEDGE_SECRETS, which verify.yml sets, is missing"
        if not reachable(cluster):
            return f"cluster {name} cannot be reached at {cluster.bootstrap_servers}"
    return ""


def reachable(cluster: Cluster) -> bool:
    """Return whether any bootstrap server accepts a connection; Spark itself would try for minutes."""
    for server in cluster.bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S):
                return True
        except (OSError, ValueError):
            continue
    return False


def read_topics(
    spark: SparkSession, cluster: Cluster, topics: list[Topic], committed: bool = False
) -> DataFrame:
    """Return the raw records of the run's offsets, split so that all cores have work.

    ``committed`` leaves out those of aborted transactions, as whoever relies on exactly once does.
    """

    def offsets(which: str) -> str:
        # -1 is Kafka's name for the latest offset.
        known = {t.topic: getattr(t, f"{which}_offsets") for t in topics}
        return json.dumps(
            {t.topic: {str(p): known[t.topic].get(p, -1) for p in t.start_offsets} for t in topics}
        )

    tasks = max(spark.sparkContext.defaultParallelism, 1) * _TASKS_A_CORE
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .options(**{f"kafka.{key}": value for key, value in _security(cluster, topics).items()})
        .option("subscribe", ",".join(topic.topic for topic in topics))
        .option("startingOffsets", offsets("start"))
        .option("endingOffsets", offsets("end"))
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed" if committed else "read_uncommitted")
        .option("minPartitions", str(max(tasks, sum(topic.partitions for topic in topics))))
        # A partition with more records than others is read as several ranges of offsets.
        .option("maxRecordsPerPartition", str(_RANGE_RECORDS))
        # A log that starts later than the run is a finding of the audit, not a reason to stop.
        .option("failOnDataLoss", "false")
        # 500 records a poll is the client's default; it costs half of the rate.
        .option("kafka.max.poll.records", "50000")
        .option("kafka.fetch.max.bytes", str(64 << 20))
        .option("kafka.max.partition.fetch.bytes", str(16 << 20))
        .option("kafka.default.api.timeout.ms", "15000")
        .option("kafka.request.timeout.ms", "10000")
        .load()
    )


def _client(cluster: Cluster, name: str) -> dict[str, Any]:
    """Return librdkafka's keys for a cluster; its password comes from the environment alone."""
    if not cluster.client:
        return {}
    return {**cluster.client, **from_environment().get("clusters", {}).get(name, {})}


def _security(cluster: Cluster, topics: list[Topic]) -> dict[str, str]:
    client = _client(cluster, topics[0].cluster)
    return java_client(client) if client else {}


def decode(raw: DataFrame, cluster: str, run_id: str, keys: int | None = None) -> DataFrame:
    """Return the columns of the records table from Kafka's, by built-in functions alone.

    Args:
        raw: key, value, topic, partition, offset, timestamp, timestampType, headers.
        cluster: the name that goes into the column of that name.
        run_id: records of other runs have no identity here.
        keys: how many keys each producer goes round (verify.load.records), None where it is not known.
    """
    value = F.col("value")
    head = F.lit(MAGIC + run_tag(run_id))
    ours = (F.length(value) >= PREFIX_BYTES) & (_bytes(value, MARK) == head)
    # A number that the columns cannot hold was given by nobody.
    for number in (PRODUCER, SEQ):
        ours = ours & (_bytes(value, slice(number.start, number.start + 1)) < F.lit(b"\x80"))
    payload = value.substr(F.lit(PREFIX_BYTES + 1), F.length(value))
    covered = F.concat(_bytes(value, slice(0, CRC.start)), payload)
    producer, seq, stored = (_number(value, at) for at in (PRODUCER, SEQ, CRC))
    key_ok = F.lit(None).cast("boolean")
    if keys:
        given = F.concat_ws("-", producer, seq % keys).cast("binary")
        key_ok = F.when(ours, F.coalesce(F.col("key") == given, F.lit(False)))
    return raw.select(
        F.lit(cluster).alias("cluster"),
        "topic",
        "partition",
        "offset",
        F.unix_micros("timestamp").alias("timestamp_us"),
        F.when(F.col("timestampType") == 1, "append")
        .when(F.col("timestampType") == 0, "create")
        .alias("timestamp_type"),
        F.when(ours, producer).cast("int").alias("producer"),
        F.when(ours, seq).alias("seq"),
        F.when(ours, _number(value, INTENDED_US)).alias("intended_us"),
        F.when(ours, stored).alias("crc"),
        F.when(ours, stored == F.crc32(covered)).alias("crc_ok"),
        key_ok.alias("key_ok"),
        F.xxhash64("key").alias("key_hash"),
        F.xxhash64("value").alias("value_hash"),
        F.xxhash64("headers").alias("headers_hash"),
        F.coalesce(F.length(value), F.lit(0)).alias("bytes"),
    )


def _bytes(value: Column, at: slice) -> Column:
    return F.substring(value, at.start + 1, at.stop - at.start)


def _number(value: Column, at: slice) -> Column:
    """A big-endian unsigned number; null where it does not fit, which only a damaged value has."""
    return F.conv(F.hex(_bytes(value, at)), 16, 10).try_cast("bigint")


def _cause(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "Caused by:" in line]
    return one_line(lines[-1].removeprefix("Caused by:") if lines else error, 200)
