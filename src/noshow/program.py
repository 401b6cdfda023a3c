"""One run's place in a compiled program: its state after the last round played, and what it asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noshow import budget, devices
from noshow.contracts import Adversary, Algorithm, Memory, Model
from noshow.ensemble import Ensemble, Run
from noshow.errors import require
from noshow.evaluate import Exam, Metrics
from noshow.federation import Federation
from noshow.local import drawing
from noshow.parameters import unraveller
from noshow.rounds import Record, Setting, State


class Program:
    """A run in a program of its own, or, from `side_by_side`, in one that several runs share."""

    def __init__(
        self,
        setting: Setting,
        federation: Federation,
        prepared: Memory,
        seeds: Sequence[int],
        rates: np.ndarray,
        chunk: int,
        optimum: np.ndarray | None = None,
    ) -> None:
        self._join(Ensemble([Run(setting, prepared, rates, optimum)], federation, seeds, chunk), 0)

    @classmethod
    def side_by_side(
        cls, runs: Sequence[Run], federation: Federation, seeds: Sequence[int], chunk: int
    ) -> list[Program]:
        """Programs of runs whose clients compute alike, played in step: each plays its chunk before any goes on."""
        first = runs[0].setting
        for run in runs:
            alike = run.setting.algorithm.client is first.algorithm.client and run.setting.model is first.model
            require(
                alike and run.setting.precision == first.precision and not run.setting.diagnose,
                f"{run.setting.algorithm.name!r} and {first.algorithm.name!r} can't be played together: give runs of "
                "one model and one client, in one precision and without diagnostics",
            )
        ensemble = Ensemble(runs, federation, seeds, chunk)
        programs = [cls.__new__(cls) for _ in runs]
        for place, program in enumerate(programs):
            program._join(ensemble, place)
        return programs

    def _join(self, ensemble: Ensemble, place: int) -> None:
        self._ensemble, self._place = ensemble, place

    @property
    def t(self) -> int:
        """Rounds played so far."""
        return self._ensemble.rounds_played[self._place]

    @property
    def state(self) -> State:
        """The state after those rounds."""
        return self._ensemble.state(self._place)

    def play(self, most: int) -> Record:
        """Play up to `most` rounds, as many as one chunk holds and as come back within seconds."""
        return self._ensemble.play(self._place, most)

    @property
    def seconds_of_chunk(self) -> float:
        """What the last chunk took; one that several runs share counts for each in equal parts."""
        return self._ensemble.seconds_each

    def evaluate(self, exam: Exam) -> Metrics:
        """The metrics of the models as they are now, one number a seed."""
        return self._ensemble.evaluate(self._place, exam)

    def placed(self, exam: Exam) -> Exam:
        """The exam's arrays on the devices."""
        return self._ensemble.placed(exam)

    def resume(self, state: State, t: int) -> None:
        """Go on from this state, as it was after t rounds."""
        self._ensemble.resume(self._place, state, t)

    @property
    def working_bytes(self) -> int:
        """Memory that a chunk of rounds takes on a device while it is played, beside its inputs and the state."""
        return self._ensemble.working_bytes


def setting_for(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    adversary: Adversary,
    sampled: int,
    epsilon: float,
    seeds: int,
) -> Setting:
    """All that shapes the program, on the devices there are."""
    limit = budget.limit(epsilon, sampled, federation.sizes) if adversary.lawful else None
    drawn = drawing(federation, model, devices.rows_per_tile())
    width = 1 if devices.on_cpu() else seeds * sampled
    return Setting(model, algorithm, adversary, drawn, unraveller(model), sampled, limit, width, 1)
