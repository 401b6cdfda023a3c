"""Writes data/torch_models.npz: what PyTorch's own layers give for fixed weights and inputs.

    pip install torch==2.13.0 && python tests/torch_reference.py

The tests read the file, so that they need no PyTorch. Names are PyTorch's own, and so are the layouts: images
[n, channels, rows, columns], weights [outputs, inputs, …], gates in the order i, f, g, o.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FIXTURE = Path(__file__).parent / "data" / "torch_models.npz"
VOCABULARY, EMBEDDING, HIDDEN, CHARACTERS = 11, 3, 16, 12


def lenet5(torch: Any) -> dict[str, Any]:
    """Weights, images, every layer's output, losses, and the gradients of the mean loss."""
    nn = torch.nn
    net = nn.ModuleDict(
        {
            "conv1": nn.Conv2d(3, 6, 5),
            "conv2": nn.Conv2d(6, 16, 5),
            "dense1": nn.Linear(400, 120),
            "dense2": nn.Linear(120, 84),
            "dense3": nn.Linear(84, 10),
        }
    )
    x, y = torch.randn(3, 3, 32, 32), torch.tensor([7, 0, 7])
    outputs = {}
    z = x
    for name in ("conv1", "conv2"):
        z = nn.functional.max_pool2d(torch.relu(net[name](z)), 2)
        outputs[name] = z
    z = z.flatten(1)
    for name in ("dense1", "dense2"):
        z = torch.relu(net[name](z))
        outputs[name] = z
    outputs["logits"] = net["dense3"](z)
    return {"x": x, "y": y, **_outputs(outputs), **_scores(net, outputs["logits"], y)}


def char_lstm(torch: Any) -> dict[str, Any]:
    """A small model of the same make: weights, codes, logits, losses, and the gradients of the mean loss."""
    nn = torch.nn
    net = nn.ModuleDict(
        {
            "embedding": nn.Embedding(VOCABULARY, EMBEDDING),
            "lstm": nn.LSTM(EMBEDDING, HIDDEN, num_layers=2, batch_first=True),
            "dense": nn.Linear(HIDDEN, VOCABULARY),
        }
    )
    # From 1 on: a symbol that never occurs must get a gradient of zero.
    x, y = torch.randint(1, VOCABULARY, (5, CHARACTERS)), torch.tensor([2, 2, 9, 0, 5])
    states, _ = net["lstm"](net["embedding"](x))
    outputs = {"logits": net["dense"](states[:, -1])}
    return {"x": x, "y": y, **_outputs(outputs), **_scores(net, outputs["logits"], y)}


def pool(torch: Any) -> dict[str, Any]:
    """Whole numbers with many equals: where a pool's gradient goes then."""
    x = torch.randint(0, 3, (2, 4, 6, 8)).float().requires_grad_()
    pooled = torch.nn.functional.max_pool2d(x, 2)
    upstream = torch.randn_like(pooled)
    pooled.backward(upstream)
    return {"x": x, "pooled": pooled, "upstream": upstream, "gradient": x.grad}


def _outputs(tensors: dict[str, Any]) -> dict[str, Any]:
    return {f"output.{name}": tensor for name, tensor in tensors.items()}


def _scores(net: Any, logits: Any, y: Any) -> dict[str, Any]:
    import torch

    losses = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    losses.mean().backward()
    weights = {f"weight.{name}": tensor for name, tensor in net.named_parameters()}
    gradients = {f"gradient.{name}": tensor.grad for name, tensor in net.named_parameters()}
    return {"losses": losses, **weights, **gradients}


def main() -> None:
    import torch

    torch.manual_seed(0)
    arrays = {
        f"{model.__name__}/{name}": tensor.detach().numpy()
        for model in (lenet5, char_lstm, pool)
        for name, tensor in model(torch).items()
    }
    FIXTURE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FIXTURE, torch=np.array(torch.__version__), **arrays)
    print(f"{FIXTURE}: {len(arrays)} arrays, {FIXTURE.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
