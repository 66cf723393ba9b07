"""``python -m tests.schemas`` writes docs/schemas: the JSON schemas of the documents that other tools read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from kedge.evidence.documents import Plan, Verdicts
from kedge.evidence.release import PLAN_SCHEMA, RUN_SCHEMA, VERDICTS_SCHEMA
from kedge.evidence.run import Run

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "schemas"
#: Each document, its model and the version of its form.
DOCUMENTS: Final[Mapping[str, tuple[type[BaseModel], int]]] = {
    "plan": (Plan, PLAN_SCHEMA),
    "run": (Run, RUN_SCHEMA),
    "verdicts": (Verdicts, VERDICTS_SCHEMA),
}


def schemas() -> dict[str, str]:
    """Return the text of each schema by its file's name."""
    return {
        f"{name}-{version}.schema.json": json.dumps(model.model_json_schema(), indent=1, sort_keys=True)
        + "\n"
        for name, (model, version) in DOCUMENTS.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in schemas().items():
        (FOLDER / file).write_text(text)
