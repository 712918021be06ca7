"""The plots: what is drawn is what was given."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from nasheval.errors import InputError, MissingExtraError
from nasheval.game.regularizers import L2
from nasheval.payoff.inference import group_payoff, payoffs_by
from nasheval.payoff.stage1_diagnostics import Stage1Diagnostics
from nasheval.scoring import plots
from nasheval.scoring.leaderboard import Standing, standings

from .report_logs import AGENTS, PAPER, STAR, TOPICS, example, star_stage1

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra 'plots')")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.patches import FancyArrowPatch  # noqa: E402


@pytest.fixture(autouse=True)
def closed():
    """Draw what was plotted, so that a text that cannot be set is found, and close it."""
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")


@pytest.fixture(scope="module")
def games():
    """The group of games, in which there is a cycle."""
    stage1 = example()[0]
    return group_payoff(stage1.pseudo, np.array(stage1.log.contexts["topic"].to_pylist()) == TOPICS[0], name="g_$1$")


@pytest.fixture(scope="module")
def rows():
    stage1 = example()[0]
    return list(standings(stage1.log, payoffs_by(stage1.pseudo, "topic", confidence=0.95, seed=0), L2()))


@pytest.fixture(scope="module")
def diagnostics():
    return Stage1Diagnostics.of(example()[0], by=[])


def test_payoffs_are_those_of_the_group_and_bold_where_certain(games):
    ax = plots.payoff(games)
    shown = np.asarray(ax.images[0].get_array())
    order = np.argsort(-games.estimate.sum(axis=1), kind="stable")
    np.testing.assert_array_equal(shown, games.estimate[np.ix_(order, order)])
    assert [label.get_text() for label in ax.get_yticklabels()] == [AGENTS[a].replace("$", r"\$") for a in order]
    assert len(ax.texts) == 12
    for text in ax.texts:
        column, row = (int(place) for place in text.get_position())
        low, high = (ends[order[row], order[column]] for ends in (games.lower, games.upper))
        assert text.get_text() == f"{shown[row, column]:+.2f}"
        assert (text.get_fontweight() == "bold") == bool(low > 0 or high < 0)


def test_pairs_not_compared_are_hatched_and_absent_agents_left_out():
    stage1 = star_stage1()
    german = np.array(stage1.log.contexts["language"].to_pylist()) == "de"
    group = group_payoff(stage1.pseudo, german, name="de")
    ax = plots.payoff(group)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(names) == sorted(set(STAR) - {"weak"})
    hatched = {(names[round(p.get_y() + 0.5)], names[round(p.get_x() + 0.5)]) for p in ax.patches if p.get_hatch()}
    seen = {frozenset(pair) for pair in (("base", "strong"), ("base", "middling"), ("isle", "reef"))}
    assert hatched == {(a, b) for a in names for b in names if a != b and frozenset((a, b)) not in seen}
    texts = {tuple(names[int(place)] for place in text.get_position()[::-1]): text for text in ax.texts}
    assert texts["strong", "isle"].get_text() == "?"
    assert texts["strong", "base"].get_fontweight() == "bold"
    assert texts["strong", "middling"].get_fontweight() == "normal"  # bridged, though its interval excludes 0
    assert "hatched: not compared here" in ax.get_title()
    drawn = {text.get_text() for text in plots.cycle_graph(group).texts}
    assert drawn == set(names)


def test_blue_is_preferred_and_orange_is_not(games):
    image = plots.payoff(games).images[0]
    red, green, blue, _ = image.cmap(image.norm(0.9))
    assert blue > green > red
    red, green, blue, _ = image.cmap(image.norm(-0.9))
    assert red > green > blue


def test_few_agents_can_be_asked_for(games):
    assert np.asarray(plots.payoff(games, most=2).images[0].get_array()).shape == (2, 2)


def test_every_certain_preference_has_an_arrow_and_those_of_cycles_are_orange(games):
    ax = plots.cycle_graph(games)
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == int(games.beats().sum()) == 6
    assert sum(to_hex(arrow.get_edgecolor()) == plots.ORANGE for arrow in arrows) == 3
    assert {text.get_text() for text in ax.texts} == {name.replace("$", r"\$") for name in AGENTS}
    assert "1 cycle at 95%" in ax.get_title()


def test_agents_of_cycles_come_first_in_a_small_graph(games):
    ax = plots.cycle_graph(games, most=3)
    assert "weak" not in {text.get_text() for text in ax.texts}
    assert len(ax.texts) == 3


def test_the_winner_map_holds_the_shares(rows):
    ax = plots.winner_heatmap(_frame(rows, "pyarrow"))
    shown, agents = np.asarray(ax.images[0].get_array()), [label.get_text() for label in ax.get_yticklabels()]
    assert [label.get_text() for label in ax.get_xticklabels()] == list(TOPICS)
    for row in rows:
        assert shown[agents.index(row.agent.replace("$", r"\$")), TOPICS.index(row.group)] == row.frequency


def _frame(rows, library):
    columns = {name: [getattr(row, name) for row in rows] for name in ("group", "agent", "lottery", "frequency")}
    if library == "pyarrow":
        return pa.table(columns)
    return pytest.importorskip(library).DataFrame(columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_any_table_will_do(rows, library):
    drawn = [plots.winner_heatmap(_frame(rows, name)).images[0].get_array() for name in ("pyarrow", library)]
    np.testing.assert_array_equal(*drawn)


def test_bars_of_a_lottery_fill_the_line(rows):
    ax = plots.lottery_by_group(_frame(rows, "pyarrow"))
    by_group = {}
    for bar in ax.patches:
        by_group.setdefault(round(bar.get_y() + bar.get_height() / 2), []).append(bar.get_width())
    assert {group: pytest.approx(1.0) for group in by_group} == {group: sum(w) for group, w in by_group.items()}
    assert [label.get_text() for label in ax.get_yticklabels()] == list(TOPICS)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(labels) == 3  # the weak agent plays nowhere
    assert PAPER in labels


def test_many_agents_share_the_colour_of_others():
    def standing(agent, lottery):
        return Standing("all", agent, lottery, 0, 1, 1, True, 1000, 1, 1, 0, True, 9)

    ax = plots.lottery_by_group(_frame([standing(f"_{a}", 0.1) for a in range(10)], "pyarrow"))
    labels = [text.get_text().strip() for text in ax.get_legend().get_texts()]
    assert labels == [f"_{a}" for a in range(7)] + ["others"]
    assert ax.patches[-1].get_width() == pytest.approx(0.3)
    assert len({to_hex(bar.get_facecolor()) for bar in ax.patches}) == 8


def test_the_frontier_of_a_game_of_two():
    A = np.tile([[0.0, 0.5], [-0.5, 0.0]], (3, 1, 1))
    ax = plots.cost_frontier(A, {"cheap": 2.0, "dear": 3.0}, agents=["dear", "cheap"])
    line = ax.lines[0].get_xydata()
    assert line[0].tolist() == [3.0, 0.0]
    assert line[-1].tolist() == [2.0, 0.5]
    assert ax.collections[0].get_offsets().tolist() == [[3.0, 0.0], [2.0, 0.5]]
    assert [text.get_text() for text in ax.texts] == ["dear", "cheap"]


def test_costs_that_do_not_fit_are_refused():
    A = np.zeros((2, 3, 3))
    with pytest.raises(InputError, match="3 agents, there are 2 names"):
        plots.cost_frontier(A, {"a": 1.0, "b": 2.0})
    with pytest.raises(InputError, match="has none for 'c'"):
        plots.cost_frontier(A, {"a": 1.0, "b": 2.0}, agents=["a", "b", "c"])
    with pytest.raises(InputError, match=r"accepted is \(n, K, K\)"):
        plots.cost_frontier(A[0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("of", ["outcome", "propensity"])
def test_calibration_is_that_of_the_diagnostics(diagnostics, of):
    bins = getattr(diagnostics.nuisances, of)
    ax = plots.calibration(diagnostics, of=of)
    np.testing.assert_allclose(ax.lines[-1].get_xydata(), np.stack([bins.predicted, bins.observed], axis=1))


def test_what_is_no_leaderboard_is_refused():
    for given in ([1, 2], pa.table({"group": ["a"]}), 3):
        with pytest.raises(InputError, match="columns group, agent, lottery"):
            plots.lottery_by_group(given)


def test_axes_that_are_given_are_used(games, rows, diagnostics):
    frame = _frame(rows, "pyarrow")
    for draw in (
        lambda ax: plots.payoff(games, ax=ax),
        lambda ax: plots.cycle_graph(games, ax=ax),
        lambda ax: plots.winner_heatmap(frame, ax=ax),
        lambda ax: plots.lottery_by_group(frame, ax=ax),
        lambda ax: plots.cost_frontier(np.zeros((1, 2, 2)), [1.0, 2.0], ax=ax),
        lambda ax: plots.calibration(diagnostics, ax=ax),
    ):
        ax = plt.figure().subplots()
        assert draw(ax) is ax


def test_without_matplotlib_it_says_what_to_install(games, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"nasheval\[plots\]"):
        plots.payoff(games)
    with pytest.raises(MissingExtraError, match=r"nasheval\[plots\]"):
        plots.cycle_graph(games)


def test_matplotlib_is_loaded_only_to_draw():
    code = "import nasheval.scoring.plots, sys; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
