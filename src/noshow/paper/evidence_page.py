"""The page beside the results: all comparisons that claims of many of them are read from, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from noshow.paper.experiments import SETTINGS
from noshow.paper.findings import Claim, Finding

EVIDENCE = "evidence.md"

Read = tuple[Claim, Mapping[str, Finding]]
"""A claim and what is found of it, by setting."""

OPENING = """# Every comparison

What stands behind those claims on [the page of results](README.md) that rest on more comparisons than a row has room
for. `noshow reproduce --claims` writes both; how things are measured is told there.
"""


def evidence_of(read: Sequence[Read]) -> str:
    """The whole page."""
    return "\n".join([OPENING, *(line for claim, findings in read for line in _claim(claim, findings))])


def anchor(claim: Claim) -> str:
    """Where the claim stands on the page."""
    return f"claim-{claim.number}"


def _claim(claim: Claim, findings: Mapping[str, Finding]) -> Iterator[str]:
    told = [(setting, findings[setting]) for setting in SETTINGS if findings[setting].parts]
    if not told or claim.repeats:
        return
    yield f"## Claim {claim.number}\n\n{claim.says}\n"
    for setting, finding in told:
        yield f"*{setting}*: **{finding.label}**.\n"
        yield from (f"- {part.verdict}: {part.words}" for part in finding.parts)
        yield ""
