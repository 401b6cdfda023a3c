"""Small federations that tests share."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# Many tests compile the same programs, in several workers and in processes of their own: compile each once.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _COMPILED = tempfile.TemporaryDirectory(prefix="noshow-tests-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _COMPILED.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import numpy as np
import pytest
from hypothesis import settings

import noshow as ns

# Tests that need data sets find them here; where they are not, those tests skip, and say so.
DATA = Path(os.environ.get("NOSHOW_DATA") or Path(__file__).parents[2] / "shared/data")

# How long an example takes says nothing here: two cores, several workers, and programs that compile.
settings.register_profile("noshow", deadline=None)
settings.load_profile("noshow")


def small_federation(clients: int = 12, seed: int = 0, features: int = 4, classes: int = 3) -> ns.Federation:
    """Ragged clients from 3 to about 200 examples, more than one tile for some of them."""
    rng = np.random.default_rng(seed)
    sizes = rng.permutation(np.geomspace(3, 200, clients).astype(int))

    def client(size: int) -> tuple[np.ndarray, np.ndarray]:
        centre = rng.normal(size=features)
        x = (rng.normal(size=(size, features)) + centre).astype(np.float32)
        return x, rng.integers(0, classes, size).astype(np.int32)

    return ns.Federation.from_clients([client(size) for size in sizes], test=client(50), name="small")


@pytest.fixture(scope="session")
def federation() -> ns.Federation:
    return small_federation()


@pytest.fixture(scope="session")
def model() -> ns.Model:
    return ns.models.logistic(features=4, classes=3)
