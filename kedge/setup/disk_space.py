"""Whether file systems have the space that set-up and a fleet need."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from kedge.setup.problem import Problem


def check_space(needs: Iterable[tuple[Path, int, str]]) -> None:
    """Raise Problem where a file system lacks room; each need is a folder, megabytes, and what for."""
    by_device: dict[int, tuple[Path, int, list[str]]] = {}
    for folder, megabytes, purpose in needs:
        if not megabytes:
            continue
        existing = next(path for path in [folder, *folder.parents] if path.exists())
        first, total, purposes = by_device.get(existing.stat().st_dev, (existing, 0, []))
        by_device[existing.stat().st_dev] = (first, total + megabytes, [*purposes, purpose])
    for folder, megabytes, purposes in by_device.values():
        free = shutil.disk_usage(folder).free // 1_000_000
        if free < megabytes:
            raise Problem(
                f"no space on the file system of {folder}: {megabytes} MB are needed "
                f"({', '.join(dict.fromkeys(purposes))}), {free} MB are free"
            )
