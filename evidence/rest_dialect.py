"""What clients of a REST proxy have to know of it: where proxies answer, and are asked, in their own way."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Dialect(BaseModel):
    """How one REST proxy speaks the v2 API; the defaults are those of kafka-rest."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    own_commits: dict[str, str | bool] = {"auto.commit.enable": "false"}
    """What a new consumer says so that its offsets are not committed for it."""
    commit_adds: int = 1
    """What is added to a committed offset: 1 where it names the last record, 0 where the next one to read."""
    max_bytes: bool = True
    """Whether max_bytes of a read ends it early; else a larger one fails and is passed over."""

    def committed(self, read: int) -> int:
        """Return the offset that a consumer commits when ``read`` is the last one that it processed."""
        return read + 1 - self.commit_adds
