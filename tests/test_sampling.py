"""What is drawn of the tests that take long."""

from __future__ import annotations

from tests.sampling import drawn

NAMES = [f"test_{number}" for number in range(400)]


def test_one_tree_draws_the_same_tests_each_time() -> None:
    """A failure is seen again, and about as many are drawn as was said."""
    assert drawn(NAMES, 4, "a") == drawn(NAMES, 4, "a") != drawn(NAMES, 4, "b")
    assert 60 < len(drawn(NAMES, 4, "a")) < 140
    assert drawn(NAMES, 1, "a") == NAMES


def test_over_time_every_test_is_drawn() -> None:
    """As the tree changes."""
    assert {name for tree in range(60) for name in drawn(NAMES, 4, str(tree))} == set(NAMES)
