"""What absence must cost, what it costs at most, and what it does cost: the lower bound's own problem, played.

python examples/floor_and_ceiling.py floor-and-ceiling.png
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import noshow as ns
from noshow import theory
from noshow.theory.hard import play

ROUNDS, SEEDS, START = 1000, range(30), 3.0

# 100 clients, all of them sampled; one in a hundred is hidden, some for ever (G), some in this round only (sigma).
pair = theory.hard_pair(clients=100, epsilon=0.01, mu=1.0, G=1.0, sigma=1.0)
rate = theory.inverse_rate(pair.problem, "fedavg")
# The problem and its mirror image: whoever answers holds the same in both, and only the hidden know which it is.
both = [pair.apart, pair.apart._replace(shift=-pair.apart.shift)]
paths = play(both, ns.algorithms.fedavg_variant(rate, steps=1), rounds=ROUNDS, seeds=SEEDS, start=START)
errors = np.stack([problem.square_distance(path).mean(0) for problem, path in zip(both, paths, strict=True)])
measured = errors.max(0)
distance = max(abs(START - float(problem.optimum)) for problem in both)
ceiling = theory.strongly_convex_curve(pair.problem, "fedavg", rate, ROUNDS, distance)

print(f"the two problems' paths differ by {np.abs(paths[0] - paths[1]).max():g}: nobody can tell them apart")
print(f"floor {pair.distance_floor:.5f}, measured {measured[-1]:.5f}, ceiling {ceiling[-1]:.5f}")

figure = Figure(figsize=(7, 4.2), layout="constrained")
axes = figure.add_subplot()
rounds = np.arange(ROUNDS + 1) + 1
axes.plot(rounds, ceiling, ":", color="#0072b2", linewidth=1.8, label="ceiling (the proof's recursion)")
axes.plot(rounds, measured, color="#0072b2", label="FedAvg variant")
axes.axhline(
    8 * pair.distance_floor, color="#b00020", linestyle="--", linewidth=1, label="what this pair must cost: 8 floors"
)
axes.axhline(pair.distance_floor, color="#b00020", linewidth=1.2, label="floor (the theorem's)")
axes.set(xscale="log", yscale="log", xlabel="t + 1")
axes.set_title("$\\|\\theta_t - \\theta^*\\|^2$ on the worse of two problems, mean of 30 runs", loc="left")
axes.grid(alpha=0.25, linewidth=0.6)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
    print(f"figure: {sys.argv[1]}")
