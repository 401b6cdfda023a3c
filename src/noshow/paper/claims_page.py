"""The pages of results, as Markdown: how they were made, the levels, every claim of the paper and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noshow.errors import require
from noshow.paper import readings
from noshow.paper.claims import CLAIMS
from noshow.paper.copies import Copies
from noshow.paper.differences import AUTHORS, DRAWN, differences, in_words
from noshow.paper.evidence_page import EVIDENCE, Read, anchor, evidence_of
from noshow.paper.experiments import COPIES, EXPERIMENTS, SETTINGS
from noshow.paper.figures import Runs
from noshow.paper.findings import CALLED, METRICS, Claim, Evidence, Finding, level_of
from noshow.paper.results import Curves, Results, notes

Found = Mapping[str, Mapping[str, Mapping[str, Results]]]
"""By setting and experiment, the results of each cell."""

OPENING = """# Results

What the paper's experiments give here, and every claim that the paper makes about them with what became of it.
`noshow reproduce NAME` runs an experiment and draws its figures; `noshow reproduce --claims` writes this page from the
results beside it, and [every comparison](evidence.md) that the claims are read from. Measurements and verdicts are
computed; the claims (in our words), the yardsticks below and the authors' values are ours to choose or read off, and
the yardsticks of claims 1, 2, 8, 15, 16, 17, 18, 19, 20, 23, 26, 26b, 27, 30, 31, 33, 35, 37, 38 and 44 and that of
one seed were settled or mended after first results had been seen. `written` is the paper's text; `published` makes the
choices of the authors' program where these are settings ([what differs](../docs/differences.md)). In the figures, lines
are means over seeds, smoother than any one seed, and bands go from the lowest seed to the highest.

How things are measured:

- A *level* is the mean over the *tail*, the evaluations of the last quarter of a run (500 of 2000 rounds), one number a
  seed; then mean ± sample standard deviation over the seeds {seeds}, which is the *spread*.
- Seeds are paired: one seed gives every algorithm the same samples, batches and, unless the adversary looks at replies
  (shakespeare-0.7), silences. *a over b* is the gain of a, seed by seed: more accuracy or less loss, positive where a
  is better.
- *Better*: the gain is positive in every seed and its mean above its own spread; worse likewise; *not decidable* where
  neither is so. With three seeds, one of two equal algorithms would pass by chance about one time in ten, and the other
  as often: a single narrow comparison proves little. *By far*: better, by more than 3 times the larger spread.
- *Best*, or to beat all others: better than each, by accuracy and by loss alike. Who is clearly worse than one is not
  the best, however many are beaten.
- An experiment of one seed (shakespeare-0.7 and -random) has no spread: its numbers stand without ±, and *better* is by
  more than what counts as similar. What another seed would say is not known.
- *Similar*: levels differ by no more than the larger spread, or than 0.01 of accuracy or 5 % of the smaller loss.
- *Roughness*: the standard deviation of the tail around its own straight line. *Smoother*: less rough in every seed.
  Where the median change between successive evaluations (after round 100, or a sixth of a short run) says otherwise,
  the evidence tells.
- *Converged*, or at rest: the tail's roughness is within what counts as similar, and so is four times the drift of its
  straight line, which a run twice as long would show; a drift below the roughness cannot be told from it.
- A claim of several comparisons *holds* if all do, *does not hold* if none does and some are denied, and *depends*
  otherwise. A row tells of many comparisons how many come out how: of those that hold the tightest, of those that do
  not the clearest.

**All seeds share one draw of the data** (`data.seed = 0`): who holds which examples. The spreads show the chance of
samples, batches, silences and first models, not that of the partition.
"""


def pages(found: Found, copied: Mapping[str, Copies]) -> dict[str, str]:
    """The whole pages by their files' names, from the results and what was rehearsed on copies, by setting.

    An experiment counts as there when all algorithms of all its cells are finished, and rehearsals when all seeds are.
    """
    seeds = next(iter(_results(found))).spec.seeds
    require(len(seeds) >= 2, "claims are read from the spread over seeds: give two seeds or more")
    evidence = {setting: Evidence(setting, _complete(found[setting]), copied[setting].complete) for setting in SETTINGS}
    read = [(claim, {setting: claim.finding(evidence[setting]) for setting in SETTINGS}) for claim in CLAIMS]
    parts = [
        OPENING.format(seeds=", ".join(map(str, seeds))),
        "## How the results were made\n",
        *_provenance(found, copied),
        "\n## Levels\n",
        *_levels(found, evidence),
        "\n## Claims\n",
        *_claims(read),
        "\n## What stands out\n",
        *differences(evidence),
    ]
    return {"README.md": "\n".join(parts) + "\n", EVIDENCE: evidence_of(read)}


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
    yield "\nSeconds are those that passed. Two commands shared the GPU, and took longer, at commits 296e540 and"
    yield "3ef91fd, and for cifar10-long and shakespeare-random at a04374a."
    yield "\ndocs/differences.md tells what thirty seeds of cifar10-0.8 (`published`) give; they are in `thirty-seeds`."


def _facts(results: Results) -> list[dict[str, Any]]:
    known = notes(results.path)
    return [known[label] for label in results.finished]


def _how(name: str, setting: str, facts: Sequence[Mapping[str, Any]]) -> list[str]:
    if not facts:
        return ["not run", "", "", "", ""]
    # An algorithm's facts are noted when it is finished.
    finished = max(str(fact["started"]) for fact in facts)
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


def _claims(read: Sequence[Read]) -> Iterator[str]:
    yield from _counts([findings for _, findings in read])
    yield ""
    titles = [title for setting in SETTINGS for title in (setting, f"measured in {setting}")]
    yield _row("", "claim", "where", *titles)
    yield "|---" * (3 + len(titles)) + "|"
    for claim, findings in read:
        yield _claim_row(claim, findings)


def _counts(found: Sequence[Mapping[str, Finding]]) -> Iterator[str]:
    for setting in SETTINGS:
        verdicts = [findings[setting].verdict for findings in found]
        counts = ", ".join(f"{verdict} {verdicts.count(verdict)}" for verdict in VERDICTS if verdict in verdicts)
        yield f"- `{setting}`, {len(verdicts)} claims: {counts}."


VERDICTS: tuple[readings.Verdict, ...] = (
    "holds",
    "does not hold",
    "depends",
    "not decidable",
    "not run",
    "no measurement",
)


def _claim_row(claim: Claim, findings: Mapping[str, Finding]) -> str:
    written, published = (findings[setting] for setting in SETTINGS)
    words = "the same" if published == written else _measured(claim, published)
    return _row(
        claim.number,
        claim.says,
        claim.where,
        f"**{written.verdict}**",
        _measured(claim, written),
        f"**{published.verdict}**",
        words,
    )


def _measured(claim: Claim, finding: Finding) -> str:
    return f"{finding.brief} ([All]({EVIDENCE}#{anchor(claim)}).)" if finding.parts else finding.words


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
