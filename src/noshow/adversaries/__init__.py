"""Whom to silence: an adversary scores the sampled clients, `noshow.budget` enforces the law."""

from noshow.adversaries.plain import largest_reply, nobody, random_response, round_robin
from noshow.adversaries.shadow import shadow

__all__ = ["largest_reply", "nobody", "random_response", "round_robin", "shadow"]
