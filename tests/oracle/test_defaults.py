"""What the catalogues say of a key, its default and its purpose, is what Kafka's own classes define."""

from __future__ import annotations

import html
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from kedge.keys.catalogue import Component, defaults, known_keys, purposes
from kedge.setup.paths import jar_folder

_PROGRAM: Final = Path(__file__).with_name("Defaults.java")
#: Whose words ``purposes.txt`` has.
_NEWEST: Final = "4.3.1"
_MIRROR: Final = "org.apache.kafka.connect.mirror."
_CLASSES: Final[dict[Component, tuple[str, ...]]] = {
    "admin": ("org.apache.kafka.clients.admin.AdminClientConfig",),
    "consumer": ("org.apache.kafka.clients.consumer.ConsumerConfig",),
    "producer": ("org.apache.kafka.clients.producer.ProducerConfig",),
    "connect": ("org.apache.kafka.connect.runtime.distributed.DistributedConfig",),
    "streams": ("org.apache.kafka.streams.StreamsConfig",),
    "mm2": tuple(
        _MIRROR + name
        for name in (
            "MirrorSourceConfig",
            "MirrorCheckpointConfig",
            "MirrorHeartbeatConfig",
            "MirrorClientConfig",
            "MirrorMakerConfig",
            "DefaultTopicFilter$TopicFilterConfig",
            "DefaultGroupFilter$GroupFilterConfig",
            "DefaultConfigPropertyFilter$ConfigPropertyFilterConfig",
        )
    ),
}


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("version", ["3.9.2", _NEWEST])
@pytest.mark.parametrize("component", _CLASSES)
def test_a_default_of_the_catalogue_is_the_one_that_the_component_defines(
    component: Component, version: str
) -> None:
    jars = jar_folder(f"kafka-{'streams-' * (component == 'streams')}{version}") / "*"
    command = ["java", "-cp", str(jars), str(_PROGRAM), *_CLASSES[component]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # Classes of one component may define a key twice, and only one of them with a default.
    defined: dict[str, set[str]] = {}
    documented: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        said, _, purpose = line.partition("\t")
        key, _, default = said.partition(" ")
        documented.setdefault(key, set()).add(_letters(html.unescape(re.sub(r"<[^>]+>", "", purpose))))
        defined.setdefault(key, set()).update({default} if default else ())
    catalogue = defaults(component, version)
    keys = known_keys(component, version)
    # MirrorMaker 2 has the REST server of Connect, whose keys stand with those of its workers.
    assert set(defined) - keys - (known_keys("connect", version) if component == "mm2" else set()) == set()
    wrong = {
        key: (catalogue.get(key), sorted(defined.get(key, ())))
        for key in sorted(keys)
        if catalogue.get(key, "") not in (defined.get(key) or {""})
    }
    assert wrong == {}
    if version == _NEWEST:
        told = {key: text for key in defined for text, of in purposes(key).items() if component in of}
        assert len(told) > len(defined) / 2
        assert [key for key, text in told.items()
                if not any(one.startswith(_letters(text)) for one in documented[key])] == []  # fmt: skip


def _letters(text: str) -> str:
    """Return a text without spaces, and without what ends it where it is cut."""
    return re.sub(r"[^a-z0-9]", "", text.lower())
