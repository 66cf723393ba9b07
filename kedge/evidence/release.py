"""Which release of Kedge this is, and the versions of the documents that others read."""

from __future__ import annotations

from typing import Final

#: As PEP 440 writes it; "dev" until it is released. docs/releases.md lists what it promises to keep.
VERSION: Final = "0.3.0.dev0"
#: Of the plan as JSON. Fields are added within a version; one that goes or changes its meaning raises it.
PLAN_SCHEMA: Final = 1
#: Of run.json, likewise; evidence from before it was recorded has none, and is read as version 1.
RUN_SCHEMA: Final = 1
#: Of verdicts.json, likewise.
VERDICTS_SCHEMA: Final = 1
