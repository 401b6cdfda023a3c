"""Data sets as federations."""

from noshow.datasets.synthetic import synthetic

__all__ = ["synthetic"]
