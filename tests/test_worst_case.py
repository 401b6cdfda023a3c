"""The strongest adversaries of one round, against every set of silences tried one by one in double precision."""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import small_federation
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

import noshow as ns
from noshow import budget
from noshow.spec import realise, validate

V = ns.adversaries
KEY = jax.random.key(0)
MODEL = ns.models.logistic(features=4, classes=3)
module = importlib.import_module("noshow.adversaries.worst_case")  # the name `worst_case` there is the function
KINDS = [(name, server) for name in ("worst_case", "least_progress") for server in ("amplify", "average")]


def adversary(name: str, server: str) -> ns.Adversary:
    return getattr(V, name)(server)  # type: ignore[no-any-return]


def update(replies: np.ndarray, weights: np.ndarray, silenced: np.ndarray, server: str) -> np.ndarray:
    """What the server adds to theta, up to beta, by its definition."""
    heard = ~silenced
    total = weights[heard] @ replies[heard]
    return total / weights[heard].sum() if server == "average" else total


def harm(name: str, server: str, scene: dict[str, np.ndarray], silenced: np.ndarray) -> float:
    """How far the update moves, or by how much less it descends, for these silences."""
    everybody = np.zeros(len(silenced), bool)
    moved = update(scene["replies"], scene["weights"], silenced, server)
    taken = update(scene["replies"], scene["weights"], everybody, server) - moved
    return float(np.linalg.norm(taken)) if name == "worst_case" else float(-scene["gradient"] @ taken)


def allowed_sets(sizes: np.ndarray, limit: int) -> list[np.ndarray]:
    sets = [np.array(bits, bool) for bits in itertools.product([False, True], repeat=len(sizes))]
    return [silenced for silenced in sets if not silenced.all() and sizes[silenced].sum() <= limit]


def as_seen(scene: dict[str, np.ndarray], limit: int | jax.Array | None) -> ns.Scene:
    arrays = {key: jnp.asarray(value, jnp.float32) for key, value in scene.items() if key != "sizes"}
    sizes = jnp.asarray(scene["sizes"], jnp.int32)
    return ns.Scene(jnp.asarray(0), jnp.arange(len(sizes)), sizes, theta=jnp.zeros(3), limit=limit, **arrays)


@st.composite
def rounds(draw: st.DrawFn, sampled: int) -> tuple[dict[str, np.ndarray], int]:
    """Replies, sizes, the gradient, and the limit; replies in thirds, so that some agree and some cancel."""
    thirds = st.integers(-9, 9).map(lambda n: n / 3)
    vectors = st.lists(st.lists(thirds, min_size=3, max_size=3), min_size=sampled, max_size=sampled)
    sizes = np.array(draw(st.lists(st.integers(1, 40), min_size=sampled, max_size=sampled)))
    scene = {
        "replies": np.array(draw(vectors)),
        "sizes": sizes,
        "weights": sizes / 1000,
        "gradient": np.array(draw(st.lists(thirds, min_size=3, max_size=3))),
    }
    return scene, draw(st.integers(0, int(sizes.sum())))


def chooser(name: str, server: str) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """Whom the adversary wants, and whom the law then silences."""

    @jax.jit
    def choose(scene: dict[str, jax.Array], limit: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        scores = adversary(name, server).score(None, KEY, as_seen(scene, limit))  # type: ignore[arg-type]
        return scores, budget.silence(KEY, scores, jnp.asarray(scene["sizes"], jnp.int32), limit)  # type: ignore[arg-type]

    return choose


CHOOSERS = {kind: chooser(*kind) for kind in KINDS}


@pytest.mark.parametrize("sampled", [1, 6])
@pytest.mark.parametrize(("name", "server"), KINDS)
def test_no_lawful_set_does_more_harm(name: str, server: str, sampled: int) -> None:
    @given(rounds(sampled))
    @settings(max_examples=60)
    def law(case: tuple[dict[str, np.ndarray], int]) -> None:
        scene, limit = case
        scores, silenced = map(np.asarray, CHOOSERS[name, server](scene, limit))
        assert np.array_equal(silenced, scores > -np.inf), "the law silences exactly whom the adversary chose"
        assert not silenced.all()
        assert scene["sizes"][silenced].sum() <= limit
        most = max(harm(name, server, scene, each) for each in allowed_sets(scene["sizes"], limit))
        assert harm(name, server, scene, silenced) == pytest.approx(most, rel=1e-4, abs=1e-4)

    law()


def silenced_by(name: str, server: str, limit: int | None, **scene: object) -> list[int]:
    arrays = {key: np.asarray(value) for key, value in scene.items()}
    arrays.setdefault("weights", arrays["sizes"] / arrays["sizes"].sum())
    scores, _ = CHOOSERS[name, server](arrays, limit)
    return np.flatnonzero(np.asarray(scores) > -np.inf).tolist()


def test_by_hand() -> None:
    replies, sizes = [[3.0, 0.0], [0.0, 3.0], [2.0, 2.0], [-3.5, 0.0]], [10, 10, 10, 10]
    # Two may go. As sums: |r_0 + r_2| = |(5, 2)| = |r_1 + r_2| = 5.39, |r_0 + r_1| = 4.24, |r_3 + r_1| = 4.61.
    assert silenced_by("worst_case", "amplify", 20, replies=replies, sizes=sizes) in ([0, 2], [1, 2])
    # One may go: the longest.
    assert silenced_by("worst_case", "amplify", 19, replies=replies, sizes=sizes) == [3]
    # As means, around (0.375, 1.25): without 0 and 2 the mean is (-1.75, 1.5), 2.14 away; without 1 and 2,
    # (-0.25, 0), 1.40; without 0 and 1, (-0.75, 1), 1.15; without 1 and 3, (2.5, 1), 2.14; without 2 and 3,
    # (1.5, 1.5), 1.15; without 0 and 3, (1, 2.5), 1.40.
    assert silenced_by("worst_case", "average", 20, replies=replies, sizes=sizes) in ([0, 2], [1, 3])
    # Downhill is -gradient = (1, 0): 3 climbs by itself, and whoever descends is silenced, 0 before 2.
    downhill = [-1.0, 0.0]
    assert silenced_by("least_progress", "amplify", 20, replies=replies, sizes=sizes, gradient=downhill) == [0, 2]
    assert silenced_by("least_progress", "amplify", 10, replies=replies, sizes=sizes, gradient=downhill) == [0]
    # A mean descends less without 1 too, whose own step is level, once all who descend may go.
    assert silenced_by("least_progress", "average", 30, replies=replies, sizes=sizes, gradient=downhill) == [0, 1, 2]
    assert silenced_by("least_progress", "amplify", 30, replies=replies, sizes=sizes, gradient=downhill) == [0, 2]


def test_with_the_law_off_only_somebody_must_answer() -> None:
    assert silenced_by("worst_case", "amplify", None, replies=np.ones((4, 2)), sizes=[9, 9, 9, 8]) == [0, 1, 2]


@pytest.mark.parametrize("sampled", [3, 13])
def test_nothing_to_gain_silences_nobody(sampled: int) -> None:
    """Replies of zero, and a round in which everybody climbs already."""
    nothing = {"replies": np.zeros((sampled, 2)), "sizes": [1] * sampled, "gradient": [1.0, 1.0]}
    climbing = nothing | {"replies": np.ones((sampled, 2))}
    assert [silenced_by(name, server, sampled, **nothing) for name, server in KINDS] == [[]] * 4
    assert silenced_by("least_progress", "amplify", sampled, **climbing) == []


@pytest.mark.parametrize(("name", "server"), KINDS)
def test_a_reply_that_is_subtracted_counts_the_other_way_round(name: str, server: str) -> None:
    rng = np.random.default_rng(3)
    replies = rng.normal(size=(6, 3))
    scene = {"sizes": rng.integers(1, 9, 6), "weights": np.full(6, 0.1), "gradient": rng.normal(size=3)}
    added = as_seen(scene | {"replies": replies}, 15)
    subtracted = as_seen(scene | {"replies": -7 * replies}, 15)._replace(sends="gradient")
    score = adversary(name, server).score
    assert np.array_equal(score(None, KEY, added), score(None, KEY, subtracted))
    assert np.any(np.asarray(score(None, KEY, added)) == 0)


def grown(name: str, server: str, scene: dict[str, np.ndarray], limit: int) -> np.ndarray:
    """The greedy set, one client at a time."""
    silenced = np.zeros(len(scene["sizes"]), bool)
    while True:
        larger = [silenced | (np.arange(len(silenced)) == i) for i in np.flatnonzero(~silenced)]
        larger = [each for each in larger if not each.all() and scene["sizes"][each].sum() <= limit]
        best = max(larger, key=lambda each: harm(name, server, scene, each), default=silenced)
        if harm(name, server, scene, best) <= harm(name, server, scene, silenced):
            return silenced
        silenced = best


@pytest.mark.parametrize(("name", "server"), KINDS)
def test_many_clients_are_chosen_greedily(name: str, server: str) -> None:
    rng = np.random.default_rng(5)
    for limit in (0, 40, 130):
        sizes = rng.integers(1, 30, 16)
        gradient = rng.normal(size=3)
        scene = {"replies": rng.normal(size=(16, 3)), "sizes": sizes, "weights": sizes / 999, "gradient": gradient}
        scores, silenced = map(np.asarray, CHOOSERS[name, server](scene, limit))
        assert np.array_equal(silenced, scores > -np.inf)
        assert np.array_equal(silenced, grown(name, server, scene, limit))
        assert silenced.any() == (limit > 0)


def test_up_to_twelve_clients_the_best_set_is_found_where_greed_fails() -> None:
    """The largest first leaves no room for the two that together would do more."""
    scene = {"gradient": [-1.0], "replies": [[6.5 / 6], [1.0], [1.0]], "sizes": [6, 5, 5]}
    padded = {"gradient": [-1.0], "replies": [*scene["replies"], *[[0.0]] * 10], "sizes": [6, 5, 5, *[1] * 10]}
    assert module.MOST_ENUMERATED == 12 < len(padded["sizes"])
    assert silenced_by("least_progress", "amplify", 10, **scene) == [1, 2]
    assert silenced_by("least_progress", "amplify", 10, **padded) == [0]


def full_gradient_of(federation: ns.Federation, params: dict[str, np.ndarray]) -> np.ndarray:
    """sum w_i (mean over client i's examples of the softmax gradient), in double precision."""
    total = np.zeros(15)
    for client, weight in enumerate(federation.sizes / federation.sizes.sum()):
        x, y = federation.of_client(client)
        x = np.asarray(x, np.float64)
        error = softmax(x @ np.asarray(params["weights"], np.float64).T + np.asarray(params["bias"]), 1) - np.eye(3)[y]
        total += weight * np.concatenate([error.mean(0), (error.T @ x / len(y)).ravel()])  # bias comes before weights
    return total


@pytest.mark.parametrize("server", ["amplify", "average"])
def test_the_servers_do_without_the_absent_what_is_said_here(server: str) -> None:
    rng = np.random.default_rng(1)
    replies, weights, silenced = rng.normal(size=(4, 3)), rng.uniform(size=4), np.array([True, False, True, False])
    arrived = ns.Replies(*map(jnp.asarray, (replies, np.arange(4), ~silenced, weights, weights)), KEY)
    _, theta = getattr(ns.servers, server)().step(None, jnp.zeros(3), arrived, 0.1)
    np.testing.assert_allclose(theta, update(replies, weights, silenced, server), rtol=1e-5)  # beta = M/K = 1 here


class TestInARun:
    def watched(self, who: ns.Adversary, federation: ns.Federation) -> tuple[ns.History, list[dict[str, np.ndarray]]]:
        """Three rounds of two seeds, and what the adversary saw and said in each, in no particular order."""
        notes: list[dict[str, np.ndarray]] = []

        def score(state: object, key: jax.Array, scene: ns.Scene) -> jax.Array:
            assert (scene.limit, scene.sends) == (budget.limit(0.5, 5, federation.sizes), "displacement")
            scores = who.score(state, key, scene)
            seen = {"t": scene.t, "theta": scene.theta, "ids": scene.ids, "scores": scores}
            shown = {"replies": scene.replies, "weights": scene.weights, "gradient": scene.gradient}
            jax.debug.callback(lambda **note: notes.append(jax.tree.map(np.asarray, note)), **seen, **shown)
            return scores

        plan = {"sampled": 5, "epsilon": 0.5, "rounds": 3, "seeds": [0, 1]}
        algorithm = ns.algorithms.fedavg_variant(0.3, steps=2)
        history = ns.simulate(federation, MODEL, algorithm, who._replace(score=score), **plan)  # type: ignore[arg-type]
        jax.effects_barrier()
        assert len({(int(note["t"]), note["ids"].tobytes()) for note in notes}) == 6
        return history, notes

    @pytest.mark.parametrize(("server", "batches", "on_cpu"), [("amplify", "full", True), ("average", "step", False)])
    def test_the_strongest_is_told_the_gradient_and_silences_the_worst_set(
        self, server: str, batches: str, on_cpu: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With small batches w_i follows what clients draw, and F_i still is the mean over all they hold."""
        monkeypatch.setattr("noshow.devices.on_cpu", lambda: on_cpu)
        federation = small_federation().drawing(batches, 20)  # type: ignore[arg-type]
        history, notes = self.watched(adversary("least_progress", server), federation)
        call, most = history.roll_call, budget.limit(0.5, 5, federation.sizes)
        for note in notes:
            params = {"bias": note["theta"][:3], "weights": note["theta"][3:].reshape(3, 4)}
            np.testing.assert_allclose(note["gradient"], full_gradient_of(federation, params), rtol=1e-4, atol=1e-6)
            t, silenced = int(note["t"]), note["scores"] > -np.inf
            seed = next(s for s in (0, 1) if np.array_equal(call.sampled[s, t], note["ids"]))
            assert np.array_equal(silenced, ~call.answered[seed, t])
            sets = allowed_sets(federation.sizes[note["ids"]], most)
            worst = max(harm("least_progress", server, note, each) for each in sets)
            assert harm("least_progress", server, note, silenced) == pytest.approx(worst, rel=1e-3)
        assert not call.answered.all()

    @pytest.mark.parametrize("sees_replies", [False, True])
    @pytest.mark.parametrize("sees_gradient", [False, True])
    def test_an_adversary_is_shown_what_it_asks_for_and_nothing_else(
        self, sees_replies: bool, sees_gradient: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not sees_gradient:
            monkeypatch.setattr("noshow.rounds.full_gradients", None)  # nobody may work it out
        shown: dict[str, object] = {}

        def score(state: object, key: jax.Array, scene: ns.Scene) -> jax.Array:
            shown.update(scene._asdict())
            raise InterruptedError("seen enough")

        who = ns.Adversary(score, sees_replies=sees_replies, sees_gradient=sees_gradient)
        with pytest.raises(InterruptedError):
            ns.simulate(small_federation(), MODEL, ns.algorithms.cclip(0.1), who, sampled=5, epsilon=0.5, rounds=1)
        assert [shown[part] is not None for part in ("replies", "gradient")] == [sees_replies, sees_gradient]
        assert shown["sends"] == "gradient"


MANY_DEVICES = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", 3)
import jax.numpy as jnp
import numpy as np
import noshow as ns
from noshow import devices
from noshow.full_gradient import example_shares, full_gradient
from noshow.local import drawing, holdings
from noshow.parameters import flat_losses, unraveller
sys.path.insert(0, sys.argv[1])
from conftest import small_federation
federation, model = small_federation().drawing("round", 20), ns.models.logistic(features=4, classes=3)
for count in (1, 2, 3):
    mesh = devices.mesh_for(count)
    assert mesh.size == count

    def gradient(arrays, theta):
        rows = drawing(federation, model, 16)
        return full_gradient(flat_losses(model, unraveller(model)), rows, arrays, example_shares(arrays), theta, count)

    placed = devices.everywhere((holdings(federation), np.linspace(-1, 1, 15, dtype=np.float32)), mesh)
    print(*jax.jit(devices.on_each(gradient, mesh))(*placed).tolist())
"""


def test_several_devices_share_the_gradient() -> None:
    command = [sys.executable, "-c", MANY_DEVICES, str(__file__).rpartition("/")[0]]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theta = np.linspace(-1, 1, 15)
    params = {"bias": theta[:3], "weights": theta[3:].reshape(3, 4)}
    expected = full_gradient_of(small_federation().drawing("round", 20), params)
    lines = shown.splitlines()
    assert len(lines) == 3
    for line in lines:
        np.testing.assert_allclose(list(map(float, line.split())), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "server"), KINDS)
def test_named_in_a_file(name: str, server: str) -> None:
    spec = validate(
        {
            "name": "strongest",
            "rounds": 2,
            "sampled": 4,
            "epsilon": 0.5,
            "data": {"name": "synthetic", "clients": 8, "sizes": 20},
            "model": {"name": "logistic"},
            "adversary": {"name": name} | ({"server": server} if server == "average" else {}),
            "algorithms": [{"name": "fedavg", "rate": 0.1}],
        }
    )
    assert spec.adversary == {"name": name, "server": server}
    built = realise(spec).adversary
    assert (built.name, built.sees_replies, built.sees_gradient) == (name, True, name == "least_progress")


def test_bad_settings() -> None:
    for make in (V.worst_case, V.least_progress):
        with pytest.raises(ns.NoshowError, match="server is 'remember': give 'amplify' or 'average'"):
            make("remember")  # type: ignore[arg-type]
    with pytest.raises(ns.NoshowError, match="the scene holds no replies"):
        V.worst_case().score(None, KEY, ns.Scene(*map(jnp.asarray, (0, [0], [1], [1.0], [0.0])), limit=1))
