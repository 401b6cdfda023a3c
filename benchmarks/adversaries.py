"""How much harm adversaries do: final train loss on Synthetic(1,1), as the table of docs/bounds.md.

python benchmarks/adversaries.py
"""

import noshow as ns

ROUNDS, SEEDS, SAMPLED = 200, [0, 1, 2], 10
ALGORITHMS = {
    "average": ns.algorithms.fedavg(0.01, steps=25),
    "amplify": ns.algorithms.fedavg_variant(0.01, steps=25),
}
EPSILONS = (0.4, 0.7)


def adversaries(server: str) -> dict[str, ns.Adversary]:
    """The paper's, and the strongest of one round against this server."""
    rehearsals = {"fedavg": ALGORITHMS["average"], "cclip": ns.algorithms.cclip(0.01)}
    return {
        "nobody": ns.adversaries.nobody(),
        "shadow (all candidates)": ns.adversaries.shadow(**rehearsals, candidates="all"),
        "largest_reply": ns.adversaries.largest_reply(),
        "worst_case": ns.adversaries.worst_case(server),
        "least_progress": ns.adversaries.least_progress(server),
    }


def final_loss(algorithm: ns.Algorithm, adversary: ns.Adversary, epsilon: float) -> str:
    history = ns.simulate(
        ns.datasets.synthetic(1, 1),
        ns.models.logistic(),
        algorithm,
        adversary,
        sampled=SAMPLED,
        epsilon=None if adversary.name == "nobody" else epsilon,
        rounds=ROUNDS,
        evaluate_every=ROUNDS,
        seeds=SEEDS,
    )
    losses = history.scores.train_loss[:, -1]
    return f"{losses.mean():.3f} ± {losses.std():.3f}"


if __name__ == "__main__":
    columns = [(server, epsilon) for epsilon in EPSILONS for server in ALGORITHMS]
    print("| |", " | ".join(f"{ALGORITHMS[server].name}, epsilon {epsilon}" for server, epsilon in columns), "|")
    print("|---|" + "---|" * len(columns))
    for name in adversaries("amplify"):
        cells = [final_loss(ALGORITHMS[server], adversaries(server)[name], epsilon) for server, epsilon in columns]
        print(f"| {name} |", " | ".join(cells), "|", flush=True)
