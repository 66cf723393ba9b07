"""Archives are unpacked by a Python without the filter for data too."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from kedge.setup.unpacking import unpack


@pytest.mark.parametrize("filtered", [True, False])
def test_an_archive_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, filtered: bool) -> None:
    if not filtered:
        plain = tarfile.TarFile.extractall
        # As in 3.11.2, extractall takes no filter there.
        monkeypatch.setattr(
            tarfile.TarFile, "extractall", lambda tar, path: plain(tar, path, filter="fully_trusted")
        )
        monkeypatch.delattr(tarfile, "data_filter")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("top/file")
        info.size = 2
        tar.addfile(info, io.BytesIO(b"ok"))
    unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (tmp_path / "out" / "top" / "file").read_bytes() == b"ok"
