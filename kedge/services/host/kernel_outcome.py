"""What becomes of a planned kernel setting on a host as it is: set, kept, or not to be had, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from kedge.services.host.kernel import effective

#: set: written now; kept: the host has it, or more; the others are not to be had here.
KernelOutcome = Literal["set", "kept", "absent", "read-only", "refused", "machine"]

#: Kernel settings that each network namespace has of its own; all others belong to the whole machine.
_NAMESPACED: Final = "net."
_WHY: Final[Mapping[str, str]] = {
    "absent": "this kernel has no such key here",
    "read-only": "it is read-only here",
    "machine": "it belongs to the machine, and this host is a container",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """What a host shall have of one planned key.

    Attributes:
        key: the sysctl, or the limit's domain and item (``* - nofile``).
        wanted: the planned value.
        value: what the host shall have; what it has where nothing can be done; None where it has none.
        outcome: see :data:`KernelOutcome`.
        why: the reason where the planned value is not to be had; else empty.
    """

    key: str
    wanted: str
    value: str | None
    outcome: KernelOutcome
    why: str = ""

    @property
    def persists(self) -> bool:
        """Whether the value belongs into the file that the host reads when it starts."""
        return self.outcome in ("set", "kept")


def decide(
    key: str,
    wanted: str,
    current: str | None,
    *,
    writable: bool,
    container: bool,
    exact: bool,
    refused: Mapping[str, str],
) -> Decision:
    """Decide about one kernel setting.

    Args:
        key: its sysctl name.
        wanted: the planned value.
        current: what the kernel says now; None where it has no such key.
        writable: whether the kernel lets root write it here.
        container: whether the host shares its kernel with others.
        exact: a person wrote the value, so it is meant as it is; a planned one never lowers what there is.
        refused: values that the kernel refused before, key to ``VALUE: reason``.
    """
    if current is None:
        return Decision(key, wanted, None, "absent", _WHY["absent"])
    now = " ".join(current.split())
    value = " ".join(wanted.split()) if exact else effective(key, current, wanted)
    if value == now:
        return Decision(key, wanted, now, "kept")
    if not writable:
        return Decision(key, wanted, now, "read-only", _WHY["read-only"])
    if container and not key.startswith(_NAMESPACED):
        return Decision(key, wanted, now, "machine", _WHY["machine"])
    before, _, reason = refused.get(key, "").partition(": ")
    if before == value:
        return Decision(key, wanted, now, "refused", f"the kernel refuses {value}: {reason}")
    return Decision(key, wanted, value, "set")


def decide_limit(
    key: str, wanted: int, now: tuple[int, int], ceiling: int
) -> tuple[Decision, tuple[int, int]]:
    """Decide about the limit of a login, and return it with its soft and hard value.

    Args:
        key: domain and item, such as ``* - nofile``.
        wanted: the planned value, of both.
        now: what a login has, soft and hard; neither is lowered.
        ceiling: the most that the host lets root give. More of it in the file would refuse every login.
    """
    soft, hard = (min(max(wanted, each), ceiling) for each in now)
    shown = str(soft) if soft == hard else f"{soft} {hard}"
    if soft < wanted:
        why = f"this host gives no process more than {ceiling}"
        return Decision(key, str(wanted), shown, "refused", why), (soft, hard)
    outcome: KernelOutcome = "kept" if (soft, hard) == now else "set"
    return Decision(key, str(wanted), shown, outcome), (soft, hard)
