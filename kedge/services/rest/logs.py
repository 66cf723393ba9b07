"""Rules for what a REST proxy writes down: how much of it is kept, and how it is watched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kedge.plan.metrics import plan_agent
from kedge.plan.settings import Basis, Choice, Sheet
from kedge.plan.variables import basis_of
from kedge.services.rest.distribution import RestProcess
from kedge.services.rest.variables import KafkaRest

_OBSERVED: Final = "REST proxy facts, Observed on running proxies"
_LOG4J: Final = "log4j manual, RollingFileAppender"
_LOG4J2: Final = "log4j 2 manual, Properties configuration, Rolling file appender"
#: The most that a proxy without a broker was seen to write in a minute, in MB.
_FLOOD: Final = 51
_FILES: Final = 10
#: What a unit may write to the journal.
_JOURNAL_S: Final = 30
_JOURNAL_LINES: Final = 2000
_PATTERN: Final = "[%d] %p %m (%c)%n"
#: Classes that list a hundred keys for every consumer that is made.
_WORDY: Final = (
    "org.apache.kafka.common.config.AbstractConfig",
    "org.apache.kafka.clients.consumer.ConsumerConfig",
    "org.apache.kafka.clients.producer.ProducerConfig",
    "org.apache.kafka.clients.admin.AdminClientConfig",
)


def plan_logs(
    sheet: Sheet, environment: str, variable: str, folder: str, logs: str, log_mib: int, *, old: bool
) -> None:
    """Plan where the log goes and that it is bounded by size.

    ``variable`` is what the start script takes log4j's flags from, ``folder`` has the configuration of log4j,
    ``logs`` takes the log, ``log_mib`` bounds it, and ``old`` is for log4j 1.
    """
    file = f"{folder}/{'log4j' if old else 'log4j2'}.properties"
    flag = f"-Dlog4j.configuration=file:{file}" if old else f"-Dlog4j2.configurationFile={file}"
    sheet.put(
        environment,
        variable,
        "rest.logs",
        Choice(
            flag,
            f"a log of its own that is bounded, for log4j {1 if old else 2}",
            _LOG4J if old else _LOG4J2,
            "derived",
        ),
    )
    each = log_mib // _FILES
    because = (
        f"{_FILES} files of {each} MiB are kafka_rest_log_mib, {log_mib}; a proxy without a broker was seen "
        f"to write {_FLOOD} MB in a minute"
    )
    bound = basis_of(KafkaRest, "log_mib", log_mib, "estimate")
    for key, value in _log4j1(logs, each) if old else _log4j2(logs, each):
        # Sizes and numbers of files follow from the bound; the rest is how a bounded log is written down.
        basis: Basis = bound if value.removesuffix("MB").isdecimal() else "derived"
        sheet.put(
            file,
            key,
            "rest.logs",
            Choice(value, because, f"{_OBSERVED}; {_LOG4J if old else _LOG4J2}", basis),
        )


def _log4j1(logs: str, each: int) -> Iterable[tuple[str, str]]:
    yield "log4j.rootLogger", "INFO, stdout, file"
    for name in _WORDY:
        yield f"log4j.logger.{name}", "WARN"
    yield "log4j.appender.stdout", "org.apache.log4j.ConsoleAppender"
    yield "log4j.appender.file", "org.apache.log4j.RollingFileAppender"
    for appender in ("stdout", "file"):
        yield f"log4j.appender.{appender}.layout", "org.apache.log4j.PatternLayout"
        yield f"log4j.appender.{appender}.layout.ConversionPattern", _PATTERN
    yield "log4j.appender.file.File", f"{logs}/kafka-rest.log"
    yield "log4j.appender.file.maxFileSize", f"{each}MB"
    # The one that is written to comes to these.
    yield "log4j.appender.file.maxBackupIndex", str(_FILES - 1)


def _log4j2(logs: str, each: int) -> Iterable[tuple[str, str]]:
    # Every line is flushed as it comes; without a hook of its own the log has the stop too.
    yield "shutdownHook", "disable"
    yield "rootLogger.level", "INFO"
    yield "rootLogger.appenderRef.file.ref", "file"
    yield "rootLogger.appenderRef.stdout.ref", "STDOUT"
    for name in _WORDY:
        own = name.rpartition(".")[2].lower()
        yield f"logger.{own}.name", name
        yield f"logger.{own}.level", "WARN"
    yield "appender.stdout.type", "Console"
    yield "appender.stdout.name", "STDOUT"
    yield "appender.file.type", "RollingFile"
    yield "appender.file.name", "file"
    for appender in ("stdout", "file"):
        yield f"appender.{appender}.layout.type", "PatternLayout"
        yield f"appender.{appender}.layout.pattern", _PATTERN
    yield "appender.file.fileName", f"{logs}/kafka-rest.log"
    yield "appender.file.filePattern", f"{logs}/kafka-rest.log.%i"
    yield "appender.file.policies.type", "Policies"
    yield "appender.file.policies.size.type", "SizeBasedTriggeringPolicy"
    yield "appender.file.policies.size.size", f"{each}MB"
    yield "appender.file.strategy.type", "DefaultRolloverStrategy"
    # The one that is written to comes to these.
    yield "appender.file.strategy.max", str(_FILES - 1)
    yield "appender.file.strategy.fileIndex", "min"


def plan_journal(sheet: Sheet, file: str) -> None:
    """Plan how much of what a proxy prints reaches the journal; ``file`` is of its unit."""
    for key, value in (
        ("LogRateLimitIntervalSec", f"{_JOURNAL_S}s"),
        ("LogRateLimitBurst", str(_JOURNAL_LINES)),
    ):
        sheet.put(
            file,
            key,
            "rest.logs.journal",
            Choice(
                value,
                f"{_JOURNAL_LINES} lines in {_JOURNAL_S} s reach the journal, which all services share: a "
                "start writes a few hundred; a flood goes on in the instance's own log, which is bounded",
                "systemd.exec(5), LogRateLimitIntervalSec=",
                "estimate",
            ),
        )


def plan_flood(sheet: Sheet, file: str, key: str) -> None:
    """Plan that a client whose brokers are all away does not begin anew with every attempt."""
    sheet.put(
        file,
        key,
        "rest.log_flood",
        None,
        Choice(
            "none",
            f"what clients did up to 3.9: with no broker reachable kafka-rest 8.3.1 wrote {_FLOOD} MB of log "
            "in a minute, 7.9.9 80 kB; the client asks the brokers that it knew last, so restart it where "
            "all of them get new addresses together",
            _OBSERVED,
            "measured",
        ),
    )


def metrics_agent(sheet: Sheet, folder: str, process: RestProcess) -> str:
    """Plan what the agent tells Prometheus; return the flag that starts it, empty where none is wanted."""
    metrics = process.variables.metrics
    if metrics is None:
        return ""
    port = metrics.first_port + process.number
    if port == process.port:
        sheet.error(
            "inventory.port",
            f"kafka_rest_metrics.first_port gives the metrics port {port}, which is the instance's own",
            "choose another first_port, such as 9404",
            variable="kafka_rest_metrics.first_port",
        )
    return plan_agent(
        sheet,
        folder,
        f"{metrics.address}:{port}",
        "rest.metrics.agent",
        ("kafka.rest", "kafka.producer", "kafka.consumer"),
        "the proxy's own beans, its clients' and the JVM's",
    )
