"""The agent that shows a JVM's beans to Prometheus, without a JMX port."""

from __future__ import annotations

from typing import Final

from kedge.plan.settings import Choice, Sheet
from kedge.plan.variables import Port, Strict

#: As roles/jar_set/files/jmx-agent-1.0.1.lock has it.
AGENT: Final = "jmx_prometheus_javaagent-1.0.1.jar"
_EXPORTER: Final = "Prometheus JMX exporter, Java agent"


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
