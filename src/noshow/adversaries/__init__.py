"""Whom to silence: an adversary scores the sampled clients, `noshow.budget` enforces the law."""

from noshow.adversaries.plain import anybody, largest_reply, nobody, random_response, round_robin
from noshow.adversaries.replay import replay
from noshow.adversaries.shadow import shadow
from noshow.adversaries.worst_case import least_progress, worst_case

__all__ = [
    "anybody",
    "largest_reply",
    "least_progress",
    "nobody",
    "random_response",
    "replay",
    "round_robin",
    "shadow",
    "worst_case",
]
