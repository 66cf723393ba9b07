"""The agent that shows a JVM's beans to Prometheus, without a JMX port."""

from __future__ import annotations

import re
from typing import Final

from kedge.plan.settings import Choice, Sheet
from kedge.plan.variables import Port, Strict

#: As roles/jar_set/files/jmx-agent-1.0.1.lock has it.
AGENT: Final = "jmx_prometheus_javaagent-1.0.1.jar"
_EXPORTER: Final = "Prometheus JMX exporter, Java agent"
#: The agent among JVM flags: -javaagent:JAR=[ADDRESS:]PORT:FILE.
_FLAG: Final = re.compile(r"-javaagent:[^=\s]+=(?:([^=\s]*?):)?(\d+):/")
#: What a watch samples, by the beginnings of the agent's lines, as 1.0.1 names the beans of clients of 4.3.1.
SAMPLED: Final = (
    'jvm_memory_used_bytes{area="heap"',
    "kafka_producer_producer_metrics_record_error_rate{",
    "kafka_producer_producer_metrics_record_retry_rate{",
    "kafka_consumer_consumer_fetch_manager_metrics_records_lag_max{",
)


def served(flags: str) -> tuple[str, int] | None:
    """Return at which address and port an agent among JVM flags serves, as its own host reaches it."""
    # A plan asks this of every value.
    found = _FLAG.search(flags) if "-javaagent:" in flags else None
    if found is None:
        return None
    address = (found[1] or "").strip("[]")
    # An agent that serves at all addresses, which are written with zeros, serves at this one too.
    return address if address.strip("0.:") else "127.0.0.1", int(found[2])


class Metrics(Strict):
    """Where each instance serves its metrics to Prometheus."""

    first_port: Port
    """Port of the first instance; each further instance has the next port."""
    address: str = "127.0.0.1"
    """Address on which the metrics are served."""


def plan_agent(sheet: Sheet, folder: str, where: str, rule: str, beans: tuple[str, ...], because: str) -> str:
    """Plan the agent's file in a folder that has the software under ``metrics``; return the JVM's flag.

    ``where`` is address and port, ``beans`` are the domains of beans that are exposed, ``because`` of what.
    """
    file = f"{folder}/metrics.yaml"
    listed = ", ".join(f"'{bean}:*'" for bean in (*beans, "java.lang"))
    for key, value, why in (
        ("startDelaySeconds", "0", "the first scrape is answered"),
        ("lowercaseOutputName", "true", "names as Prometheus writes them"),
        ("includeObjectNames", f"[{listed}]", because),
    ):
        sheet.put(file, key, rule, Choice(value, why, _EXPORTER, "derived"))
    return f"-javaagent:{folder}/metrics/{AGENT}={where}:{file}"
