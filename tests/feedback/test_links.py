import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.arrays import Ints
from nasheval.feedback.links import BRIDGED, SEEN, UNKNOWN, components, only_a_ladder, pair_status


def votes_of(n_agents: int, *pairs: tuple[int, int]) -> Ints:
    votes = np.zeros((n_agents, n_agents), np.int64)
    for j, k in pairs:
        votes[j, k] = votes[k, j] = 3
    return votes


@st.composite
def graphs(draw: st.DrawFn) -> Ints:
    n_agents = draw(st.integers(1, 7))
    pairs = [(j, k) for j in range(n_agents) for k in range(j + 1, n_agents)]
    return votes_of(n_agents, *(draw(st.sets(st.sampled_from(pairs))) if pairs else ()))


def test_the_pairs_of_a_star_are_bridged_and_those_of_another_component_unknown() -> None:
    status = pair_status(votes_of(5, (0, 1), (0, 2), (3, 4)))
    assert status.dtype == np.int8
    expected = [
        [SEEN, SEEN, SEEN, UNKNOWN, UNKNOWN],
        [SEEN, SEEN, BRIDGED, UNKNOWN, UNKNOWN],
        [SEEN, BRIDGED, SEEN, UNKNOWN, UNKNOWN],
        [UNKNOWN, UNKNOWN, UNKNOWN, SEEN, SEEN],
        [UNKNOWN, UNKNOWN, UNKNOWN, SEEN, SEEN],
    ]
    assert status.tolist() == expected


@given(graphs())
def test_status_agrees_with_paths_found_by_hand(votes: Ints) -> None:
    status, n_agents = pair_status(votes), len(votes)
    reach = (votes > 0) | np.eye(n_agents, dtype=bool)
    for middle in range(n_agents):  # Warshall's closure
        reach |= reach[:, [middle]] & reach[[middle], :]
    for j in range(n_agents):
        for k in range(n_agents):
            expected = SEEN if j == k or votes[j, k] else BRIDGED if reach[j, k] else UNKNOWN
            assert status[j, k] == expected


@given(graphs())
def test_a_ladder_is_a_graph_in_which_leaves_can_be_taken_off_until_nothing_is_left(votes: Ints) -> None:
    met = votes > 0
    while (leaf := met.sum(axis=1) == 1).any():
        one = int(leaf.argmax())
        met[one, :] = met[:, one] = False
    assert only_a_ladder(votes) == (len(votes) >= 3 and not met.any())


@pytest.mark.parametrize(
    ("votes", "ladder"),
    [
        (votes_of(3, (0, 1), (1, 2)), True),
        (votes_of(3, (0, 1), (1, 2), (0, 2)), False),
        (votes_of(4, (0, 1), (1, 2), (2, 3), (0, 3)), False),
        (votes_of(4, (0, 1), (2, 3)), True),
        (votes_of(2, (0, 1)), False),
    ],
)
def test_only_a_ladder(votes: Ints, ladder: bool) -> None:
    assert only_a_ladder(votes) is ladder


def test_one_triangle_of_the_votes_is_enough() -> None:
    votes = votes_of(4, (0, 1), (1, 2))
    assert (pair_status(np.triu(votes)) == pair_status(votes)).all()


def test_no_agents_are_no_pairs() -> None:
    empty = np.zeros((0, 0), np.int64)
    assert components(empty)[0] == 0
    assert pair_status(empty).shape == (0, 0)
    assert not only_a_ladder(empty)
