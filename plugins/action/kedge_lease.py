"""Takes leases for the run of a playbook, and keeps them as long as its process lives."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, NoReturn

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.executor.task_queue_manager import TaskQueueManager
from ansible.playbook.play import Play
from ansible.plugins.action import ActionBase
from ansible.utils import display

from kedge.deploy.playbook_run import current, ended, run_id

RENEW_SECONDS = 240
POLL_SECONDS = 0.5


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_lease.py."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the module, and again where the run in its way is one of this machine that has ended."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments, run = dict(self._task.args), current()
        if not run:
            raise AnsibleActionFail(
                "a lease is for the run of a playbook. Nothing was changed. Run a playbook"
            )
        if arguments.get("state") == "kept":
            # A playbook that another one runs has part in the other's leases.
            if not self._play_context.check_mode and run_id(os.getppid()) == run["id"] and os.fork() == 0:
                self._keep(arguments, (task_vars or {})["hostvars"])
            return result
        arguments["run"] = run
        arguments["services"] = [str(one).format(run=run["id"]) for one in arguments.get("services", ())]
        answer = self._execute_module("kedge_lease", module_args=arguments, task_vars=task_vars)
        if over := [each for each in answer.get("runs", ()) if ended(str(each))]:
            arguments["ended"] = over
            answer = self._execute_module("kedge_lease", module_args=arguments, task_vars=task_vars)
        answer.pop("runs", None)
        result.update(answer)
        return result

    def _keep(self, arguments: dict[str, Any], hostvars: Any) -> NoReturn:
        """Renew the leases until the run has ended, then give them back; a process of its own, which ends.

        It has what the playbook has: its inventory, its secrets, the passwords that were typed.
        """
        try:
            os.setsid()
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            # A pipe that stays open keeps whoever started the playbook waiting.
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            display.Display()._final_q = None
            display.logger = None
            hostvars._inventory.remove_restriction()
            hostvars._inventory.subset(None)
            due = time.monotonic() + RENEW_SECONDS
            while not ended(current()["id"]):
                if time.monotonic() > due:
                    with contextlib.suppress(Exception):  # it is tried again before the leases end
                        self._play(arguments | {"state": "renewed"}, hostvars)
                    due = time.monotonic() + RENEW_SECONDS
                # No child of this process: it is asked whether it lives, for nothing says when it ends.
                time.sleep(POLL_SECONDS)
            self._play(arguments | {"state": "returned"}, hostvars)
        finally:
            os._exit(0)

    def _play(self, arguments: dict[str, Any], hostvars: Any) -> None:
        passwords = {"conn_pass": self._play_context.password, "become_pass": self._play_context.become_pass}
        variables, loader = hostvars._variable_manager, self._loader
        # As what prints: that plugin prints nothing of a play.
        queue = TaskQueueManager(
            hostvars._inventory,
            variables,
            loader,
            passwords,
            "kedge_inventory",
            False,
            forks=context.CLIARGS["forks"],
        )
        task = {"kedge_lease": arguments, "tags": ["always"]}  # the run may have been asked for some tags
        about = {"hosts": arguments["hosts"], "gather_facts": False, "tasks": [task]}
        try:
            queue.run(Play.load(about, variable_manager=variables, loader=loader))
        finally:
            queue.cleanup()
