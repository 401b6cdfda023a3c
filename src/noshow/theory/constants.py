"""The constants that the paper's theorems speak of, checked once and used by every bound."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from noshow.errors import NoshowError, nearest, require

Numbers = float | NDArray[np.float64]
"""One number, or an array of them; the constants of a problem broadcast against each other."""

Method = Literal["fedavg", "fedprox"]
"""The paper's two algorithms: theta += beta * sum over responders of w_i * reply, with either client."""

_LEFT_OUT: Any = None  # of a constant that is worked out from the others


def numbers(name: str, value: Any, low: float = -np.inf) -> Numbers:
    """The value in float64; raises unless every entry is finite and at least `low`.

    Example:
        >>> numbers("gap", [1, 2], low=0)
        array([1., 2.])
    """
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise NoshowError(f"{name} is {value!r}: give a number, or an array of numbers") from None
    bad = array[~(np.isfinite(array) & (array >= low))]
    bound = "a finite number" if low == -np.inf else f"a finite number, at least {low:g}"
    require(bad.size == 0, f"{name} is {bad[0] if bad.size else 0}: give {bound}")
    return cast(Numbers, array[()])


def worst(excess: Numbers, value: Numbers) -> float:
    """The value where the excess is largest, to be named in a sentence.

    Example:
        >>> worst(np.array([0.0, 3.0]), np.array([5.0, 7.0]))
        7.0
    """
    excess, value = np.broadcast_arrays(excess, value)
    return float(value.flat[int(np.argmax(excess))])


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """The constants of a federation, its adversary and its algorithm; numbers, or arrays that broadcast.

    Args:
        epsilon: the adversary's share: silenced data <= epsilon K N / M every round (the assumption on the dropout
            fraction). From 0 up to, but not including, 1.
        L: every client's batch loss has an L-Lipschitz gradient.
        B: sum_i w_i ||grad F_i||^2 <= B^2 ||grad F||^2 + G^2 everywhere (bounded dissimilarity). At least 1.
        G: the same assumption's other constant.
        sigma: sigma^2 = sum_i w_i sigma_i^2, the clients' mean gradient noise (the assumption on noisy gradients).
        L_minus: no batch loss curves downwards by more than L_minus; 0 if they are convex. FedProx only. If left
            out, L, which always holds.
        mu: F is mu-strongly convex; 0 where it is not.
        beta: the server's amplification, at least 1. M/K if left out.
        s: local steps of FedAvg. FedProx counts as one step.
        K: clients sampled in a round.
        M: clients in all.

    Example:
        >>> problem = Problem(epsilon=0.01, L=2.0, B=1.0, G=0.5, K=10, M=100)
        >>> float(problem.p), float(problem.beta), float(problem.L_minus)
        (0.1, 10.0, 2.0)
        >>> Problem(epsilon=1.0, L=2.0)
        Traceback (most recent call last):
        noshow.errors.NoshowError: epsilon is 1.0: give a share from 0 up to, but not including, 1
    """

    epsilon: Numbers
    L: Numbers
    B: Numbers = 1.0
    G: Numbers = 0.0
    sigma: Numbers = 0.0
    L_minus: Numbers = _LEFT_OUT
    mu: Numbers = 0.0
    beta: Numbers = _LEFT_OUT
    s: Numbers = 1
    K: Numbers = 1
    M: Numbers = 1

    def __post_init__(self) -> None:
        self._fill("K", self.K, low=1)
        self._fill("M", self.M, low=1)
        self._fill("L", self.L)
        for name in ("epsilon", "G", "sigma", "mu"):
            self._fill(name, getattr(self, name), low=0)
        for name in ("B", "s"):
            self._fill(name, getattr(self, name), low=1)
        self._shapes_agree("K", "M")
        self._fill("L_minus", self.L if self.L_minus is None else self.L_minus, low=0)
        self._fill("beta", self.M / self.K if self.beta is None else self.beta)
        self._shapes_agree(*(field.name for field in fields(self)))
        self._check()

    @property
    def p(self) -> Numbers:
        """K/M, the share of the clients that are sampled."""
        return self.K / self.M

    @property
    def spread(self) -> Numbers:
        """G + sigma, which stands in every upper bound."""
        return self.G + self.sigma

    @property
    def square_spread(self) -> Numbers:
        """G^2 + sigma^2."""
        return self.G**2 + self.sigma**2

    @property
    def strong_convexity(self) -> Numbers:
        """mu; raises where F is not strongly convex."""
        require(bool(np.all(self.mu > 0)), "mu is 0: give the strong convexity of F, a number above zero")
        return self.mu

    def steps(self, method: Method) -> Numbers:
        """The s of the theorems: the local steps of FedAvg, 1 for FedProx.

        Example:
            >>> problem = Problem(epsilon=0.0, L=1.0, s=25)
            >>> float(problem.steps("fedavg")), float(problem.steps("fedprox"))
            (25.0, 1.0)
        """
        known = get_args(Method)
        require(method in known, f"the theorems do not speak of {method!r}: {nearest(str(method), known)}")
        return self.s if method == "fedavg" else np.float64(1)

    def over_time(self) -> Problem:
        """The same constants with one more axis at the end, along which time runs.

        Example:
            >>> Problem(epsilon=[0.0, 0.1], L=1.0).over_time().epsilon.shape
            (2, 1)
        """
        return replace(self, **{field.name: np.asarray(getattr(self, field.name))[..., None] for field in fields(self)})

    def _fill(self, name: str, value: Any, low: float = -np.inf) -> None:
        object.__setattr__(self, name, numbers(name, value, low))  # the one way to write into a frozen dataclass

    def _shapes_agree(self, *names: str) -> None:
        shapes = {name: np.shape(getattr(self, name)) for name in names}
        try:
            np.broadcast_shapes(*shapes.values())
        except ValueError:
            seen = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items() if shape)
            raise NoshowError(
                f"the constants' shapes do not fit together ({seen}): give shapes that broadcast"
            ) from None

    def _check(self) -> None:
        highest = float(np.max(self.epsilon))
        require(highest < 1, f"epsilon is {highest}: give a share from 0 up to, but not including, 1")
        require(bool(np.all(self.L > 0)), f"L is {float(np.min(self.L))}: give a number above zero")
        for name in ("s", "K", "M"):
            value = np.ravel(getattr(self, name))
            broken = value[value != np.round(value)]
            require(broken.size == 0, f"{name} is {broken[0] if broken.size else 0}: give a whole number")
        self._at_most("K", "M", "no more clients can be sampled than there are")
        require(bool(np.all(self.beta >= 1)), f"beta is {float(np.min(self.beta))}: the theorems need 1 or more")
        self._at_most("mu", "L", "no function is more strongly convex than it is smooth")
        self._at_most("L_minus", "L", "an L-Lipschitz gradient keeps every curvature above -L")

    def _at_most(self, small: str, large: str, why: str) -> None:
        low, high = getattr(self, small), getattr(self, large)
        require(
            bool(np.all(low <= high)),
            f"{small} is {worst(low - high, low)} and {large} is {worst(low - high, high)}: {why}, "
            f"so give {small} up to {large}",
        )
