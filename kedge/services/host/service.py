"""The records of what belongs to the machine alone: its tuning, and hosts that only make load."""

from __future__ import annotations

from typing import Final

from kedge.plan.service import Kernel, Service
from kedge.plan.settings import Choice
from kedge.services.host.variables import HOST_FACTS, HostTuning

#: The name under which the plan of every host holds its kernel settings, which follow from its services'.
HOST_TUNING: Final = Service(
    name="host_tuning", variables=HostTuning, of_role=HOST_FACTS, everywhere=True, restarted=False
)
LOAD_GENERATOR: Final = Service(
    name="load_generator",
    of_role=("load_generator_python", "load_generator_cache"),
    many_connections=True,
    kinds=("consumer", "producer"),
    kernel=(
        Kernel(
            "* - nofile",
            "host.files",
            Choice(
                40_000,
                "a generator holds one descriptor a connection",
                "Jetty 9.4 documentation, High Load",
                "documented",
            ),
            limit=True,
        ),
    ),
    restarted=False,
)
