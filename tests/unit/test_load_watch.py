"""Ownership as samples of a group tell it."""

from __future__ import annotations

from verify.watch.ownership import GroupSample, Owners, OwnershipChange, changes, owners_after, owners_from

P0, P1, P2 = ("t", 0), ("t", 1), ("t", 2)


def stable(**members: list[tuple[str, int]]) -> GroupSample:
    return GroupSample("Stable", "range", False, {name: frozenset(owned) for name, owned in members.items()})


def rebalancing(*members: str, state: str = "PreparingRebalance") -> GroupSample:
    return GroupSample(state, "", False, {name: frozenset() for name in members})


def test_first_stable_sample_assigns() -> None:
    owners = owners_after({}, "", stable(a=[P0], b=[P1]))
    assert changes({}, owners) == [
        OwnershipChange("a", *P0, "assigned"),
        OwnershipChange("b", *P1, "assigned"),
    ]


def test_partition_that_moves_is_revoked_from_one_and_assigned_to_the_other() -> None:
    before: Owners = {P0: "a", P1: "a"}
    after = owners_after(before, "range", stable(a=[P0], b=[P1]))
    assert changes(before, after) == [
        OwnershipChange("a", *P1, "revoked"),
        OwnershipChange("b", *P1, "assigned"),
    ]


def test_nothing_changes_between_equal_samples() -> None:
    assert changes({P0: "a"}, owners_after({P0: "a"}, "range", stable(a=[P0]))) == []


def test_eager_rebalance_takes_everything_away() -> None:
    before: Owners = {P0: "a", P1: "b"}
    after = owners_after(before, "range", rebalancing("a", "b"))
    assert changes(before, after) == [
        OwnershipChange("a", *P0, "revoked"),
        OwnershipChange("b", *P1, "revoked"),
    ]


def test_cooperative_rebalance_takes_away_what_a_member_that_left_had() -> None:
    before: Owners = {P0: "a", P1: "b"}
    for state in ("PreparingRebalance", "CompletingRebalance"):
        after = owners_after(before, "cooperative-sticky", rebalancing("a", state=state))
        assert changes(before, after) == [OwnershipChange("b", *P1, "revoked")]


def test_member_of_the_new_protocol_tells_what_it_owns_in_every_state() -> None:
    before: Owners = {P0: "a", P1: "a"}
    sample = GroupSample("Unknown", "uniform", True, {"a": frozenset([P0]), "b": frozenset()})
    assert changes(before, owners_after(before, "uniform", sample)) == [OwnershipChange("a", *P1, "revoked")]


def test_group_that_is_empty_or_dead_owns_nothing() -> None:
    for state in ("Empty", "Dead"):
        assert owners_after({P0: "a"}, "range", GroupSample(state, "", False, {})) == {}


def test_state_that_has_no_name_says_nothing_about_a_classic_group() -> None:
    assert owners_after({P2: "a"}, "range", GroupSample("Unknown", "", False, {})) == {P2: "a"}


def test_owners_are_those_after_the_changes_so_far() -> None:
    so_far = [
        OwnershipChange("a", *P0, "assigned"),
        OwnershipChange("a", *P1, "assigned"),
        OwnershipChange("a", *P1, "revoked"),
        OwnershipChange("b", *P1, "assigned"),
        OwnershipChange("a", *P1, "revoked"),
        OwnershipChange("a", *P0, "revoked"),
    ]
    assert owners_from(so_far) == {P1: "b"}
