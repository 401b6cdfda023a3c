"""Models, as pairs of `init` and `measure`."""

from noshow.models.adapters import from_equinox, from_flax, from_nnx
from noshow.models.char_lstm import char_lstm
from noshow.models.lenet5 import lenet5
from noshow.models.logistic import logistic
from noshow.models.quadratic import quadratic

__all__ = ["char_lstm", "from_equinox", "from_flax", "from_nnx", "lenet5", "logistic", "quadratic"]
