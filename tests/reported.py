"""Small run folders for the tests of the report, and what a page says, read back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noshow.diagnostics import Diagnostics
from noshow.evaluate import Metrics
from noshow.history import History, RollCall
from noshow.spec import Spec, realise, validate
from noshow.store import RunFolder

HOSTILE = "</script><img src=x onerror=\"document.title='taken'\"><!-- {{plotly}} ' & \u2028"


def spec_of(**changes: Any) -> Spec:
    settings: dict[str, Any] = {
        "name": "small",
        "description": "Twelve clients",
        "rounds": 40,
        "sampled": 4,
        "epsilon": 0.5,
        "seeds": [3, 5, 9],
        "evaluate_every": 10,
        "diagnose": True,
        "data": {"name": "synthetic", "clients": 12},
        "model": {"name": "logistic"},
        "adversary": {"name": "largest_reply"},
        "algorithms": [
            {"name": "fedavg", "rate": 0.01, "steps": 3},
            {"name": "mifa", "rate": 0.01, "steps": 3},
            {"name": "fedavg", "label": "slow", "rate": 0.001, "steps": 3, "rounds": 20},
        ],
    }
    return validate(settings | changes)


def made(path: Path, **changes: Any) -> Path:
    """A finished run in this folder, of numbers drawn at random: as a run leaves it, without the time one takes."""
    spec = spec_of(**changes)
    sizes = realise(spec).federation.sizes
    folder = RunFolder.of(spec, path)
    folder.path.mkdir(parents=True)
    folder.begin()
    sees_replies = spec.adversary["name"] == "largest_reply"
    for number, label in enumerate(spec.labels):
        rounds, every = spec.length(label)
        rng = np.random.default_rng([number if sees_replies else 0, rounds])
        folder.save(_history(spec, label, np.append(np.arange(0, rounds, every), rounds), sizes, rng))
    return path


def _history(spec: Spec, label: str, evaluated: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> History:
    seeds, rounds, clients = len(spec.seeds), int(evaluated[-1]), len(sizes)
    calls = [rng.permutation(clients)[: spec.sampled] for _ in range(seeds * rounds)]
    ids = np.array(calls, int).reshape(seeds, rounds, spec.sampled)
    limit = spec.sampled * sizes.sum() / clients
    spent = np.cumsum(sizes[ids], axis=2) / limit
    silenced = (spent <= (spec.epsilon or 1.0)) & (np.arange(spec.sampled) < spec.sampled - 1)
    shape = (seeds, len(evaluated))
    scores = Metrics(*(rng.lognormal(size=shape).astype(np.float32) for _ in range(2)), rng.uniform(size=shape))
    seen = None
    if spec.diagnose:
        norms = rng.lognormal(size=(seeds, rounds)).astype(np.float32)
        models = [{"weights": np.zeros(1)}] * seeds
        seen = Diagnostics(np.ones(rounds), norms, None, norms, None, np.zeros(seeds, int), models)
    return History(
        algorithm=label,
        seeds=np.array(spec.seeds),
        evaluated=evaluated,
        scores=scores,
        roll_call=RollCall(ids, ~silenced, np.where(silenced, sizes[ids], 0).sum(2) / limit, spec.epsilon),
        models=[{"weights": np.zeros(1)}] * seeds,
        seconds=1.5,
        seconds_preparing=0.5,
        diagnostics=seen,
    )


def with_law_off(path: Path) -> Path:
    """A finished run of one seed, whose adversary does not look at replies, and without diagnostics."""
    adversary = {"name": "random_response", "probability": 0.6}
    return made(path, name="off", epsilon=None, seeds=[1], diagnose=False, adversary=adversary)


def contents_of(html: str) -> dict[str, Any]:
    """What the page holds."""
    found = re.findall(r'<script type="application/json" id="contents">(.*?)</script>', html, re.DOTALL)
    assert len(found) == 1
    said: dict[str, Any] = json.loads(found[0])
    return said


def diverging(run: Path, label: str, seed: int, after: int) -> None:
    """Make an algorithm's losses no numbers from this round on, as a run that diverges leaves them."""
    file = run / label / "metrics.parquet"
    table = pq.read_table(file)
    lost = (np.asarray(table["seed"]) == seed) & (np.asarray(table["round"]) >= after)
    for name in ("train_loss", "test_loss"):
        values = np.where(lost, np.float32("nan"), np.asarray(table[name]))
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    pq.write_table(table, file)


def make_hostile(run: Path) -> None:
    """Put markup where a run folder holds words that a report shows."""
    spec, about = run / "spec.toml", run / "about.json"
    description = f"description = {json.dumps(HOSTILE)}"
    spec.write_text(re.sub("description = .*", lambda _: description, spec.read_text("utf-8"), count=1), "utf-8")
    about.write_text(json.dumps(json.loads(about.read_text("utf-8")) | {"machine": HOSTILE}), "utf-8")
