"""A broker with the files that the plan has for it, which is the host leaf1 of the cluster leaf."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kedge.deploy.rendering import render_instance, secrets_of
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.secrets import seal
from kedge.services.planning import make_plan
from lab.services.brokers import end_process
from plugins.modules.kedge_release import filled


@contextmanager
def planned_broker(
    inventory: Inventory, folder: Path, jars: Path, controller: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Format its storage and start it; its files and its log (``broker.log``) lie in a folder."""
    _write(inventory, folder, jars, controller)
    formatted = subprocess.run(
        ["java", f"@{folder / 'format.args'}"], capture_output=True, text=True, check=False
    )
    assert formatted.returncode == 0, formatted.stdout + formatted.stderr
    java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-cp", f"{jars}/*", "kafka.Kafka"]
    with (folder / "broker.log").open("wb") as output:
        broker = subprocess.Popen([*java, str(folder / "server.properties")], stdout=output, stderr=output)
    try:
        yield broker
    finally:
        end_process(broker)


def _write(inventory: Inventory, folder: Path, jars: Path, controller: int) -> None:
    """Write the planned files as a host has them, but for their places and the controllers' port."""
    plan = make_plan(inventory)
    assert [f.message for f in plan.findings if f.severity == "error"] == []
    document, values = seal(plan.to_json())
    (instance,) = document["hosts"]["leaf1"]["services"]["kafka_broker"]["instances"]
    files = render_instance("kafka-broker", instance)
    secrets = secrets_of("kafka-broker", instance, values, lambda path: Path(path).read_text())
    for path, text in filled({"files": files}, secrets)["files"].items():
        for before, after in (
            ("/etc/kafka-broker/leaf", str(folder)),
            ("/var/lib/kafka-broker/leaf", str(folder)),
            (":9093", f":{controller}"),
        ):
            text = text.replace(before, after)  # noqa: PLW2901 - one after the other
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    (folder / "dist").symlink_to(jars)
