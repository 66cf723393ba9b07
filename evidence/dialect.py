"""What clients of a REST proxy have to know of it: where proxies answer, and are asked, in their own way."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Dialect(BaseModel):
    """How one REST proxy speaks the v2 API; the defaults are those of kafka-rest.

    Attributes:
        own_commits: what a new consumer says so that its offsets are not committed for it.
        unknown_topic: the error code of an answer about a topic that is not there.
        unknown_consumer: the error code of an answer about a consumer that is not, or no longer, there.
        wrong_content: the error code of an answer to a body of a kind that the proxy does not take.
        entry_errors: whether an entry of a produce answer has ``error_code`` also where all went well.
        brokers: whether there is ``/brokers``.
        commit_adds: what the proxy adds to an offset that a consumer commits: 1 where it names the last
            record processed, 0 where it names the next one to read.
        max_bytes: whether ``max_bytes`` of a read ends it early; else a read that is larger fails, and what
            it had fetched is passed over.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    own_commits: dict[str, str | bool] = {"auto.commit.enable": "false"}
    unknown_topic: int = 40403
    unknown_consumer: int = 40403
    wrong_content: int = 415
    entry_errors: bool = True
    brokers: bool = True
    commit_adds: int = 1
    max_bytes: bool = True

    def committed(self, read: int) -> int:
        """Return the offset that a consumer commits when ``read`` is the last one that it processed."""
        return read + 1 - self.commit_adds
