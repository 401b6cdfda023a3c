"""The named pairs of a client and a server, and room for yours.

An algorithm is only a composition, `Algorithm(client, server, rate)`; these functions name the nine of the paper's
experiments, and FedProx with the exact minimiser that its theorems speak of, with either server.
"""

from __future__ import annotations

from noshow import aggregators, clients, servers
from noshow.contracts import Algorithm, Rate
from noshow.rates import as_rate
from noshow.width import Width

__all__ = [
    "bucketing_cclip",
    "bucketing_gm",
    "cclip",
    "exact_fedprox",
    "exact_fedprox_variant",
    "fedavg",
    "fedavg_variant",
    "fedprox",
    "fedprox_variant",
    "gm",
    "mifa",
]


def fedavg(rate: float | Rate, steps: int = 25) -> Algorithm:
    """FedAvg: local SGD, weighted average of the replies that arrive. B. McMahan et al., 2017.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.fedavg(rate=ns.rates.inverse_sqrt(0.1), steps=25)
    """
    return Algorithm(clients.sgd(steps), servers.average(), as_rate(rate), "fedavg")


def fedavg_variant(rate: float | Rate, steps: int = 25, beta: float | None = None) -> Algorithm:
    """The paper's FedAvg: local SGD, theta += beta sum w_i reply_i over the responders; beta = M/K if left out.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.fedavg_variant(rate=0.01, steps=25)
    """
    return Algorithm(clients.sgd(steps), servers.amplify(beta), as_rate(rate), "fedavg_variant")


def fedprox(
    rate: float | Rate, mu: float, steps: int = 10, momentum: float = 0.9, damping: float | None = None
) -> Algorithm:
    """FedProx: a proximal local program solved by momentum SGD, weighted average. T. Li et al., 2020.

    `rate` is the local rate alpha_0, `mu` the weight mu_0 of the proximal term.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.fedprox(rate=0.01, mu=1.0)
    """
    return Algorithm(clients.prox(mu, steps, momentum, damping), servers.average(), as_rate(rate), "fedprox")


def fedprox_variant(
    rate: float | Rate,
    mu: float,
    steps: int = 10,
    momentum: float = 0.9,
    damping: float | None = None,
    beta: float | None = None,
) -> Algorithm:
    """The paper's FedProx: the proximal client with the amplified update; beta = M/K if left out.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.fedprox_variant(rate=0.01, mu=1.0, beta=10)
    """
    client = clients.prox(mu, steps, momentum, damping)
    return Algorithm(client, servers.amplify(beta), as_rate(rate), "fedprox_variant")


def exact_fedprox(rate: float | Rate, tolerance: float = 1e-5, newton_steps: int = 50) -> Algorithm:
    """FedProx with the exact local minimiser, weighted average; `rate` is eta_t, the proximal weight 1 / eta_t.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.exact_fedprox(rate=0.1)
    """
    return Algorithm(clients.exact_prox(tolerance, newton_steps), servers.average(), as_rate(rate), "exact_fedprox")


def exact_fedprox_variant(
    rate: float | Rate, tolerance: float = 1e-5, newton_steps: int = 50, beta: float | None = None
) -> Algorithm:
    """The paper's FedProx as its theorems have it: the exact local minimiser and the amplified update.

    `rate` is their eta_t, the weight of the proximal term 1 / eta_t; beta = M/K if left out.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.exact_fedprox_variant(rate=ns.rates.inverse(alpha=2.0, gamma=40.0))
    """
    client = clients.exact_prox(tolerance, newton_steps)
    return Algorithm(client, servers.amplify(beta), as_rate(rate), "exact_fedprox_variant")


def mifa(rate: float | Rate, steps: int = 25, memory: Width | None = None) -> Algorithm:
    """MIFA: local SGD; the server remembers each client's last update, zero until it first answers. X. Gu et al., 2021.

    `memory="bfloat16"` halves what it remembers; float32 if left out.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.mifa(rate=0.01, steps=25)
    """
    return Algorithm(clients.sgd(steps), servers.remember(aggregators.mean(), memory), as_rate(rate), "mifa")


def gm(
    rate: float | Rate,
    momentum: float = 0.9,
    damping: float | None = None,
    iterations: int = 8,
    smoothing: float = 0.1,
    memory: Width | None = None,
) -> Algorithm:
    """Geometric median of the remembered momenta. Y. Chen, L. Su, J. Xu, 2017.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.gm(rate=0.01)
    """
    rule = aggregators.geometric_median(iterations, smoothing)
    return Algorithm(clients.momentum(momentum, damping, memory), servers.remember(rule, memory), as_rate(rate), "gm")


def cclip(
    rate: float | Rate,
    momentum: float = 0.9,
    damping: float | None = None,
    radius: float | None = None,
    iterations: int = 3,
    memory: Width | None = None,
) -> Algorithm:
    """Centred clipping of the remembered momenta; the radius is 10 / (1 - momentum) if left out.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.cclip(rate=0.01)
    """
    client = clients.momentum(momentum, damping, memory)
    rule = aggregators.centered_clip(_radius(radius, momentum), iterations)
    return Algorithm(client, servers.remember(rule, memory), as_rate(rate), "cclip")


def bucketing_gm(
    rate: float | Rate,
    momentum: float = 0.9,
    damping: float | None = None,
    bucket: int = 2,
    iterations: int = 8,
    smoothing: float = 0.1,
    memory: Width | None = None,
) -> Algorithm:
    """Geometric median over the means of random buckets of the remembered momenta.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.bucketing_gm(rate=0.01, bucket=2)
    """
    rule = aggregators.bucketed(bucket, aggregators.geometric_median(iterations, smoothing))
    return Algorithm(
        clients.momentum(momentum, damping, memory), servers.remember(rule, memory), as_rate(rate), "bucketing_gm"
    )


def bucketing_cclip(
    rate: float | Rate,
    momentum: float = 0.9,
    damping: float | None = None,
    bucket: int = 2,
    radius: float | None = None,
    iterations: int = 3,
    memory: Width | None = None,
) -> Algorithm:
    """Centred clipping over the means of random buckets of the remembered momenta.

    Example:
        >>> import noshow as ns
        >>> algorithm = ns.algorithms.bucketing_cclip(rate=0.01, bucket=2)
    """
    client = clients.momentum(momentum, damping, memory)
    rule = aggregators.bucketed(bucket, aggregators.centered_clip(_radius(radius, momentum), iterations))
    return Algorithm(client, servers.remember(rule, memory), as_rate(rate), "bucketing_cclip")


def _radius(radius: float | None, momentum: float) -> float:
    """tau = 10 / (1 - beta_0), as the paper's appendix sets it, unless a radius is given."""
    return 10 / (1 - momentum) if radius is None else radius
