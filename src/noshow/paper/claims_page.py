"""The pages of results, as Markdown: every claim of the paper and what became of it, the levels, how they were made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from noshow.errors import require
from noshow.paper import readings
from noshow.paper.claims import CLAIMS, SECTIONS, SETTLED_LATE
from noshow.paper.copies import Copies
from noshow.paper.differences import AUTHORS, DRAWN, differences, in_words
from noshow.paper.evidence_page import EVIDENCE, anchor, evidence_of
from noshow.paper.experiments import COPIES, EXPERIMENTS, SETTINGS
from noshow.paper.figures import Runs
from noshow.paper.findings import CALLED, METRICS, Claim, Evidence, Finding, level_of
from noshow.paper.page_words import MEASURED, OPENING, SECONDS, WORDS, listed
from noshow.paper.results import Curves, Results, notes
from noshow.paper.summary import in_short

Found = Mapping[str, Mapping[str, Mapping[str, Results]]]
"""By setting and experiment, the results of each cell."""


def pages(found: Found, copied: Mapping[str, Copies]) -> dict[str, str]:
    """The whole pages by their files' names, from the results and what was rehearsed on copies, by setting.

    An experiment counts as there when all algorithms of all its cells are finished, and rehearsals when all seeds are.
    """
    seeds = next(iter(_results(found))).spec.seeds
    require(len(seeds) >= 2, "claims are read from the spread over seeds: give two seeds or more")
    evidence = {setting: Evidence(setting, _complete(found[setting]), copied[setting].complete) for setting in SETTINGS}
    read = {claim.number: {setting: claim.finding(evidence[setting]) for setting in SETTINGS} for claim in CLAIMS}
    beside = next(iter(copied.values())).path.parent.parent
    parts = [
        OPENING,
        "## In short\n",
        *_counts([read[claim.number] for claim in CLAIMS if not claim.repeats]),
        "\nWhat matters most; in brackets, how many comparisons hold in `written` and in `published`:\n",
        *in_short(read, evidence),
        f"\n{WORDS}",
        "## Claims\n",
        *_claims(read, beside),
        "## What stands out\n",
        *differences(evidence),
        "\n## Levels\n",
        *_levels(found, evidence),
        f"\n{MEASURED.format(seeds=', '.join(map(str, seeds)), late=listed(SETTLED_LATE))}",
        "## How the results were made\n",
        *_provenance(found, copied),
    ]
    return {
        "README.md": "\n".join(parts) + "\n",
        EVIDENCE: evidence_of([(claim, read[claim.number]) for claim in CLAIMS]),
    }


def _results(found: Found) -> Iterator[Results]:
    for experiments in found.values():
        for cells in experiments.values():
            yield from cells.values()


def _complete(experiments: Mapping[str, Mapping[str, Results]]) -> dict[str, dict[str, Mapping[str, Curves]]]:
    return {
        name: {cell: results.curves() for cell, results in cells.items()}
        for name, cells in experiments.items()
        if all(results.finished == results.spec.labels for results in cells.values())
    }


def _provenance(found: Found, copied: Mapping[str, Copies]) -> Iterator[str]:
    yield "| experiment | setting | there | command | commit | finished (UTC) | machine | seconds in all |"
    yield "|---" * 8 + "|"
    for name in EXPERIMENTS:
        for setting in SETTINGS:
            cells = found[setting].get(name, {})
            facts = [fact for results in cells.values() for fact in _facts(results)]
            asked = sum(len(results.spec.labels) for results in cells.values())
            yield _row(name, setting, f"{len(facts)} of {asked}", *_how(name, setting, facts))
    for setting in SETTINGS:
        facts = copied[setting].facts()
        there = f"{len(facts)} of {copied[setting].asked}"
        yield _row(COPIES, setting, there, *_how(COPIES, setting, facts))
    yield SECONDS


def _facts(results: Results) -> list[dict[str, Any]]:
    known = notes(results.path)
    return [known[label] for label in results.finished]


def _how(name: str, setting: str, facts: Sequence[Mapping[str, Any]]) -> list[str]:
    if not facts:
        return ["not run", "", "", "", ""]
    finished = max(str(fact["finished"]) for fact in facts)
    machines = {f"{', '.join(fact['devices'])} ({fact['machine']}), JAX {fact['jax']}" for fact in facts}
    return [
        f"`noshow reproduce {name} --setting {setting}`",
        ", ".join(sorted({str(fact["commit"]) for fact in facts})),
        finished[:16].replace("T", " "),
        "; ".join(sorted(machines)),
        f"{sum(float(fact['seconds']) for fact in facts):.0f}",
    ]


def _levels(found: Found, evidence: Mapping[str, Evidence]) -> Iterator[str]:
    yield "Over the tail: mean ± spread over seeds, in brackets the roughness. *Authors*: what their own plot of this"
    yield "experiment shows, one seed, to be held against `published`."
    for name, experiment in EXPERIMENTS.items():
        there = {setting: evidence[setting].runs[name] for setting in SETTINGS if name in evidence[setting].runs}
        if there:
            yield f"\n### {name}\n"
            figures = [link for setting in there for link in _figures(name, setting, found[setting][name])]
            yield f"{experiment.shows}. Figures: {', '.join(figures)}.\n"
            yield from _table_of(name, there)


def _figures(name: str, setting: str, cells: Mapping[str, Results]) -> Iterator[str]:
    """Links to the figures beside the cells' results."""
    cell, results = next(iter(cells.items()))
    for file in sorted((results.path.parent if cell else results.path).glob("figure*.png")):
        what = file.stem.removeprefix("figure").replace("-", ", ")
        yield f"[{setting}{what}]({name}/{setting}/{file.name})"


def _table_of(name: str, there: Mapping[str, Runs]) -> Iterator[str]:
    drawn = [f"authors' {CALLED[what]}" for what in METRICS] if name == DRAWN else []
    yield _row("algorithm", *(f"{CALLED[what]}, {setting}" for setting in there for what in METRICS), *drawn)
    yield "|---" * (1 + len(METRICS) * len(there) + len(drawn)) + "|"
    first = next(iter(there.values()))
    for cell, curves in first.items():
        for label in curves:
            numbers = [_level(runs[cell][label], what) for runs in there.values() for what in METRICS]
            known = [in_words(AUTHORS[label][what]) if label in AUTHORS else "" for what in METRICS] if drawn else []
            yield _row(f"{cell} {label}".strip(), *numbers, *known)


def _level(curve: Curves, what: str) -> str:
    return f"{level_of(curve, what)} ({readings.roughness(curve, what).mean():.2g})"


def _claims(read: Mapping[str, Mapping[str, Finding]], beside: Path) -> Iterator[str]:
    titles = [title for setting in SETTINGS for title in (setting, f"measured in {setting}")]
    for section, claims in SECTIONS.items():
        yield f"### {section}\n"
        yield _row("", "claim", "where", *titles)
        yield "|---" * (3 + len(titles)) + "|"
        for claim in claims:
            yield _claim_row(claim, read[claim.number], beside)
        yield ""


def _counts(found: Sequence[Mapping[str, Finding]]) -> Iterator[str]:
    for setting in SETTINGS:
        verdicts = [findings[setting].verdict for findings in found]
        counts = ", ".join(f"{verdict} {verdicts.count(verdict)}" for verdict in VERDICTS if verdict in verdicts)
        yield f"- `{setting}`, {len(verdicts)} claims, those told twice counted once: {counts}."


VERDICTS: tuple[readings.Verdict, ...] = (
    "holds",
    "does not hold",
    "depends",
    "not decidable",
    "not run",
    "no measurement",
)


def _claim_row(claim: Claim, findings: Mapping[str, Finding], beside: Path) -> str:
    written, published = (findings[setting] for setting in SETTINGS)
    words = "the same" if published == written else _measured(claim, published)
    return _row(
        claim.number,
        claim.says,
        "".join([claim.where, *_pictures(claim, beside)]),
        f"**{written.label}**",
        _measured(claim, written),
        f"**{published.label}**",
        words,
    )


def _pictures(claim: Claim, beside: Path) -> Iterator[str]:
    """Links to a claim's pictures, where they are."""
    for setting in SETTINGS if "{setting}" in claim.picture else SETTINGS[:1]:
        file = claim.picture.format(setting=setting)
        if claim.picture and (beside / file).exists():
            yield f"; [ours{f', {setting}' * ('{setting}' in claim.picture)}]({file})"


def _measured(claim: Claim, finding: Finding) -> str:
    if claim.repeats and finding.verdict != "not run":
        return claim.repeats
    return f"{finding.brief} ([All]({EVIDENCE}#{anchor(claim)}).)" if finding.parts else finding.words


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
