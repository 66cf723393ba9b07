"""What is compared: default clients, the profiles of the plan, and single settings of a consumer."""

from __future__ import annotations

from typing import Final, get_args

from kedge.services.clients.planner import profile
from kedge.services.clients.profiles import Profile, Role
from kedge.services.clients.variables import ClientProfile
from lab.services.brokers import KAFKA_VERSION

Config = dict[str, str]
STOCK: Final = "defaults"
#: A consumer's settings one at a time, each below and above its default where that makes sense.
_SINGLE: Final = (
    {"fetch.min.bytes": "100000"},
    {"fetch.min.bytes": "100000", "fetch.max.wait.ms": "100"},
    {"max.partition.fetch.bytes": "65536"},
    {"max.partition.fetch.bytes": "8388608"},
    {"max.poll.records": "10"},
    {"max.poll.records": "50"},
    {"max.poll.records": "10000"},
)
POLL: Final = "max.poll.records"


def producers(partitions: int) -> dict[str, Config]:
    """Return the producer cases: defaults, and each profile for so many partitions."""
    return {STOCK: {}, **{name: of_profile(name, "producer", partitions) for name in get_args(Profile)}}


def consumers(partitions: int) -> dict[str, Config]:
    """Return the consumer cases: defaults, each profile, and single settings; identical ones once."""
    cases: dict[str, Config] = {STOCK: {}}
    for name in get_args(Profile):
        config = of_profile(name, "consumer", partitions)
        if config not in cases.values():
            cases[name] = config
    return cases | {" ".join(f"{k}={v}" for k, v in single.items()): single for single in _SINGLE}


def polls() -> dict[str, Config]:
    """Return defaults and each other value of max.poll.records."""
    return {STOCK: {}, **{f"{POLL}={one[POLL]}": one for one in _SINGLE if POLL in one}}


def losses(partitions: int) -> dict[str, Config]:
    """Return producers that differ by acks alone, and by the idempotence that follows from it."""
    base = of_profile("throughput", "producer", partitions)
    return {
        f"acks={acks}": {**base, "acks": acks, "enable.idempotence": str(acks == "all").lower()}
        for acks in ("0", "1", "all")
    }


def of_profile(name: str, role: Role, partitions: int) -> Config:
    """Return a profile's keys and values for the Java client of the bench."""
    client = ClientProfile.model_validate(
        {"name": "bench", "cluster": "bench", "library": "java", "version": KAFKA_VERSION, "profile": name}
    )
    return {setting.key: setting.value for setting in profile(client, role, partitions)}
