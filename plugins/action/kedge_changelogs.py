"""Reads the changelogs of a Streams application back from its cluster and says what is wrong with them."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from confluent_kafka import KafkaException

from kedge.deploy.kafka_admin import admin, with_next_step
from kedge.deploy.read_changelogs import read_changelogs
from kedge.services.streams.changelogs import Needs, check_changelogs

UNTOUCHED = "This check stopped no instance."


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_changelogs.py."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"bootstrap_servers", "client", "secrets", "application", "applications"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read and judge; nothing is changed."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = self._task.args
        name, apps = arguments["application"], arguments["applications"]
        needed = Needs(**apps[name]["changelogs"])
        try:
            client = admin(arguments["bootstrap_servers"], _client(arguments))
            found = read_changelogs(client, name, apps)
        except ConnectionError as error:
            return result | {"failed": True, "msg": with_next_step(error, UNTOUCHED)}
        except KafkaException as error:
            failed = ConnectionError(f"the changelogs of {name}: {error.args[0].str()}")
            return result | {"failed": True, "msg": with_next_step(failed, UNTOUCHED)}
        findings = check_changelogs(name, needed, found)
        said = {
            severity: [f"{f.message}; {f.fix}" for f in findings if f.severity == severity]
            for severity in ("error", "warning")
        }
        result |= {
            "changed": False,
            "changelogs": [each.topic for each in found],
            "warnings": said["warning"],
        }
        if not said["error"]:
            return result
        wrong = "\n".join(said["error"])
        msg = f"Refusing to deploy {name}: {wrong}. {UNTOUCHED} Fix that, then run the playbook again"
        return result | {"failed": True, "msg": msg}


def _client(arguments: dict[str, Any]) -> dict[str, Any]:
    return {**arguments.get("client", {}), **arguments.get("secrets", {})}
