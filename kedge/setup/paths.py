"""Where things are: the project, the downloads that outlive it, and what it generates."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LOCKS = PROJECT / "roles" / "jar_set" / "files"
VENV = PROJECT / ".venv"
GENERATED = PROJECT / ".cache"


def cache_root() -> Path:
    """Downloads and images that may outlive the project: KEDGE_CACHE, or ~/.cache/kedge."""
    named = os.environ.get("KEDGE_CACHE")
    return Path(named).expanduser().resolve() if named else Path.home() / ".cache" / "kedge"


def jar_folder(name: str) -> Path:
    """The flat folder of the jar set `name`."""
    return cache_root() / "jars" / name


def archive_folder() -> Path:
    """Where jar sets lie packed for the nodes."""
    return cache_root() / "archives"
