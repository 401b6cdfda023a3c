"""The page of results: how they were made, the levels, every claim of the paper and what became of it, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noshow.errors import require
from noshow.paper import readings
from noshow.paper.claims import CLAIMS
from noshow.paper.copies import Copies
from noshow.paper.differences import AUTHORS, DRAWN, differences, in_words
from noshow.paper.experiments import COPIES, EXPERIMENTS, SETTINGS
from noshow.paper.figures import Runs
from noshow.paper.findings import CALLED, METRICS, Claim, Evidence, Finding, level_of
from noshow.paper.results import Curves, Results, notes

Found = Mapping[str, Mapping[str, Mapping[str, Results]]]
"""By setting and experiment, the results of each cell."""

OPENING = """# Results

What the paper's experiments give here, and every claim that the paper makes about them with what became of it.
`noshow reproduce NAME` runs an experiment and draws its figures; `noshow reproduce --claims` writes this page from the
results beside it: its measurements and verdicts are computed; the claims (in our words), the yardsticks below and the
authors' values are ours to choose or read off, and the yardsticks of claims 1, 2, 15, 16, 19, 20, 26, 26b, 27, 37 and
44 and that of one seed were settled or mended after first results had been seen. `written` is the paper's text;
`published` makes the choices of the authors' program where these are settings (docs/differences.md). In the figures,
lines are means over seeds and bands go from the lowest seed to the highest.

How things are measured:

- A *level* is the mean over the *tail*, the evaluations of the last quarter of a run (500 of 2000 rounds), one number a
  seed; then mean ± sample standard deviation over the seeds {seeds}, which is the *spread*.
- Seeds are paired: one seed gives every algorithm the same samples, batches and, unless the adversary looks at replies
  (shakespeare-0.7), silences. *a over b* is the gain of a, seed by seed: more accuracy or less loss, positive where a
  is better.
- *Better*: the gain is positive in every seed and its mean above its own spread; worse likewise; *not decidable* where
  neither is so. With three seeds, one of two equal algorithms would pass by chance about one time in ten, and the other
  as often: a single narrow comparison proves little. *By far*: better, by more than 3 times the larger spread.
- An experiment of one seed (shakespeare-0.7 and -random) has no spread: its numbers stand without ±, and *better* is by
  more than what counts as similar. What another seed would say is not known.
- *Similar*: levels differ by no more than the larger spread, or than 0.01 of accuracy or 5 % of the smaller loss.
- *Roughness*: the standard deviation of the tail around its own straight line. *Smoother*: less rough in every seed.
  Where the median change between successive evaluations (after round 100, or a sixth of a short run) says otherwise,
  the row tells.
- *Converged*: the tail's line moves by less than its roughness, or the loss by less than 2 % between the tail's halves.
- A claim of several comparisons *holds* if all do, *does not hold* if none does and some are denied, and *depends*
  otherwise: to beat all others *depends* where some are beaten, and the row tells how many. It lists all comparisons;
  of more than six, those that do not hold and the tightest that does.

**All seeds share one draw of the data** (`data.seed = 0`): who holds which examples. The spreads show the chance of
samples, batches, silences and first models, not that of the partition.
"""


def page(found: Found, copied: Mapping[str, Copies]) -> str:
    """The whole page, from the results and what was rehearsed on copies, by setting.

    An experiment counts as there when all algorithms of all its cells are finished, and rehearsals when all seeds are.
    """
    seeds = next(iter(_results(found))).spec.seeds
    require(len(seeds) >= 2, "claims are read from the spread over seeds: give two seeds or more")
    evidence = {setting: Evidence(setting, _complete(found[setting]), copied[setting].complete) for setting in SETTINGS}
    parts = [
        OPENING.format(seeds=", ".join(map(str, seeds))),
        "## How the results were made\n",
        *_provenance(found, copied),
        "\n## Levels\n",
        *_levels(evidence),
        "\n## Claims\n",
        *_claims(evidence),
        "\n## What differs and why\n",
        *differences(evidence),
    ]
    return "\n".join(parts) + "\n"


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


def _levels(evidence: Mapping[str, Evidence]) -> Iterator[str]:
    yield "Over the tail: mean ± spread over seeds, in brackets the roughness. *Authors*: what their own plot of this"
    yield "experiment shows, one seed, to be held against `published`."
    for name in EXPERIMENTS:
        there = {setting: evidence[setting].runs[name] for setting in SETTINGS if name in evidence[setting].runs}
        if there:
            yield f"\n### {name}\n"
            yield from _table_of(name, there)


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


def _claims(evidence: Mapping[str, Evidence]) -> Iterator[str]:
    found = [{setting: claim.finding(evidence[setting]) for setting in SETTINGS} for claim in CLAIMS]
    yield from _counts(found)
    yield ""
    titles = [title for setting in SETTINGS for title in (setting, f"measured in {setting}")]
    yield _row("", "claim", "where", *titles)
    yield "|---" * (3 + len(titles)) + "|"
    for claim, findings in zip(CLAIMS, found, strict=True):
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
    words = "the same" if published == written else published.words
    return _row(
        claim.number,
        claim.says,
        claim.where,
        f"**{written.verdict}**",
        written.words,
        f"**{published.verdict}**",
        words,
    )


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
