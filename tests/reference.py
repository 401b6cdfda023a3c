"""Federated learning, slow and obvious: float64 NumPy, loops and all. Shares no code with the engine.

The engine's choices (who was sampled and silenced, which examples and buckets were drawn) are its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass
class Problem:
    """Logistic regression over clients; theta is (bias, weights) as one vector, bias first."""

    clients: list[tuple[np.ndarray, np.ndarray]]
    sizes: list[int]
    features: int
    classes: int
    batch: Callable[[int, int, int], list[int]]  # (round, client, step) -> rows of the client's own data

    def gradient(self, theta: np.ndarray, client: int, rows: list[int]) -> np.ndarray:
        x, y = self.clients[client]
        bias = theta[: self.classes]
        weights = theta[self.classes :].reshape(self.classes, self.features)
        total = np.zeros_like(theta)
        for row in rows:
            logits = [
                bias[c] + sum(weights[c, f] * float(x[row, f]) for f in range(self.features))
                for c in range(self.classes)
            ]
            top = max(logits)
            shares = [math.exp(logit - top) for logit in logits]
            for c in range(self.classes):
                error = shares[c] / sum(shares) - (1.0 if y[row] == c else 0.0)
                total[c] += error
                for f in range(self.features):
                    total[self.classes + c * self.features + f] += error * float(x[row, f])
        return total / len(rows)

    @property
    def weights(self) -> list[float]:
        return [size / sum(self.sizes) for size in self.sizes]


@dataclass
class Choices:
    """What happened in each round of the engine's run."""

    responders: list[list[int]]
    shuffles: list[list[int]]  # point i goes to place shuffles[t][i]


@dataclass
class Hyper:
    """Settings of one algorithm."""

    name: str
    rate: float
    steps: int = 1
    mu: float = 0.0
    momentum: float = 0.9
    damping: float = 0.1
    beta: float = 1.0
    radius: float = 100.0


def train(problem: Problem, hyper: Hyper, choices: Choices) -> np.ndarray:
    """The model after all rounds."""
    d = problem.classes * (problem.features + 1)
    m = len(problem.clients)
    theta = np.zeros(d)
    remembered = [np.zeros(d) for _ in range(m)]
    buffers = [np.zeros(d) for _ in range(m)]
    for t, responders in enumerate(choices.responders):
        replies = {}
        for i in responders:
            if hyper.name in ("fedavg", "fedavg_variant", "mifa"):
                z = theta.copy()
                for step in range(hyper.steps):
                    z = z - hyper.rate * problem.gradient(z, i, problem.batch(t, i, step))
                replies[i] = z - theta
            elif hyper.name in ("fedprox", "fedprox_variant"):
                z, v = theta.copy(), np.zeros(d)
                for step in range(hyper.steps):
                    slope = problem.gradient(z, i, problem.batch(t, i, step)) + hyper.mu * (z - theta)
                    v = hyper.momentum * v + hyper.damping * slope
                    z = z - hyper.rate * v
                replies[i] = z - theta
            else:
                slope = problem.gradient(theta, i, problem.batch(t, i, 0))
                buffers[i] = hyper.momentum * buffers[i] + hyper.damping * slope
                replies[i] = buffers[i]

        if hyper.name in ("fedavg", "fedprox"):
            heard = sum(problem.weights[i] for i in responders)
            for i in responders:
                theta = theta + problem.weights[i] / heard * replies[i]
        elif hyper.name in ("fedavg_variant", "fedprox_variant"):
            theta = theta + hyper.beta * sum(problem.weights[i] * replies[i] for i in responders)
        elif hyper.name == "mifa":
            for i in responders:
                remembered[i] = -replies[i] / hyper.rate
            theta = theta - hyper.rate * sum(problem.weights[i] * remembered[i] for i in range(m))
        else:
            for i in responders:
                remembered[i] = replies[i]
            points, weights = remembered, problem.weights
            if hyper.name.startswith("bucketing"):
                points, weights = buckets_of_two(points, problem.sizes, choices.shuffles[t])
            rule = geometric_median if hyper.name.endswith("gm") else lambda p, w: centred_clip(p, w, hyper.radius)
            theta = theta - hyper.rate * rule(points, weights)
    return theta


def geometric_median(points: list[np.ndarray], weights: list[float]) -> np.ndarray:
    v = np.zeros_like(points[0])
    for _ in range(8):
        pulls = [w / max(0.1, math.sqrt(sum((v - x) ** 2))) for w, x in zip(weights, points, strict=True)]
        v = sum(p * x for p, x in zip(pulls, points, strict=True)) / sum(pulls)
    return v


def centred_clip(points: list[np.ndarray], weights: list[float], radius: float) -> np.ndarray:
    v = np.zeros_like(points[0])
    for _ in range(3):
        move = np.zeros_like(v)
        for w, x in zip(weights, points, strict=True):
            distance = math.sqrt(sum((x - v) ** 2))
            move += w * (x - v) * (1.0 if distance <= radius else radius / distance)
        v = v + move
    return v


def buckets_of_two(
    points: list[np.ndarray], sizes: list[int], places: list[int]
) -> tuple[list[np.ndarray], list[float]]:
    buckets: dict[int, list[int]] = {}
    for i, place in enumerate(places):
        buckets.setdefault(place // 2, []).append(i)
    means, weights = [], []
    for members in buckets.values():
        n = sum(sizes[i] for i in members)
        means.append(sum(sizes[i] * points[i] for i in members) / n)
        weights.append(n / sum(sizes))
    return means, weights
