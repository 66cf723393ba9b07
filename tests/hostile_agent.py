"""A host that makes load, as it may be when somebody else owns it: a shell that answers as an agent does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kedge.deploy.generator_bundle import code
from kedge.evidence.load_options import LoadSpec
from verify.load.board import WIDTH, Board
from verify.load.generator_hosts import Generator

NAME = "kafka-producer-0"
KAFKA = {"topic": "t", "records_per_s": 100, "producers": 2, "consumers": 2, "group": "g"}
OVER = {"cells": {}, "said": {}, "ended": {NAME: 0}, "over": True}
ROW = [0] * WIDTH


def load(**more: Any) -> LoadSpec:
    given = {"run_id": "r", "cluster": "leaf", "bootstrap_servers": "x:1", "kafka": KAFKA}
    return LoadSpec.model_validate({**given, **more})


def line(document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


def file(name: str, content: bytes = b"") -> bytes:
    return line({"file": name, "bytes": len(content)}) + content


def answering(name: str, times: int = 15) -> str:
    answer = json.dumps({"clock": 1, "code": name})
    return f"for n in $(seq {times}); do read line; echo '{answer}'; done"


class Agents:
    """Generators whose agent is a line of shell, each in its own run's folder."""

    def __init__(self, folder: Path) -> None:
        (folder / "logs").mkdir()
        self.folder = folder
        self.board = Board(folder, [NAME], create=True)

    def begun(self, said: str) -> Generator:
        generator = Generator("load1", ["sh", "-c", said], load(), [NAME], self.folder)
        generator.begin({}, self.board)
        return generator

    def sending(self, content: bytes) -> Generator:
        """Return one that answers in order, and then sends these bytes."""
        sent = self.folder.parent / f"{self.folder.name}.sent"
        sent.write_bytes(content)
        return self.begun(f"{answering(code())}; cat {sent}")

    def log(self) -> str:
        return (self.folder / "logs" / f"{NAME}.log").read_text()
