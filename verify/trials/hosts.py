"""What trials do to hosts: restart an instance, stop those of one host, deploy a variant, and put all back.

Each is a playbook of the kit, run as the person ran this one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kedge.evidence.secrets import PLACE, VARIABLES, SecretsError, from_environment
from kedge.evidence.writing import write_json
from verify.trials.settings import TrialsError, TrialSettings

_RECAP: Final = re.compile(r"changed=(\d+)")
_ROOT: Final = Path(__file__).resolve().parents[2]
#: Files of variables that the kit names by a word.
_ADVICE: Final = {"stock": "stock", "documented": "documented"}
PLANNED: Final = "planned"
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of a name of its own is made in it


class DeployedHosts:
    """The hosts of a run, and what is not as it was before."""

    def __init__(self, settings: TrialSettings, run_dir: Path) -> None:
        self._settings = settings
        # Of its owner alone, in memory where there is such a place, and gone with this process.
        self._own = tempfile.TemporaryDirectory(prefix="kedge-", dir=_MEMORY if _MEMORY.is_dir() else None)
        self._command = _with_variables(settings.command, run_dir.name, Path(self._own.name))
        self._dir = run_dir / "trials"
        self._dir.mkdir(exist_ok=True)
        self._changed = self._dir / "changed.json"

    def restart(self, folder: Path) -> subprocess.Popen[bytes]:
        """Begin the gated restart of one instance; its actions become evidence of the trial."""
        host = self._settings.hosts[0]
        only = {"service": self._settings.service, "instances_due": self._settings.instances[host][:1]}
        argv = ["rolling_restart.yml", "--limit", f"localhost,{host}", "-e", json.dumps(only)]
        with (folder / "restart.log").open("ab") as log:
            return subprocess.Popen(
                [*self._command, *argv],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "KEDGE_RUN_DIR": str(folder)},
                start_new_session=True,
            )

    def restart_all(self) -> None:
        """Restart every instance of the service; raises TrialsError."""
        self._play("rolling_restart.yml", {"service": self._settings.service})

    def away(self, host: str | None) -> bool:
        """Have no instance of the service run on this host, and all of them on the others.

        Returns whether some were started for it, which are cold.
        """
        now = self.changed().get("away")
        if now == host:
            return False
        if now:
            self._host(now, "main")
        self._note(away=None)
        if host:
            self._note(away=host)
            self._host(host, "stop")
        return bool(now)

    def deploy(self, variant: str, folder: Path) -> None:
        """Deploy a variant, write plan and load into a folder; raises TrialsError if it does not start."""
        folder.mkdir(parents=True, exist_ok=True)
        self._note(arm=variant)
        self._play("verify/trials/variant.yml", {"trials_variant_dir": str(folder)}, overlay(variant))

    def deployed(self) -> None:
        """Raise TrialsError where the hosts do not run what the inventory plans, to put back at the end."""
        # What an interrupted run left behind is known, and was what the inventory plans before.
        if self.changed():
            return
        tasks = sum(int(count) for count in _RECAP.findall(self._play("deploy.yml", {}, ["--check"])))
        if tasks:
            raise TrialsError(
                f"the hosts do not run what the inventory plans ({tasks} tasks of deploy.yml would change "
                "something): deploy it first"
            )

    def changed(self) -> dict[str, Any]:
        """Return what is not as before: the host that is away, the variant that is deployed."""
        try:
            return dict(json.loads(self._changed.read_text(encoding="utf-8")))
        except OSError:
            return {}

    def put_back(self) -> None:
        """Have the hosts as they were: every instance runs, with what the inventory plans."""
        self.away(None)
        if self.changed().get("arm"):
            self._play("deploy.yml", {})
        self._changed.unlink(missing_ok=True)

    def _note(self, **what: str | None) -> None:
        # Before it is done: whoever puts things back must not miss what was begun.
        write_json(self._changed, {k: v for k, v in {**self.changed(), **what}.items() if v})

    def _host(self, host: str, tasks: str) -> None:
        only = {"service": self._settings.service, "trials_host": host, "trials_tasks": tasks}
        self._play("verify/trials/host.yml", only)

    def _play(self, playbook: str, variables: Mapping[str, Any], more: list[str] | None = None) -> str:
        argv = [*self._command, playbook, *(more or [])]
        argv += ["-e", json.dumps(variables)] if variables else []
        # Threads of this process never see SIGINT, and the playbook is in a group of its own.
        assert threading.current_thread() is threading.main_thread()
        done = subprocess.run(
            argv,
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            start_new_session=True,
        )
        with (self._dir / "playbooks.log").open("a", encoding="utf-8") as log:
            log.write(f"== {playbook} {json.dumps(variables)}\n{done.stdout}\n")
        if done.returncode:
            raise TrialsError(
                f"{playbook} ended with {done.returncode}: {_why(done.stdout)}; "
                f"see {self._dir / 'playbooks.log'}"
            )
        return done.stdout


def _with_variables(command: Sequence[str], run: str, folder: Path) -> list[str]:
    """Return the command with files of this folder in the places of variables.

    Raises:
        TrialsError: when this call has other variables than the run began with.
    """
    try:
        secrets = from_environment()
    except SecretsError as error:
        raise TrialsError(str(error)) from error
    variables = list(secrets.pop(VARIABLES, {}))
    if variables:  # nobody else who is started from here needs them
        os.environ["KEDGE_SECRETS"] = json.dumps(secrets)
    places = [f"{PLACE}{number}" for number in range(len(variables))]
    if [word for word in command if word.startswith(PLACE)] != places:
        raise TrialsError(
            f"resume={run}: the run began with other variables on the command line; give the same -e again"
        )
    names = {}
    for number, (place, text) in enumerate(zip(places, variables, strict=True)):
        file = folder / f"{number}.json"
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        names[place] = f"@{file}"
    return [names.get(word, word) for word in command]


def overlay(variant: str) -> list[str]:
    """Return what makes a variant of the inventory: words for ansible-playbook. raises TrialsError."""
    name = variant.partition("#")[0]
    if name == PLANNED:
        return []
    if name in _ADVICE:
        return ["-e", f"advice={_ADVICE[name]}"]
    file = Path(name)
    if not file.is_file():
        raise TrialsError(
            f"arms: {name} is no file, nor {PLANNED}, {' or '.join(_ADVICE)}: name a file of variables, from "
            f"{Path.cwd()} or by its whole path"
        )
    return ["-e", f"@{file.resolve()}"]


def _why(said: str) -> str:
    lines = [line.strip() for line in said.partition("PLAY RECAP")[0].splitlines() if line.strip()]
    fatal = [n for n, line in enumerate(lines) if line.startswith(("fatal:", "[ERROR]", "ERROR"))]
    if not fatal:
        return lines[-1][:300] if lines else "it said nothing"
    told = lines[fatal[-1] :]
    # Ansible gives the reason as YAML below the line that says which host failed.
    for number, line in enumerate(told):
        key, _, text = line.partition(":")
        if key == "msg":
            text = text.strip()
            return " ".join(told[number + 1 : number + 4] if text[:1] in ("|", ">") else [text])[:300]
    return told[0][:300]
