"""What clients of a REST proxy have to know of it: where proxies answer, and are asked, in their own way."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Dialect(BaseModel):
    """How one REST proxy speaks the v2 API; the defaults are those of kafka-rest."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    own_commits: dict[str, str | bool] = {"auto.commit.enable": "false"}
    """What a new consumer sends to turn auto commit off."""
    commit_adds: int = 1
    """1 if the offset of a commit is that of the last record, 0 if that of the next one to read."""
    max_bytes: bool = True
    """Whether max_bytes limits a read. If false, a larger answer fails, and its records are skipped."""

    def committed(self, read: int) -> int:
        """Return the offset that a consumer commits when ``read`` is the last one that it processed."""
        return read + 1 - self.commit_adds
