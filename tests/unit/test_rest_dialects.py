"""The records of the distributions say of their dialects what the contract holds vendors' proxies to."""

from __future__ import annotations

import pytest

from sizing.rest.distributions import DISTRIBUTIONS
from tests.contract.dialects import DIALECTS


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_record_speaks_the_dialect_that_the_contract_found(name: str) -> None:
    said, found = DISTRIBUTIONS[name].dialect, DIALECTS[name]
    assert said.own_commits == found.own_commits
    assert said.unknown_topic == found.unknown_topic[1]
    assert said.unknown_consumer == found.unknown_instance[1]
    assert said.wrong_content == found.other_type
    assert said.entry_errors == found.full_entries
    assert said.brokers == found.shows_cluster
    assert said.commit_adds == found.commit_adds
    assert said.max_bytes == found.max_bytes_ends_reads
