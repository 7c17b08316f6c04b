# SPDX-License-Identifier: Apache-2.0
"""The Taylor terms of a PyTorch module along a movement of its weights, by nested derivatives.

PyTorch derives some operations wrongly when forward derivatives are nested: it takes the mean and
the deviation that layer normalisation has saved for constants (pytorch/pytorch issues 196699 and
196700), without a warning. These operations are replaced by their formulas here, and the second
derivative is compared with one by PyTorch's backward derivatives.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, jvp
from torch.overrides import TorchFunctionMode

Curve = Callable[[Tensor], Tensor]
"""The outputs (n, c) at a time t, where the weights are start + t * delta."""


def terms(curve: Curve, t: Float[Tensor, ""], order: int) -> Float[Tensor, "{order}+1 n c"]:
    r"""The terms $f^{(k)} / k!$ of the curve at t, for k from 0 to `order`."""
    values = lambda t: (curve(t),)  # noqa: E731  # the first of a series of functions
    for _ in range(order):
        values = _with_next(values)
    with PlainFormulas(), torch.no_grad():
        found = values(t)
    return torch.stack([value / math.factorial(k) for k, value in enumerate(found)])


def _with_next(values: Callable[[Tensor], tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """The derivatives up to one order more."""

    def extended(t: Tensor) -> tuple[Tensor, ...]:
        found, slopes, *_ = jvp(values, (t,), (torch.ones_like(t),))
        return (*found, slopes[-1])

    return extended


def check_second(curve: Curve, t: Tensor, found: Float[Tensor, "terms n c"]) -> None:
    """Raise if the term of order 2 is not what two backward derivatives give, summed with weights.

    The rules for two backward derivatives are others than those for forward ones, and PyTorch's own
    tests hold every one of them.
    """
    if len(found) < 3:
        return
    weights = torch.linspace(1, 2, found[0].numel(), dtype=found.dtype, device=found.device)
    total = lambda t: (curve(t).flatten() * weights).sum()  # noqa: E731
    try:
        second = float(grad(grad(total))(t)) / 2
    except (RuntimeError, NotImplementedError):  # no such rule: nothing to compare with
        return
    constant, slope, forward = ((term.flatten() * weights).sum().item() for term in found[:3])
    rounding = 1e3 * torch.finfo(found.dtype).eps * (abs(constant) + abs(slope))
    if abs(second - forward) > 1e-2 * max(abs(second), abs(forward)) + rounding:
        raise ValueError(
            "`module` must consist of operations whose second derivatives PyTorch gets right, got "
            f"{forward:.6g} by forward and {second:.6g} by backward derivatives. Write the "
            "operation at fault out in terms of simpler ones."
        )


class PlainFormulas(TorchFunctionMode):
    """Compute normalisation and gated units by their formulas, which PyTorch derives correctly."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The operation, or its formula."""
        operation: Any = _FORMULAS.get(func, func)
        return operation(*args, **(kwargs or {}))


def _normalised(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    centred = x - x.mean(axes, keepdim=True)
    return centred * (centred.square().mean(axes, keepdim=True) + eps).rsqrt()


def _layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    axes = tuple(range(-len(tuple(normalized_shape)), 0))
    found = _normalised(input, axes, eps)
    found = found if weight is None else found * weight
    return found if bias is None else found + bias


def _instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    if not use_input_stats:
        settings = (weight, bias, use_input_stats, momentum, eps)
        return F.instance_norm(input, running_mean, running_var, *settings)
    found = _normalised(input, tuple(range(2, input.ndim)), eps)
    shape = (1, -1, *(1 for _ in range(2, input.ndim)))
    found = found if weight is None else found * weight.reshape(shape)
    return found if bias is None else found + bias.reshape(shape)


def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """In evaluation mode; PyTorch's own does not follow statistics that move."""
    if training or running_mean is None or running_var is None:
        settings = (weight, bias, training, momentum, eps)
        return F.batch_norm(input, running_mean, running_var, *settings)
    shape = (1, -1, *(1 for _ in range(2, input.ndim)))
    scale = (running_var + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    found = (input - running_mean.reshape(shape)) * scale.reshape(shape)
    return found if bias is None else found + bias.reshape(shape)


def _glu(input: Tensor, dim: int = -1) -> Tensor:
    values, gates = input.chunk(2, dim)
    return values * torch.sigmoid(gates)


_FORMULAS: dict[Any, Callable[..., Tensor]] = {
    F.layer_norm: _layer_norm,
    torch.layer_norm: _layer_norm,
    F.instance_norm: _instance_norm,
    F.batch_norm: _batch_norm,
    F.glu: _glu,
}
