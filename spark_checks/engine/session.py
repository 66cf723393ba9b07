"""The Spark session of an audit: in this process on all cores, or wherever it is submitted to."""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module, resources
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, cloudpickle
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kedge.evidence.errors import EvidenceError

#: A collector that saves pauses gains an audit nothing.
_JAVA: Final = ("-XX:+UseParallelGC",)
#: Of some million records an audit is over before Java's second compiler has paid for itself. Without it Java
#: keeps 48 MiB of compiled code, which the queries of some three audits fill.
_QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")

#: Memory of Spark's driver, as Java writes it; for a local master this is all the memory there is.
DRIVER_MEMORY: Final = "2g"

#: What an audit sets where the submitter sets nothing, by spark-submit or spark-defaults.conf.
_DEFAULTS: Final = {
    "spark.app.name": "kedge audit",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # An audit has some 220 pieces of generated code; with the default, 100, another compiles all again.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Of each query Spark keeps a picture of its plan: the default, 1,000, fills the driver of a long session.
    "spark.sql.ui.retainedExecutions": "200",
    # At most: of little data adaptive execution makes fewer, kept or not. A large cluster wants more.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    # Writers flush as they go: a demo leaves hundreds of small files, and a task each would be too many.
    "spark.sql.files.openCostInBytes": str(256 << 10),
    # What is written to S3 waits in memory then: Hadoop keeps it in no local file without checksums.
    "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
    "spark.hadoop.fs.s3a.multipart.size": "16M",
}
#: Without these the figures would be others, whoever sets something else.
_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Sums of hashes are meant to wrap.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Hadoop would keep hidden checksums beside local files, and take a file that another tool wrote
    # again for a damaged one; Parquet's own footers say whether a file is whole.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
#: Holds a file of this package, which may lie in an archive, as long as Java may read it.
_STACK: Final = ExitStack()
atexit.register(_STACK.close)


def start(
    master: str | None = None,
    driver_memory: str | None = None,
    *,
    log: Path | None = None,
    quick: bool = False,
) -> SparkSession:
    """Start a quiet session; what the submitter configured wins over what an audit would set.

    Args:
        master: ``local[*]``, ``local[2]`` or a cluster's address; None: the submitter's, else all cores.
        driver_memory: as Java writes it (``2g``); None: the submitter's, else :data:`DRIVER_MEMORY`. Under
            spark-submit Java runs already, with what spark-submit was told.
        log: the file to which goes what Java and the workers write; None: to stderr. Under spark-submit it is
            spark-submit's.
        quick: whether evidence of some million records at most is expected.

    Raises:
        EvidenceError: when no Java is found or the session does not start.
    """
    asked = {"spark.master": master, "spark.driver.memory": driver_memory}
    always = _ALWAYS | {key: value for key, value in asked.items() if value is not None}
    try:
        if SparkContext._gateway is None:
            _launch(always, log, quick)
        conf = SparkConf().setAll([*always.items()])
        at = conf.get("spark.master", "local[*]") or ""
        for key, value in {**_DEFAULTS, **_of_master(at)}.items():
            conf.setIfMissing(key, value)
        spark = SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:
        raise EvidenceError(
            f"Spark did not start{f' on {master}' if master else ''}: {type(error).__name__}; is Java 17 "
            "installed, the master up?"
        ) from error
    # Errors come as exceptions; the same again as JSON on stderr helps nobody.
    logging.getLogger("DataFrameQueryContextLogger").disabled = True
    return spark


def _of_master(master: str) -> dict[str, str]:
    """Return what a kind of master wants, and have its workers run the right Python."""
    local = master.startswith("local")
    # Spark would take python3 from the PATH, which need not have pyarrow. A cluster's nodes may have theirs
    # at another place than this machine: then PYSPARK_PYTHON says where.
    if local or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    if not local:
        return {}
    wanted = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    # Its ports are open to this machine's other users. Spark makes up the secret; a cluster has its own.
    return wanted if master.startswith("local-") else {**wanted, "spark.authenticate": "true"}


def _launch(always: Mapping[str, str], log: Path | None, quick: bool) -> None:
    """Start Java, or find the one of the spark-submit that started this process."""
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        return
    theirs = configured()
    local = (always.get("spark.master") or theirs.get("spark.master", "local")).startswith("local")
    if local and "PYSPARK_SUBMIT_ARGS" not in os.environ:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging_to = _STACK.enter_context(resources.as_file(resources.files(__package__) / "log4j2.properties"))
    java = [f"-Dlog4j2.configurationFile={logging_to.as_uri()}"]
    # Java refuses two collectors.
    if "spark.driver.extraJavaOptions" not in theirs:
        java += [*_JAVA, *(_QUICK if quick else ())]
    ours = {**_DEFAULTS, "spark.driver.defaultJavaOptions": " ".join(java)}
    # On a command line they would win over spark-defaults.conf.
    ours = {**{key: value for key, value in ours.items() if key not in theirs}, **always}
    conf = SparkConf(loadDefaults=False).setAll([*ours.items()])
    if log is not None:
        log.write_bytes(b"")
    # To its end: whoever broke off adds to it what Java does not know.
    with log.open("ab") if log is not None else nullcontext() as stderr:
        gateway = launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


def configured() -> dict[str, str]:
    """Return what spark-defaults.conf sets."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))  # type: ignore[no-untyped-call]
    file = folder / "spark-defaults.conf"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else ()
    pairs = (re.match(r"\s*([^\s=:#!]+)\s*[=:\s]\s*(.*?)\s*$", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair}


def ship(*modules: str) -> None:
    """Give workers these modules by value: a cluster's nodes need numpy and pyarrow, not this package."""
    for name in modules:
        cloudpickle.register_pickle_by_value(import_module(name))  # type: ignore[no-untyped-call]  # vendored


@contextmanager
def keeping_nothing(spark: SparkSession) -> Iterator[None]:
    """Have Spark drop at the end what it was told to keep meanwhile.

    Spark takes equal plans for one: another audit of files that were written again would be answered from it.
    """
    before = {*spark.sparkContext._jsc.getPersistentRDDs()}
    try:
        yield
    finally:
        spark.catalog.clearCache()
        for number, rdd in dict(spark.sparkContext._jsc.getPersistentRDDs()).items():
            if number not in before:
                rdd.unpersist()


def alive(spark: SparkSession) -> bool:
    """Return whether the session's Java still answers."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return False


def stop(spark: SparkSession) -> None:
    """End a session; one whose Java ended by itself is forgotten, so that the next start makes another."""
    try:
        spark.stop()
    except (Py4JError, OSError):
        # Nothing answers any more, and a start would take up what refers to it.
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
