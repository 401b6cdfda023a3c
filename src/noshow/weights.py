"""Models' weights in `.safetensors` files: plain named arrays that PyTorch, Flax and others read, never executed.

`lenet5`, `char_lstm` and `logistic` are written as PyTorch's `load_state_dict` takes them (`noshow.models.in_pytorch`).
Other models' tensors are called after their place in the parameters, such as `Dense_0.kernel`, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np

from noshow.contracts import Key, Layout, Leaves, Model, Params
from noshow.errors import NoshowError, require
from noshow.files import write_whole
from noshow.parameters import named_leaves


def save(file: str | Path, model: Model, params: Params) -> None:
    """Write a model's parameters, such as `history.models[0]`, to a `.safetensors` file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import jax, noshow as ns
        >>> from safetensors.numpy import load_file
        >>> model = ns.models.logistic(features=4, classes=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ns.weights.save(Path(folder) / "model.safetensors", model, model.init(jax.random.key(0)))
        ...     tensors = load_file(Path(folder) / "model.safetensors")
        >>> {name: tensor.shape for name, tensor in sorted(tensors.items())}
        {'bias': (3,), 'weight': (3, 4)}
    """
    # The library writes memory as it lies: transposed views must be copied first.
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in in_files(model, params).items()}
    write = _safetensors().numpy.save_file
    write_whole(Path(file), lambda part: write(tensors, part, metadata={"format": "pt"}))


def in_files(model: Model, params: Params) -> Leaves:
    """A model's parameters as the tensors of a file, by their names there.

    Example:
        >>> import jax, noshow as ns
        >>> model = ns.models.lenet5()
        >>> ns.weights.in_files(model, model.init(jax.random.key(0)))["fc1.weight"].shape
        (120, 400)
    """
    leaves = {name: np.asarray(leaf) for name, leaf in named_leaves(params)}
    _compare(_forms(leaves), _forms(_blank(model)), "the parameters", model)
    return _layout(model).outward(leaves)


def load(file: str | Path, model: Model) -> Params:
    """The parameters in a `.safetensors` file, in the model's own shape; raises where they are not this model's.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np, noshow as ns
        >>> from safetensors.numpy import save_file
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "linear.safetensors"
        ...     save_file({"weight": np.eye(2, dtype=np.float32), "bias": np.zeros(2, np.float32)}, file)
        ...     ns.weights.load(file, ns.models.logistic(features=2, classes=2))["weights"].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    blank, layout = _blank(model), _layout(model)
    tensors = _tensors(Path(file), _forms(layout.outward(blank)), model)
    leaves = layout.inward(tensors)
    abstract = jax.eval_shape(model.init, jax.random.key(0))
    ordered = [jnp.asarray(leaves[name]) for name, _ in named_leaves(abstract)]
    return jax.tree.unflatten(jax.tree.structure(abstract), ordered)


def start_from(file: str | Path, model: Model) -> Model:
    """The same model, with the parameters in a `.safetensors` file for its first, whatever the seed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import noshow as ns
        >>> federation, model = ns.datasets.synthetic(clients=8, sizes=40), ns.models.logistic()
        >>> algorithm = ns.algorithms.fedavg(0.01, steps=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     history = ns.simulate(federation, model, algorithm, sampled=4, rounds=4)
        ...     ns.weights.save(Path(folder) / "model.safetensors", model, history.models[0])
        ...     warm = ns.weights.start_from(Path(folder) / "model.safetensors", model)
        >>> further = ns.simulate(federation, warm, algorithm, sampled=4, rounds=0)
        >>> bool(abs(further.scores.train_loss[0, 0] - history.scores.train_loss[0, -1]) < 1e-6)
        True
    """
    params = load(file, model)

    def init(key: Key) -> Params:
        return params

    return model._replace(init=init)


Form = tuple[str, tuple[int, ...]]
"""A tensor's type, as safetensors abbreviates it, and its shape."""
_FLOAT32 = "F32"


def _blank(model: Model) -> Leaves:
    """Zeros in the shape of the model's parameters."""
    return {
        name: np.zeros(leaf.shape, leaf.dtype)
        for name, leaf in named_leaves(jax.eval_shape(model.init, jax.random.key(0)))
    }


def _layout(model: Model) -> Layout:
    """The model's own, or else leaves as they are, with PyTorch's dots in their names."""
    if model.layout is not None:
        return model.layout
    dotted = {name: name.replace("/", ".") or "theta" for name in _blank(model)}
    require(len(set(dotted.values())) == len(dotted), f"parameters of {model.name} share a name: {sorted(dotted)}")
    return Layout(
        lambda leaves: {dotted[name]: leaf for name, leaf in leaves.items()},
        lambda tensors: {name: tensors[theirs] for name, theirs in dotted.items()},
    )


def _forms(arrays: Leaves) -> dict[str, Form]:
    kinds = {np.dtype(np.float32): _FLOAT32}
    return {name: (kinds.get(array.dtype, array.dtype.name), array.shape) for name, array in arrays.items()}


def _compare(found: Mapping[str, Form], expected: Mapping[str, Form], where: str, model: Model) -> None:
    """Raise at the first tensor that is missing, of another type or shape, or unknown."""
    for name, form in expected.items():
        holds = ", ".join(sorted(found)) or "nothing"
        require(name in found, f"{where} lack {name} {_in_words(form)}, which {model.name} needs: they hold {holds}")
        require(
            found[name] == form,
            f"{name} of {where} is {_in_words(found[name])}, and {model.name} needs {_in_words(form)}",
        )
    for name, form in found.items():
        require(name in expected, f"{where} hold {name} {_in_words(form)}, which {model.name} does not have")


def _in_words(form: Form) -> str:
    return f"{'float32' if form[0] == _FLOAT32 else form[0]} {list(form[1])}"


def _tensors(file: Path, expected: Mapping[str, Form], model: Model) -> Leaves:
    """The tensors of a file, once its header says that they are the expected ones."""
    library = _safetensors()
    require(file.is_file(), f"there is no file {file}: give a .safetensors file")
    try:
        with library.safe_open(file, framework="np") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
            found = {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
            _compare(found, expected, f"the tensors in {file}", model)
            tensors = {name: opened.get_tensor(name) for name in expected}
    except (library.SafetensorError, OSError) as error:
        raise NoshowError(f"{file} is no whole .safetensors file ({error}): save it again") from None
    for name, tensor in tensors.items():
        require(bool(np.isfinite(tensor).all()), f"{name} in {file} holds NaN or Inf: give weights that are numbers")
    return tensors


def _safetensors() -> ModuleType:
    try:
        import safetensors.numpy
    except ImportError:
        raise NoshowError("safetensors is not installed: pip install 'noshow[safetensors]'") from None
    return safetensors
