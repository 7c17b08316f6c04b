# SPDX-License-Identifier: Apache-2.0
"""Training runs of the width check for PyTorch modules; PyTorch is imported by the user alone.

Modules are trained where they live, in evaluation mode: dropout would add noise to every movement.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from unlazy.core.checks import calling
from unlazy.laziness.output_losses import check_scalar_loss
from unlazy.laziness.traced_features import OUTPUT
from unlazy.laziness.width.runs import Recipe, Run, loaded_torch, rounded_away
from unlazy.losses import PointwiseLoss, check_targets, pointwise

_KNOWN = ("half-squared", "squared", "logistic")


class TorchFamily:
    """The modules of one `make`, trained one at a time."""

    where = "PyTorch"

    def __init__(self, x: Any, y: Any, recipe: Recipe) -> None:
        if recipe.trained is not None:
            raise ValueError(
                f"`trained` must be None for PyTorch modules, got trained={recipe.trained!r}. Set "
                "`requires_grad_(False)` on the parameters that are not trained."
            )
        self.x, self.y, self.recipe = x, y, recipe
        self.loss = _torch_loss(recipe.loss, y)

    def run(self, module: Any, width: int) -> Run:
        """Train this module of that width."""
        torch = loaded_torch()
        module.eval()
        like = _first_parameter(module)
        x, y = _tensor(self.x, like), _tensor(self.y, like)
        optimizer = self._optimizer(module, width)
        with torch.no_grad():
            origin = module(x) if self.recipe.centred else 0.0
        rows: list[tuple[float, list[float], list[float]]] = []
        first: dict[str, Any] = {}
        for _ in range(self.recipe.steps + 1):
            with torch.no_grad():
                now = _features(module, x)
            first = first or now
            moved = [_rms(now[name] - first[name]) for name in first]
            optimizer.zero_grad()
            value = self._value(module(x) - origin, y)
            value.backward()
            optimizer.step()
            spread = [float(h.abs().mean()) for h in now.values()]
            rows.append((float(value.detach()), moved, spread))
        loss, movement, spread = (np.asarray(column, float) for column in zip(*rows, strict=True))
        start = np.array([_rms(h) for h in first.values()])
        return Run(
            layers=tuple(first),
            units=tuple(h[0].numel() for h in first.values()),
            missing=(),
            loss=loss,
            movement=rounded_away(movement.T, start, torch.finfo(like.dtype).eps),
            start=start,
            spread=spread.T,
        )

    def _value(self, outputs: Any, y: Any) -> Any:
        if isinstance(self.loss, _TorchMean):
            if outputs.shape != y.shape:
                raise ValueError(
                    f"`y` must have the shape of the model's outputs, {tuple(outputs.shape)}, got "
                    f"y.shape={tuple(y.shape)}. Reshape one of them."
                )
            return self.loss(outputs, y)
        return check_scalar_loss(self.loss, outputs, y)

    def _optimizer(self, module: Any, width: int) -> Any:
        torch, given = loaded_torch(), self.recipe.optimizer
        if given is None:
            return torch.optim.SGD(module.parameters(), lr=self.recipe.rate(width))
        if callable(given):
            with calling("optimizer", "a module and its width"):
                given = given(module, width)
        if not isinstance(given, torch.optim.Optimizer):
            raise TypeError(
                "`optimizer` must be a function of a module and its width that makes a PyTorch "
                "optimiser, such as lambda model, width: torch.optim.Adam(model.parameters()), got "
                f"{type(given).__name__}."
            )
        return given


def seeded(make: Callable[[], Any], seed: int) -> Any:
    """What `make` gives with PyTorch's seed set; the state of its generator is put back."""
    torch = loaded_torch()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


class _TorchMean:
    """The mean of a pointwise loss, in PyTorch's operations."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, outputs: Any, y: Any) -> Any:
        if self.name == "logistic":
            return loaded_torch().nn.functional.softplus(-y * outputs).mean()
        half = 0.5 if self.name == "half-squared" else 1.0
        return half * ((outputs - y) ** 2).mean()


def _torch_loss(loss: Any, y: Any) -> Callable[[Any, Any], Any]:
    if not isinstance(loss, str | PointwiseLoss):
        return loss
    check_targets(loss, np.asarray(y))
    name = pointwise(loss).name
    if name not in _KNOWN:
        raise ValueError(
            f"`loss` must be one of {', '.join(_KNOWN)} or a function of the outputs and `y` for "
            f"PyTorch modules, got loss={name!r}."
        )
    return _TorchMean(name)


def _features(module: Any, x: Any) -> dict[str, Any]:
    """What each layer with a weight puts out, in the order of use, and the outputs last."""
    found: dict[str, list[Any]] = {}
    named = {child: name for name, child in module.named_modules() if _is_layer(child)}
    handles = [
        child.register_forward_hook(
            lambda child, _, out: found.setdefault(named[child], []).append(out)
        )
        for child in named
    ]
    try:
        with calling("make", "rows of `x` in the modules that it makes"):
            outputs = module(x)
    finally:
        for handle in handles:
            handle.remove()
    layers = {
        name: loaded_torch().cat([h.reshape(x.shape[0], -1) for h in parts], dim=1)
        for name, parts in found.items()
        if parts[-1] is not outputs
    }
    return {**layers, OUTPUT: outputs.reshape(x.shape[0], -1)}


def _first_parameter(module: Any) -> Any:
    for parameter in module.parameters():
        if parameter.is_floating_point():
            return parameter
    raise ValueError("`make` must give modules with parameters, got one without any.")


def _is_layer(module: Any) -> bool:
    weight = getattr(module, "weight", None)
    return not list(module.children()) and getattr(weight, "ndim", 0) >= 2


def _tensor(value: Any, like: Any) -> Any:
    """The array as a tensor where `like` lives; floats in its precision."""
    torch = loaded_torch()
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(np.asarray(value))
    dtype = like.dtype if tensor.is_floating_point() else tensor.dtype
    return tensor.to(device=like.device, dtype=dtype)


def _rms(h: Any) -> float:
    return float((h.detach() ** 2).mean().sqrt())
