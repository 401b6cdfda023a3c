"""What products are computed in. Parameters, sums, adversaries and the server stay float32 whatever is chosen."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jax import lax

from noshow.contracts import Array
from noshow.errors import require

Precision = Literal["float32", "tf32", "bfloat16"]
"""The shortest numbers that products may multiply. A CPU multiplies float32 whatever is asked."""

# JAX's own "bfloat16" means "the fastest", which is tf32 on a GPU: the algorithm's name is what gives bfloat16.
_IN_JAX = {"float32": "float32", "tf32": "tensorfloat32", "bfloat16": "BF16_BF16_F32"}


def products_in(precision: Precision | None) -> AbstractContextManager[None]:
    """Products traced within the context are computed so; `None` leaves it as it is: what the device does by itself.

    That is float32 on a CPU, tf32 on a GPU, bfloat16 on a TPU.

    Example:
        >>> with products_in("bfloat16"):
        ...     bfloat16_allowed()
        True
    """
    if precision is None:
        return nullcontext()
    names = ", ".join(map(repr, get_args(Precision)))
    require(precision in _IN_JAX, f"precision is {precision!r}: give one of {names}")
    return jax.default_matmul_precision(_IN_JAX[precision])


def bfloat16_allowed() -> bool:
    """Whether products that are traced now may be bfloat16: for models that have a kernel for it.

    Example:
        >>> bfloat16_allowed()
        False
    """
    chosen = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    return chosen in ("bfloat16", _IN_JAX["bfloat16"])


def weighted_sum(weights: Array, values: Array) -> Array:
    """sum w_i x_i in float32, whatever products are computed in: weights cut short would weigh clients wrongly.

    Example:
        >>> import jax.numpy as jnp
        >>> weighted_sum(jnp.array([0.5, 0.25]), jnp.array([4.0, 8.0])).tolist()
        4.0
    """
    return jnp.dot(weights, values, precision=lax.Precision.HIGHEST)
