"""The paper's figures: their panels, what tells lines apart, what a panel leaves out and says so."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

import noshow as ns
from noshow.paper import figures
from noshow.paper.experiments import EXPERIMENTS
from noshow.paper.readings import example


def curves_of(*labels: str) -> dict[str, figures.Curves]:
    rng = np.random.default_rng(0)
    scores = ns.history.Metrics(*(rng.uniform(size=(2, 5)) for _ in range(3)))  # type: ignore[attr-defined]
    used, answered = np.full((2, 60), 0.25), np.full((2, 60), 3)
    return {label: figures.Curves(label, np.arange(2), np.arange(5) * 15, scores, used, answered) for label in labels}


NINE = (*figures.BASELINES, *figures.BYZANTINE)


@pytest.mark.parametrize(
    ("name", "panels"),
    [("cifar10-0.8", 4), ("cifar10-0.2", 4), ("synthetic-0.9", 8), ("synthetic-0.7", 8), ("shakespeare-0.7", 4)],
)
def test_figures_have_the_papers_panels(name: str, panels: int) -> None:
    (figure,) = figures.draw(name, {"": curves_of(*NINE)}, name).values()
    assert len(figure.axes) == panels
    first = [line.get_label() for line in figure.axes[0].get_lines()]
    assert first == (["fedavg", "fedavg_variant", "mifa"] if "shakes" in name else list(figures.BASELINES))


def test_the_long_figures() -> None:
    (figure,) = figures.draw("synthetic-long", {"": curves_of(*NINE)}, "synthetic-long").values()
    assert [len(axes.get_lines()) for axes in figure.axes] == [9, 9, 2, 2]
    assert [axes.get_xlim() for axes in figure.axes[2:]] == [(45, 60)] * 2
    levels = curves_of("fedavg_variant")
    (figure,) = figures.draw("cifar10-long", {"": curves_of(*figures.BYZANTINE)}, "cifar10-long", levels).values()
    line = figure.axes[0].get_lines()[-1]
    assert line.get_ydata()[0] == pytest.approx(levels["fedavg_variant"].scores.train_loss[:, 4].mean())
    assert line.get_label() == "fedavg_variant"
    assert [text.get_text() for text in figure.axes[0].texts] == ["level of\nfedavg_variant"]


def test_a_level_is_inside_its_panel() -> None:
    level = losses(fedavg_variant=[[0.01] * 41])
    curves = losses(gm=[[2.0] * 41], cclip=[[1.0] * 41])
    (figure,) = figures.draw("cifar10-long", {"": curves}, "x", level).values()
    assert figure.axes[0].get_ylim()[0] < 0.01


def losses(**rows: list[list[float]]) -> dict[str, figures.Curves]:
    return {label: example(loss=row)._replace(label=label) for label, row in rows.items()}


def accuracies(**rows: list[list[float]]) -> dict[str, figures.Curves]:
    return {label: example(accuracy=row)._replace(label=label) for label, row in rows.items()}


def notes(figure: Figure) -> list[str]:
    return [axes.get_title(loc="right") for axes in figure.axes]


def test_what_happens_in_the_first_rounds_leaves_a_panel_and_is_told() -> None:
    steady, jumping = [[1.0] * 20 + [0.9] * 21], [[1.0, 8.5] + [0.8] * 39]
    (figure,) = figures.draw("shakespeare-random", {"": losses(fedavg=jumping, fedavg_variant=steady)}, "x").values()
    assert 1.0 < figure.axes[0].get_ylim()[1] < 1.5
    assert notes(figure)[0] == "cut: what leaves the panel reaches 8.5"
    late = [[1.0] * 20 + [8.5] * 21]
    (figure,) = figures.draw("shakespeare-random", {"": losses(fedavg=late, fedavg_variant=steady)}, "x").values()
    assert figure.axes[0].get_ylim()[1] > 8.5
    assert notes(figure)[0] == ""


def test_levels_far_apart_have_a_logarithmic_axis_and_a_rule_that_blows_up_leaves_it() -> None:
    far = losses(gm=[[40.0] * 41], cclip=[[0.5] * 41], bucketing_gm=[[0.6] * 20 + [float("nan")] * 21])
    (figure,) = figures.draw("cifar10-long", {"": far}, "x").values()
    assert figure.axes[0].get_yscale() == "log"
    assert figure.axes[0].get_ylim()[1] > 40
    blown = losses(gm=[[1e9] * 41], cclip=[[0.5] * 41], bucketing_gm=[[0.6] * 41])
    (figure,) = figures.draw("cifar10-long", {"": blown}, "x").values()
    assert figure.axes[0].get_yscale() == "linear"
    assert 0.6 < figure.axes[0].get_ylim()[1] < 1
    assert notes(figure)[0] == "cut: what leaves the panel reaches 1e+09"


def test_rules_that_coincide_are_all_seen() -> None:
    (figure,) = figures.draw("cifar10-long", {"": curves_of(*figures.BYZANTINE)}, "x").values()
    lines = sorted(figure.axes[0].get_lines(), key=lambda line: line.get_zorder())
    assert [line.get_label() for line in lines] == ["gm", "cclip", "bucketing_gm", "bucketing_cclip"]
    widths = [line.get_linewidth() for line in lines]
    assert sorted(set(widths), reverse=True) == widths
    assert len({line.get_color() for line in lines}) == 4
    assert notes(figure) == ["all lines coincide"] * 2


def test_epsilon_t_its_mean_and_the_law() -> None:
    curves = curves_of(*NINE)
    used = np.random.default_rng(0).uniform(0, 0.9, (2, 60))
    curves["fedavg_variant"] = curves["fedavg_variant"]._replace(epsilon_t=used)
    (figure,) = figures.draw("synthetic-0.9", {"": curves}, "x", law=0.9).values()
    dots, mean, law = figure.axes[4].get_lines()
    np.testing.assert_array_equal(dots.get_ydata(), used[0])
    assert mean.get_xdata()[0] == 49
    np.testing.assert_allclose(mean.get_ydata(), [used[0, k : k + 50].mean() for k in range(11)])
    assert set(law.get_ydata()) == {0.9}


def test_seeds_that_learn_nothing_are_told() -> None:
    rising = list(np.linspace(0.1, 0.5, 41))
    late, never = [0.1] * 15 + list(np.linspace(0.11, 0.4, 26)), [0.11] + [0.1] * 39 + [0.101]
    plateau = [0.0, *[0.47] * 40]  # which has learnt something
    curves = accuracies(fedavg=[rising, late], fedavg_variant=[plateau, rising])
    (figure,) = figures.draw("shakespeare-random", {"": curves}, "x").values()
    assert notes(figure) == ["all lines coincide", "fedavg: 1 of 2 seeds stuck at 0.10 up to round 100"]
    cells = {"p0.2": accuracies(fedprox=[never, rising, never]), "p0.3": accuracies(fedprox=[rising, late, rising])}
    (figure,) = figures.draw("random-response", cells, "x").values()
    assert notes(figure) == ["", "fedprox: 2 of 3 seeds stuck at 0.10 for p = 0.2"]


def test_the_grid_and_the_probabilities() -> None:
    grid = figures.draw("round-robin", {cell: curves_of("fedavg") for cell in EXPERIMENTS["round-robin"].cells}, "x")
    assert sorted(grid) == ["accuracy", "loss"]
    assert [axes.get_title(loc="left") for axes in grid["loss"].axes[:2]] == ["K = 5, r = 4", "K = 5, r = 5"]
    bottom = [axes.get_xlabel() for axes in grid["loss"].axes]
    assert bottom == [""] * 6 + ["round"] * 3
    cells = EXPERIMENTS["random-response"].cells
    (figure,) = figures.draw("random-response", {cell: curves_of("gm", "cclip") for cell in cells}, "x").values()
    np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_xdata(), np.arange(2, 10) / 10)


def test_in_the_grid_width_tells_beta() -> None:
    labels = ("fedavg", "fedavg_variant-beta-1", "fedavg_variant-beta-root", "fedprox_variant-beta-root")
    cells = {cell: curves_of(*labels) for cell in EXPERIMENTS["round-robin"].cells}
    spike = cells["K5-r4"]["fedavg"].scores.train_loss.copy()
    spike[0, 2] = 50.0
    scores = cells["K5-r4"]["fedavg"].scores._replace(train_loss=spike)
    cells["K5-r4"]["fedavg"] = cells["K5-r4"]["fedavg"]._replace(scores=scores)
    figure = figures.draw("round-robin", cells, "x")["loss"]
    original, one, root, other = figure.axes[0].get_lines()
    assert original.get_color() == one.get_color() == root.get_color() != other.get_color()
    assert [line.get_linestyle() for line in (original, one, root, other)] == ["--", "-", "-", "-"]
    assert root.get_linewidth() > other.get_linewidth() > one.get_linewidth()
    assert root.get_zorder() > max(line.get_zorder() for line in (original, one, other))
    assert root.get_label() == "fedavg_variant, beta = sqrt(M/K)"
    assert figure.axes[0].get_ylim()[1] < 25
    assert "spikes leave the panels and reach 50" in figure.get_suptitle()
