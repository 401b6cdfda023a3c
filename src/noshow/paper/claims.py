"""Every claim that the paper makes about experiments, in the order of its text, each with how it is read.

The claims are in our words. Those that no run can confirm or deny are listed as well, and say so.
"""

from __future__ import annotations

from noshow.paper.claims_absences import ABSENCES
from noshow.paper.claims_cifar10 import CIFAR10, CIFAR10_APPENDIX
from noshow.paper.claims_general import GENERAL
from noshow.paper.claims_shakespeare import SHAKESPEARE
from noshow.paper.claims_synthetic import SYNTHETIC, SYNTHETIC_APPENDIX
from noshow.paper.findings import Claim

CLAIMS: tuple[Claim, ...] = (
    *GENERAL,
    *CIFAR10,
    *SHAKESPEARE,
    *SYNTHETIC,
    *CIFAR10_APPENDIX,
    *SYNTHETIC_APPENDIX,
    *ABSENCES,
)
