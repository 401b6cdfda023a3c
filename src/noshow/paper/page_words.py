"""What the page of results says whatever was measured: what it is, what names mean, how things are measured."""

from __future__ import annotations

from collections.abc import Sequence

OPENING = """# Results

What does the paper say of its experiments, and does it hold here? Below is every claim that it makes about them, in our
words: where no measurement decides, the row says so. *Read as* is our reading of it. `written` is the paper's text;
`published` makes the choices of the authors' program where these are settings
([what differs](../docs/differences.md)). Then come the levels of every algorithm,
[how things are measured](#how-things-are-measured), and [how the results were made](#how-the-results-were-made).

`noshow reproduce NAME` runs an experiment and draws its figures; `noshow reproduce --claims` writes this page from the
results beside it, and [every comparison](evidence.md) that the claims are read from. In the figures, lines are means
over seeds, smoother than any one seed, and bands go from the lowest seed to the highest.
"""

WORDS = """## Words

M clients hold N examples, client i the share w_i of them. In every round K clients are sampled, and some stay silent.

- *epsilon* is the law: how large a share of a round's data may be silenced. *epsilon_t* is what was in round t: the
  silenced clients' examples over K N / M, which is what K clients hold on average.
- `fedavg`, `fedprox`: plain averages of what those who answer send; FedProx's clients are held near the model by mu.
- `fedavg_variant`, `fedprox_variant`: *the variants*, what the paper proposes. An answer counts w_i, whoever else
  answers, and the sum is amplified by beta = M/K. The plain ones are their *originals*.
- `mifa`: the mean over all clients, of those who are silent the last that they sent.
- `gm`, `cclip`: the Byzantine-resilient rules, geometric median and centred clipping of the clients' momenta, which are
  remembered as in MIFA. `bucketing_gm`, `bucketing_cclip`: the same rules of the means of random pairs of them.
"""

MEASURED = """## How things are measured

Measurements and verdicts are computed; the claims (in our words), the yardsticks below and the authors' values are ours
to choose or read off, and the yardsticks of claims {late} and that of one seed were settled or mended after first
results had been seen. So was which findings stand at the top; a line is there only while its numbers bear it out.

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
- An experiment of one seed (shakespeare-0.7 and -random) has no spread: its numbers stand without ±, *better* is by
  more than what counts as similar, and *smoother* is by however little. What another seed would say is not known. Its
  loss and accuracy are over 20,000 examples, those of the others over all.
- *Similar*: mean levels differ by no more than 0.01 of accuracy or 5 % of the smaller loss; not so where one is better;
  not decidable otherwise.
- *Roughness*: the standard deviation of the tail around its own straight line. *Smoother*: less rough in every seed.
  Where the median change between successive evaluations (after round 100, or a sixth of a short run) says otherwise,
  the evidence tells.
- *Converged*, or at rest: the tail's roughness is within what counts as similar, and so is four times the drift of its
  straight line, which a run twice as long would show; a drift below the roughness cannot be told from it.
- *Learns nothing*: more than half of the tail's evaluations give one accuracy, within 0.03 of that at the start.
- A claim of several comparisons *holds* if all do, *does not hold* if none does and some are denied, and *depends*
  otherwise; in brackets, how many of them hold. Of many a row tells the tightest of those that hold, and the clearest
  of those that do not.

**All seeds share one draw of the data** (`data.seed = 0`): who holds which examples. The spreads show the chance of
samples, batches, silences and first models, not that of the partition.
"""

SECONDS = """
Seconds are those that passed. [Where two commands shared the GPU](../docs/experiments.md#results) they took longer.

[How noshow differs from the authors' program](../docs/differences.md) tells what thirty seeds of cifar10-0.8
(`published`) give; they are in `thirty-seeds`."""


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them.

    Example:
        >>> listed(["1b", "2", "8"])
        '1b, 2 and 8'
    """
    return f"{', '.join(names[:-1])} and {names[-1]}"
