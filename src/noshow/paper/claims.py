"""Every claim that the paper makes about experiments, in the order of its text, each with how it is read.

The claims are in our words. Those that no run can confirm or deny are listed as well, and say so.
"""

from __future__ import annotations

from noshow.paper.claims_absences import ABSENCES
from noshow.paper.claims_cifar10 import CIFAR10, CIFAR10_APPENDIX
from noshow.paper.claims_general import GENERAL, SCHEME
from noshow.paper.claims_shakespeare import SHAKESPEARE
from noshow.paper.claims_synthetic import SYNTHETIC, SYNTHETIC_APPENDIX
from noshow.paper.findings import Claim

SECTIONS: dict[str, tuple[Claim, ...]] = {
    "Introduction, method and set-up": GENERAL,
    "Section 7.1: the shadow adversary": SCHEME,
    "Section 7.2: CIFAR-10": CIFAR10,
    "Section 7.3: Shakespeare": SHAKESPEARE,
    "Section 7.4: Synthetic(1,1)": SYNTHETIC,
    "Appendix: CIFAR-10": CIFAR10_APPENDIX,
    "Appendix: Synthetic(1,1)": SYNTHETIC_APPENDIX,
    "Appendix: round-robin and random response": ABSENCES,
}
CLAIMS: tuple[Claim, ...] = tuple(claim for claims in SECTIONS.values() for claim in claims)
SETTLED_LATE = (
    *("1b", "2", "7b", "8", "15", "15b", "16", "17", "18", "19", "20", "21b", "23", "24", "25", "25b"),
    *("26", "26b", "27", "29", "30", "31", "32b", "33", "35", "37", "37b", "38", "38b", "40", "41"),
    *("44", "46", "48"),
)
"""Claims whose yardsticks were settled or mended after first results had been seen."""
