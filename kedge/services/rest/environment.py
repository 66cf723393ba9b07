"""Findings about environment variables of a REST proxy: those that no start script reads, and a fatal one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kedge.evidence.nearest import nearest
from kedge.plan.settings import Sheet
from kedge.services.rest.distributions import DISTRIBUTIONS

#: Kubernetes gives it to each container beside a Service of the name kafka-rest, with tcp://ADDRESS:PORT.
_IMAGE_PORT: Final = "KAFKA_REST_PORT"


def check_environment(sheet: Sheet, own: Mapping[str, Any], variables: Iterable[str]) -> None:
    """Find environment variables that look like one of the start scripts' and are none of them."""
    read = {name for each in DISTRIBUTIONS.values() for name in each.variables()}
    for name in sorted(key for key in own if key.isupper()):
        if name == _IMAGE_PORT:
            _check_image_port(sheet, str(own[name]))
        if name in read or name == _IMAGE_PORT:
            continue
        near = next((one for one in variables if name.endswith(f"_{one}")), None) or nearest(name, read, 0.75)
        if near or name.startswith("KAFKAREST_"):
            sheet.warning(
                "rest.keys",
                f"no start script of a REST proxy reads {name}",
                f"did you mean {near}?" if near else f"take {name}{sheet.out}",
                name,
            )


def _check_image_port(sheet: Sheet, value: str) -> None:
    linked = value.startswith("tcp:")
    sheet.error(
        "rest.listeners",
        (
            f"a Service named kafka-rest puts {_IMAGE_PORT} into the container"
            if linked
            else f"{_IMAGE_PORT} is set"
        )
        + ": the image takes it for its old key port, and ends at its start",
        "set enableServiceLinks: false for the pod, or give the Service another name"
        if linked
        else f"take {_IMAGE_PORT} out: KAFKA_REST_LISTENERS has the port",
        _IMAGE_PORT,
    )
