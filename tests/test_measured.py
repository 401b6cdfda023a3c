"""`noshow bounds`: overviews against the functions they gather, and a run between its floor and its ceiling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import noshow as ns
from noshow import theory
from noshow.cli import app
from noshow.measured import measure
from noshow.spec import Spec, realise, validate
from noshow.theory.overview import decades


def spec_of(**changes: object) -> Spec:
    settings: dict[str, object] = {
        "name": "between",
        "rounds": 30,
        "sampled": 20,
        "epsilon": 0.05,
        "seeds": [0, 1],
        "evaluate_every": 10,
        "data": {"name": "synthetic", "alpha": 0.0, "beta": 0.0, "clients": 20, "sizes": 30},
        "model": {"name": "logistic"},
        "adversary": {"name": "worst_case"},
        "algorithms": [
            {"name": "fedavg", "rate": 0.002, "steps": 3},
            {"name": "fedavg_variant", "rate": 0.002, "steps": 3},
            {"name": "exact_fedprox_variant", "rate": 0.006},
        ],
    }
    return validate(settings | changes)


class TestMeasured:
    @pytest.mark.long
    def test_the_variants_lie_below_their_ceilings_and_others_have_none(self) -> None:
        spec = spec_of()
        begun: list[str] = []
        measured = measure(spec, realise(spec), begun.append)
        assert begun == spec.labels == list(measured.played)
        assert measured.ceilings["fedavg"].bound is None
        assert "do not speak of it" in measured.ceilings["fedavg"].reason
        for label in ("fedavg_variant", "exact_fedprox_variant"):
            bound = measured.ceilings[label].bound
            assert bound is not None
            assert bound.shape == (30,)
            assert np.all(measured.played[label].diagnostics.mean_square_gradient < bound)
        assert measured.floor == theory.gradient_floor(measured.problem) > 0

    @pytest.mark.long
    def test_the_measured_runs_are_the_runs(self) -> None:
        spec = spec_of(algorithms=[{"name": "fedavg_variant", "rate": 0.002, "steps": 3}])
        parts = realise(spec)
        measured = measure(spec, parts, lambda label: None)
        plain = ns.simulate(
            parts.federation, parts.model, parts.algorithms[0], parts.adversary, **spec.run_settings("fedavg_variant")
        )
        last = np.concatenate([np.ravel(leaf) for leaf in (plain.models[1]["bias"], plain.models[1]["weights"])])
        np.testing.assert_array_equal(np.sort(measured.played["fedavg_variant"].visited[-1]), np.sort(last))

    @pytest.mark.long
    def test_the_chosen_pair_gives_the_lowest_ceiling(self) -> None:
        spec = spec_of(algorithms=[{"name": "fedavg_variant", "rate": 0.002, "steps": 3}])
        measured = measure(spec, realise(spec), lambda label: None)
        run, bound = measured.played["fedavg_variant"], measured.ceilings["fedavg_variant"].bound
        assert bound is not None
        for choice in (1.0, 1.3, 2.0):
            problem = measured.constants.problem(B=choice, epsilon=0.05, K=20, s=3)
            other = theory.non_convex_curve(problem, "fedavg", lambda t: 0.002, 29, run.first_loss)[-1]
            assert bound[-1] <= other * 1.02  # B is chosen on a grid

    @pytest.mark.long
    def test_fresh_batches_every_step_have_no_ceiling(self) -> None:
        spec = spec_of(
            algorithms=[{"name": "fedavg_variant", "rate": 0.002, "steps": 3}],
            data={"name": "synthetic", "clients": 20, "sizes": 30, "batches": "step", "batch_size": 5},
        )
        ceiling = measure(spec, realise(spec), lambda label: None).ceilings["fedavg_variant"]
        assert ceiling.bound is None
        assert "one batch a round" in ceiling.reason

    def test_too_much_absence_has_no_ceiling_and_says_why(self) -> None:
        spec = spec_of(epsilon=0.9, algorithms=[{"name": "fedavg_variant", "rate": 0.05, "steps": 3}])
        ceiling = measure(spec, realise(spec), lambda label: None).ceilings["fedavg_variant"]
        assert ceiling.bound is None
        assert ceiling.reason == "the contraction is not positive"
        assert {"sqrt(epsilon) B", "contraction"} <= {row.name for row in ceiling.conditions if not row.holds}


class TestOverview:
    problem = theory.Problem(epsilon=0.0001, L=1.0, mu=1.0, G=1.0, K=50, M=100, s=4)

    def test_non_convex(self) -> None:
        seen = theory.non_convex_overview(self.problem, "fedavg", 300, gap=2.0)
        rate = theory.decaying_rate(self.problem, "fedavg")
        assert seen.times.tolist() == [1, 10, 100, 300]
        np.testing.assert_allclose(
            seen.explicit[2], theory.non_convex_curve(self.problem, "fedavg", rate, 100, 2.0)[-1]
        )
        np.testing.assert_allclose(seen.closed[3], theory.decaying_rate_corollary(self.problem, "fedavg", 300, 2.0))
        assert np.all(seen.explicit < seen.closed)
        assert seen.floor < seen.limit < seen.explicit[-1]

    def test_strongly_convex(self) -> None:
        seen = theory.strongly_convex_overview(self.problem, "fedprox", 100, distance=3.0)
        rate = theory.inverse_rate(self.problem, "fedprox")
        expected = theory.strongly_convex_curve(self.problem, "fedprox", rate, 10, 3.0)[-1]
        np.testing.assert_allclose(seen.explicit[1], expected)
        assert np.all(seen.explicit < seen.closed)

    def test_bad_numbers_get_a_sentence_not_a_gap(self) -> None:
        with pytest.raises(ns.NoshowError, match="gap is -1"):
            theory.non_convex_overview(self.problem, "fedavg", 10, gap=-1.0)
        with pytest.raises(ns.NoshowError, match="distance is"):
            theory.strongly_convex_overview(self.problem, "fedavg", 10, distance=float("nan"))
        with pytest.raises(ns.NoshowError, match="rounds is 0"):
            theory.non_convex_overview(self.problem, "fedavg", 0, gap=1.0)

    @pytest.mark.parametrize(("last", "times"), [(1, [1]), (9, [1, 9]), (10, [1, 10]), (1000, [1, 10, 100, 1000])])
    def test_decades(self, last: int, times: list[int]) -> None:
        assert decades(last).tolist() == times


class TestCommand:
    def test_constants(self) -> None:
        said = CliRunner().invoke(
            app,
            [
                "bounds",
                "--epsilon",
                "0.01",
                "--L",
                "1",
                "--G",
                "1",
                "--mu",
                "1",
                "--K",
                "100",
                "--M",
                "100",
                "--rounds",
                "100",
            ],
        )
        assert said.exit_code == 0
        assert "0.001263" in said.output  # 0.01 / (8 · 0.99)
        assert "1.306" in said.output
        assert "theta*" in said.output
        assert "sqrt(epsilon) B" in said.output

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ("", "give --epsilon and --L at least"),
            ("--epsilon 1 --L 1", "epsilon is 1.0: give a share from 0"),
            ("--epsilon 0.1 --L 1 --B 0.5", "B is 0.5: give a finite number, at least 1"),
            ("--epsilon 0.1 --L 1 --G -1", "G is -1.0: give a finite number, at least 0"),
            ("--epsilon 0.1 --L 1 --mu 2", "mu is 2.0 and L is 1.0"),
            ("--epsilon 0.1 --L 1 --method fedsgd", "the theorems do not speak of 'fedsgd'"),
            ("no/such/run", "is no run folder"),
            ("no/such/run --epsilon 0.1", "a run brings its own constants"),
            ("no/such/run --mu 0.5", "a run brings its own constants"),
        ],
    )
    def test_nonsense_gets_a_sentence(self, arguments: str, sentence: str) -> None:
        said = CliRunner().invoke(app, ["bounds", *arguments.split()])
        assert isinstance(said.exception, ns.NoshowError)
        assert sentence in str(said.exception)
        assert "\n" not in str(said.exception)

    def test_a_run(self, tmp_path: Path) -> None:
        file, folder = tmp_path / "between.toml", tmp_path / "run"
        file.write_text(spec_of(algorithms=[{"name": "fedavg_variant", "rate": 0.002, "steps": 3}]).to_toml())
        assert CliRunner().invoke(app, ["run", str(file), "--out", str(folder)]).exit_code == 0
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        said = CliRunner().invoke(app, ["bounds", str(folder)])
        assert said.exit_code == 0
        assert "constants at the visited models: L " in said.output
        after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert set(after) - set(before) == {folder / "bounds.png"}
        assert all(after[path] == content for path, content in before.items())
