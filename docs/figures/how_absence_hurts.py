"""The pictures of how absence hurts, and the numbers beside them.

python docs/figures/how_absence_hurts.py docs/images
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import noshow as ns

CLIENTS, SAMPLED, ROUNDS = 20, 10, 80
DAY, NIGHT = np.arange(CLIENTS) < 15, np.arange(CLIENTS) >= 15
BLUE, RED, ORANGE, GREEN, GREY, PALE = "#0072b2", "#b00020", "#d55e00", "#009e73", "#8a8f98", "#eceff3"

# Every client wants the model at a point of its own: those who answer by day to the left, those by night to the right.
rng = np.random.default_rng(0)
WANTED = np.where(DAY[:, None], [-1.0, 0.0], [3.0, 1.0]) + 0.4 * rng.normal(size=(CLIENTS, 2))
SIZES = rng.integers(20, 60, CLIENTS)
BEST = SIZES @ WANTED / SIZES.sum()


def parabolas():
    """A federation in which client i's loss is ||theta - its point||^2 / 2, up to a constant."""
    held = [(np.ones((n, 2)), np.tile(point, (n, 1))) for n, point in zip(SIZES, WANTED, strict=True)]
    return ns.Federation.from_clients(held, test=held[0])


def night_shift():
    """In even rounds those of the night are asleep, in odd rounds those of the day."""

    def score(state, key, scene):
        asleep = jnp.asarray(NIGHT)[scene.ids] == (scene.t % 2 == 0)
        return jnp.where(asleep, 0.0, -jnp.inf)

    return ns.Adversary(score, lawful=False, name="night_shift")


def played(algorithm, adversary=None, epsilon=None):
    """The path of the model [T + 1, 2], and the history."""
    start = ns.models.quadratic([-2.5, 2.5])
    run = ns.Simulation(
        parabolas(), start, algorithm, adversary, sampled=SAMPLED, rounds=ROUNDS, epsilon=epsilon, evaluate_every=1
    )
    path = [run.thetas[0]]
    while not run.done:
        run.advance()
        path.append(run.thetas[0])
    return np.array(path), run.history()


def late_distance(path):
    """How far from the best model for all, on average over the second half."""
    return np.linalg.norm(path[ROUNDS // 2 :] - BEST, axis=1).mean()


def draw_who(shift, loud):
    """Who was sampled, who was silenced and who answered, round by round."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, history, title in zip(
        figure.subplots(1, 2, sharey=True), (shift, loud), ("a night shift", "the loudest, law 0.5"), strict=True
    ):
        call = history.roll_call
        cells = np.zeros((CLIENTS, 40))
        for t in range(40):
            cells[call.responders(0, t), t], cells[call.silenced(0, t), t] = 1, 2
        axes.imshow(cells, cmap=ListedColormap([PALE, BLUE, RED]), aspect="auto", interpolation="nearest")
        axes.set(title=title, xlabel="round")
    figure.axes[0].set(ylabel="client", yticks=[0, 5, 10, 15, 19])
    colours = {"answered": BLUE, "silenced": RED, "not sampled": PALE}
    words = [Patch(color=colour, label=word) for word, colour in colours.items()]
    figure.legend(handles=words, loc="outside lower center", ncols=3, frameon=False)
    return figure


def draw_one_round(history):
    """What each sampled client counts for in one night round: in the truth, in an average, in a weighted sum."""
    t = 1
    ids, answered = history.roll_call.sampled[0, t], history.roll_call.answered[0, t]
    order = np.argsort(ids)
    ids, answered = ids[order], answered[order]
    weights = SIZES[ids] / SIZES.sum()
    shares = {
        "its share of the data, times M/K": weights * CLIENTS / SAMPLED,
        "FedAvg: divided by who is there": np.where(answered, weights, 0) / weights[answered].sum(),
        "the variant: as it is, times M/K": np.where(answered, weights, 0) * CLIENTS / SAMPLED,
    }
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for axes, (title, share) in zip(figure.subplots(1, 3, sharey=True), shares.items(), strict=True):
        axes.bar(range(SAMPLED), share, color=np.where(NIGHT[ids], ORANGE, BLUE))
        axes.set(title=title, xticks=range(SAMPLED), xticklabels=ids, xlabel="client")
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
    words = [Patch(color=BLUE, label="of the day"), Patch(color=ORANGE, label="of the night")]
    figure.legend(handles=words, loc="outside lower center", ncols=2, frameon=False)
    heard = shares["FedAvg: divided by who is there"].max()
    print(
        f"one night round: {answered.sum()} of {SAMPLED} answer; the largest counts {heard:.2f} in FedAvg, "
        f"{shares['the variant: as it is, times M/K'].max():.2f} in the variant"
    )
    return figure


def draw_paths(paths):
    """Where the model goes."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.scatter(*WANTED.T, s=SIZES * 2, c=np.where(NIGHT, ORANGE, BLUE), alpha=0.25, linewidth=0)
    for (label, path), colour in zip(paths.items(), (GREY, GREEN), strict=True):
        axes.plot(*path.T, color=colour, linewidth=1.2, marker=".", markersize=4, label=label)
    axes.plot(*BEST, "*", color="black", markersize=14, linestyle="", label="best for all")
    axes.set(title="Parameters of the model; a disc is what one client wants", aspect="equal")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    return figure


def draw_law(loud, paths):
    """What the law let go silent, and where three rules end."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    law, error = figure.subplots(1, 2)
    law.plot(loud.roll_call.epsilon_t[0], ".", color=RED, label="$\\epsilon_t$")
    law.axhline(0.5, color="black", linewidth=1, label="the law, $\\epsilon$ = 0.5")
    law.set(title="Silenced share, round by round", xlabel="round", ylim=(0, 0.6))
    for (label, path), colour in zip(paths.items(), (GREY, GREEN, BLUE), strict=True):
        error.plot(np.linalg.norm(path - BEST, axis=1), color=colour, label=label)
    error.set(title="Distance to the best model for all", xlabel="round", ylim=(0, None))
    for axes in (law, error):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower right" if axes is law else "upper right")
    return figure


def main(folder):
    rules = {
        "FedAvg": ns.algorithms.fedavg(0.05, steps=3),
        "FedAvg variant": ns.algorithms.fedavg_variant(0.05, steps=3),
        "MIFA": ns.algorithms.mifa(0.05, steps=3),
    }
    night = {name: played(rules[name], night_shift()) for name in ("FedAvg", "FedAvg variant")}
    loud = {name: played(rule, ns.adversaries.largest_reply(), 0.5) for name, rule in rules.items()}
    for title, runs in (("a night shift", night), ("the loudest", loud)):
        print(f"{title}: " + ", ".join(f"{name} {late_distance(path):.2f}" for name, (path, _) in runs.items()))
    print(f"nobody silent: FedAvg {late_distance(played(rules['FedAvg'])[0]):.2f}")
    print(f"epsilon_t of the loudest: {loud['FedAvg'][1].roll_call.epsilon_t.max():.3f} at most")
    figures = {
        "who": draw_who(night["FedAvg"][1], loud["FedAvg"][1]),
        "one-round": draw_one_round(night["FedAvg"][1]),
        "paths": draw_paths({name: path for name, (path, _) in night.items()}),
        "law": draw_law(loud["FedAvg"][1], {name: path for name, (path, _) in loud.items()}),
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        figure.savefig(Path(folder) / f"absence-{name}.png", dpi=150)


if __name__ == "__main__":
    main(sys.argv[1])
