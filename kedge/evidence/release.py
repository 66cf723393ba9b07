"""Which release of Kedge this is, and the versions of the documents that others read."""

from __future__ import annotations

from typing import Final

#: Semantic, as PEP 440 writes it; "dev" until it is released. What it promises to keep is listed in docs/releases.md.
VERSION: Final = "0.2.0.dev0"
#: Of the plan as JSON. Fields are added within a version; one that goes or changes its meaning raises it.
PLAN_SCHEMA: Final = 1
#: Of run.json, likewise; evidence from before it was recorded has none, and is read as version 1.
RUN_SCHEMA: Final = 1
#: Of verdicts.json, likewise.
VERDICTS_SCHEMA: Final = 1
