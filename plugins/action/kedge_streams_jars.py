"""Builds and packs the jars of a Streams application on the control machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from kedge.deploy.locked_jars import JarError
from kedge.deploy.streams_jars import Wish, application_jars, build_kit, pack_application


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_streams_jars.py."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset(
        {"name", "version", "main_class", "jars", "lock", "instance", "java_release", "cache"}
    )

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Build what is missing; a failure is one line."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = self._task.args
        cache = Path(arguments["cache"]).expanduser()
        write = not self._task.check_mode
        try:
            lock = Path(arguments["lock"]).expanduser() if arguments.get("lock") else None
            jars = application_jars(arguments["jars"], lock, cache, fetch=write)
            settings = [
                s for s in arguments["instance"]["settings"] if s["file"].endswith("/rocksdb.properties")
            ]
            wish = Wish(
                name=arguments["name"],
                version=str(arguments["version"]),
                main_class=arguments["main_class"],
                jars=jars,
                rocksdb=settings,
                release=int(arguments["java_release"]),
            )
            app = pack_application(jars, cache, write=write)
            kit = build_kit(wish, cache, write=write)
        except JarError as error:
            msg = f"{error}. The application's hosts were not touched. Fix that, then run the playbook again"
            return result | {"failed": True, "msg": msg}
        return result | {
            "changed": False,
            "app": {"home": f"/opt/kedge/streams-app-{app.key}", "tarball": str(app.tarball)},
            "kit": {"home": f"/opt/kedge/streams-kit-{kit.key}", "tarball": str(kit.tarball)},
        }
