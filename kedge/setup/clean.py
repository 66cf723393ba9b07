"""Remove what the project generated: `python3 -m kedge.setup.clean [--downloads]`. Stop the fleet first."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from kedge.setup.paths import GENERATED, PROJECT, VENV, cache_root
from kedge.setup.problem import Problem
from lab.fleet import node_image
from lab.fleet.engine import NoEngine, find_engine

TOOL_CACHES = (".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".ansible")
SPARK = ("spark-warehouse", "metastore_db", "derby.log")
ROOMS = (
    "kedge",
    "spark_checks",
    "verify",
    "plugins",
    "lab",
    "tests",
    "molecule",
)


def generated() -> list[Path]:
    """What a clean clone does not have, but for the runs, which are a person's evidence."""
    named = [
        GENERATED,
        VENV,
        PROJECT / "build",
        PROJECT / "dist",
        PROJECT / "lab" / "services" / "sandbox_rest" / "target",
        PROJECT / "lab" / "services" / "sample_streams" / "target",
    ]
    named += [PROJECT / name for name in (*TOOL_CACHES, *SPARK)]
    compiled = [path for room in ROOMS for path in (PROJECT / room).rglob("__pycache__")]
    return [path for path in [*named, *compiled] if path.exists()]


def downloads() -> list[Path]:
    """What set-up fetched or made outside the project, and the runs."""
    named = [cache_root() / name for name in ("jars", "archives", "images", "toxiproxy", "minio")]
    return [path for path in [*named, PROJECT / "runs"] if path.exists()]


def main(arguments: list[str] | None = None) -> int:
    """Remove the nodes' image and the generated files; with --downloads the caches and the runs too."""
    parser = argparse.ArgumentParser(
        prog="python3 -m kedge.setup.clean", description="Remove generated files."
    )
    parser.add_argument("--downloads", action="store_true", help="remove downloads and runs as well")
    options = parser.parse_args(arguments)
    try:
        node_image.remove_images(find_engine())
    except NoEngine:
        print("no container engine, so no image to remove")
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    for path in [*generated(), *(downloads() if options.downloads else [])]:
        print(f"removing {path}")
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=False)
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
