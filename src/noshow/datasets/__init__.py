"""Data sets as federations."""

from noshow.datasets.cifar10 import cifar10
from noshow.datasets.from_dataset import from_dataset
from noshow.datasets.shakespeare import shakespeare
from noshow.datasets.synthetic import synthetic

__all__ = ["cifar10", "from_dataset", "shakespeare", "synthetic"]
