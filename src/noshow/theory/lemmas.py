"""What one round can do wrong: the local drift, the objective inconsistency and the selection bias."""

from __future__ import annotations

import numpy as np

from noshow.errors import require
from noshow.theory.constants import Method, Numbers, Problem, numbers, worst
from noshow.theory.kappa import kappa


def local_drift(problem: Problem, method: Method, eta: Numbers) -> Numbers:
    """d, with ||reply + s eta grad l(theta)|| <= d s eta ||grad l(theta)|| for a client's reply.

    FedAvg (Lemma s-steps-diff): d = kappa (s-1) eta L / 2. FedProx (Lemma fedprox-diff): d = eta L / (1 - eta L_minus),
    s = 1. FedAvg and FedProx differ in this number and in nothing else, in all of the paper's proofs. The paper takes
    the largest kappa of all rounds; its proof holds with that of the round's own step, which is used here.

    Example:
        >>> problem = Problem(epsilon=0.0, L=1.0, L_minus=0.0, s=3)
        >>> round(float(local_drift(problem, "fedavg", 0.1)), 6), float(local_drift(problem, "fedprox", 0.1))
        (0.103333, 0.1)
    """
    eta = numbers("the step", eta, low=0)
    s = problem.steps(method)
    if method == "fedavg":
        return kappa(eta * problem.L, s) * (s - 1) * eta * problem.L / 2
    fall = eta * problem.L_minus
    require(
        bool(np.all(fall < 1)),
        f"the step is {worst(fall, eta)} and L_minus {worst(fall, problem.L_minus)}: "
        "FedProx has one minimiser only below 1/L_minus, so take a smaller step",
    )
    return eta * problem.L / (1 - fall)


def selection_bias(problem: Problem, gradient: Numbers) -> Numbers:
    """E ||sum over the silenced of w_i grad l_i(theta)|| <= p sqrt(epsilon) (B ||grad F(theta)|| + G + sigma).

    Lemma adversarial-attack; it also uses the assumption on noisy gradients, which its statement leaves out.

    Args:
        problem: the constants.
        gradient: ||grad F(theta_t)||.

    Example:
        >>> problem = Problem(epsilon=0.25, L=1.0, B=2.0, G=1.0, sigma=1.0, K=10, M=100)
        >>> round(float(selection_bias(problem, gradient=3.0)), 6)
        0.4
    """
    return problem.p * np.sqrt(problem.epsilon) * _client_gradients(problem, gradient)


def objective_inconsistency(problem: Problem, method: Method, eta: Numbers, gradient: Numbers) -> Numbers:
    """E ||sum over responders of w_i (reply + s eta grad l_i(theta))|| <= p s eta d (B ||grad F(theta)|| + G + sigma).

    Equation objective-inconsistency, with d = `local_drift`: p kappa eta^2 L s(s-1)/2 (…) for FedAvg and
    p eta^2 L / (1 - eta L_minus) (…) for FedProx.

    Args:
        problem: the constants.
        method: "fedavg" or "fedprox".
        eta: the round's step.
        gradient: ||grad F(theta_t)||.

    Example:
        >>> problem = Problem(epsilon=0.0, L=1.0, G=1.0, s=2)
        >>> round(float(objective_inconsistency(problem, "fedavg", eta=0.1, gradient=1.0)), 6)
        0.02
    """
    drift = local_drift(problem, method, eta)
    return problem.p * problem.steps(method) * eta * drift * _client_gradients(problem, gradient)


def _client_gradients(problem: Problem, gradient: Numbers) -> Numbers:
    """B ||grad F|| + G + sigma, above the clients' mean gradient norm (equation noisy_gradient_bound)."""
    return problem.B * numbers("gradient", gradient, low=0) + problem.spread
