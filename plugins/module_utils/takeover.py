"""An instance's takeover from its predecessor: somebody else's process, which serves again where it fails."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible.module_utils import atomic_files, predecessor
from ansible.module_utils.probes import systemctl
from ansible.module_utils.rest_members import delete_members
from ansible.module_utils.service_control import now_us

POLL_SECONDS = 0.1
#: What stands for a former release where an instance took over from a predecessor.
PREDECESSOR = "predecessor"
#: What is noted of a predecessor that answered the probe before it was stopped, and has to answer it again.
ANSWERED = "answered"


class Takeover:
    """What is done to the predecessor of an instance (``unit``) before and after the instance starts."""

    def __init__(self, unit: Any, adopted: Mapping[str, Any]) -> None:
        self.unit = unit
        self.adopted = adopted
        # There from before the predecessor stops until one of the two serves: also after a kill in between.
        self.marker = unit.home / PREDECESSOR

    def due(self) -> bool:
        """Return whether the predecessor serves."""
        return bool(predecessor.serves(self.adopted))

    def begun(self) -> bool:
        """Return whether it was stopped, and neither of the two is known to serve."""
        return bool(self.marker.exists())

    def undo(self) -> str | None:
        """Have the predecessor serve in place of the stopped instance; return what went wrong, if any."""
        said = self.give_back()
        if self.begun():
            return said
        if (done := predecessor.enable(self.adopted)) and done.returncode:
            return f"{said}, and cannot be enabled: {done.stderr.strip()}"
        return None

    def stop(self) -> str | None:
        """Stop the process that this instance takes over from; return what went wrong, if anything."""
        atomic_files.write(self.marker, "" if self.unit.asked() else ANSWERED)
        if self.unit.module.params["members"]:
            delete_members(self.unit.probe, self.unit.module.params["members"])
        began, deadline = now_us(), time.monotonic() + self.unit.module.params["ready_seconds"]
        done = predecessor.stop(self.adopted)
        while (serves := self.due()) and not done.returncode and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self.unit.act("stop", began, not (serves or done.returncode))
        if not serves and not done.returncode:
            return None
        why = done.stderr.strip() or f"it still holds port {self.adopted['port']}"
        return f"{predecessor.name_of(self.adopted)}, from which it takes over, cannot be stopped: {why}"

    def give_back(self) -> str:
        """Have the predecessor serve again, as if nothing had been taken over; return what came of it."""
        name, port = predecessor.name_of(self.adopted), self.adopted["port"]
        answered = self.marker.read_text() == ANSWERED
        systemctl("disable", self.unit.unit)
        self.unit.link.unlink(missing_ok=True)
        began, deadline = now_us(), time.monotonic() + self.unit.module.params["ready_seconds"]
        done = predecessor.start(self.adopted)
        self.unit.act("start", began, done.returncode == 0)
        wrong: str | None = done.stderr.strip() or "its start failed"
        while not done.returncode:
            wrong = "it does not hold the port"
            if self.due():
                wrong = self.unit.asked() if answered else None
            if wrong is None or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        self.unit.act("ready", began, wrong is None)
        if wrong:
            return (
                f"{name} was started again and does not serve on port {port}: {wrong}. Nobody serves there: "
                f"start it by hand on this host (`{predecessor.by_hand(self.adopted)}`)"
            )
        self.marker.unlink()
        return f"{name} runs and serves on port {port} as before"

    def end(self) -> None:
        """Keep the predecessor from starting with the host, now that this instance does its job."""
        done = predecessor.disable(self.adopted)
        if done and done.returncode:
            self.unit.module.warn(
                f"{predecessor.name_of(self.adopted)} was taken over and cannot be disabled: "
                f"{done.stderr.strip()}. See that nothing starts it with the host"
            )
        self.marker.unlink()
