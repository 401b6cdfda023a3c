"""Models, as pairs of `init` and `measure`."""

from noshow.models.logistic import logistic

__all__ = ["logistic"]
