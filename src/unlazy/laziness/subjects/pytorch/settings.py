# SPDX-License-Identifier: Apache-2.0
"""How PyTorch computes while a module is examined: in full precision, by operations it can derive.

PyTorch's own settings are global. `exact` changes them for the time of a measurement, and puts
them back whatever happens.
"""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from unlazy.laziness.subjects.pytorch.state import path_of

# Where PyTorch keeps whether float32 products may be TF32, and the value for no. From version 2.9
# on there is a new place, and the old one raises once the new one has been used.
_cudnn: Any = torch.backends.cudnn
_IS_NEW = hasattr(_cudnn, "conv")
_PLACES = (torch.backends.cuda.matmul, *((_cudnn.conv, _cudnn.rnn) if _IS_NEW else (_cudnn,)))
_FULL = ("fp32_precision", "ieee") if _IS_NEW else ("allow_tf32", False)


@contextlib.contextmanager
def exact(module: nn.Module) -> Iterator[None]:
    """Full float32 products, and no fused attention, whose derivatives PyTorch does not have."""
    recurrent = any(isinstance(part, nn.RNNBase) for part in module.modules())
    with contextlib.ExitStack() as stack:
        for place in _PLACES:
            stack.enter_context(_changed(place, *_FULL))
        if recurrent:  # cuDNN derives recurrent layers in training mode alone
            stack.enter_context(_changed(torch.backends.cudnn, "enabled", False))
        stack.callback(
            torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled()
        )
        torch.backends.mha.set_fastpath_enabled(False)
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(warnings.catch_warnings())
        # Of what PyTorch calls inside: its own scripts, and rules that `vmap` does without.
        warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
        warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
        yield


@contextlib.contextmanager
def _changed(place: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def check_evaluation_mode(module: nn.Module) -> None:
    """Raise if an output depends on chance, or on other rows of the batch."""
    parts = list(module.named_modules())
    training = [(name, part) for name, part in parts if part.training and _differs(part)]
    if training:
        raise ValueError(
            "`module` must be in evaluation mode, got dropout or batch normalisation in training "
            f"mode: {_listed(training)}. Call module.eval()."
        )
    untracked = [
        (name, part)
        for name, part in parts
        if isinstance(part, _BatchNorm) and part.running_mean is None
    ]
    if untracked:
        raise ValueError(
            "`module` must compute each row by itself, got batch normalisation without running "
            f"statistics: {_listed(untracked)}. Set track_running_stats=True."
        )


def _differs(part: nn.Module) -> bool:
    """Whether a module computes something else in training mode than in evaluation mode."""
    if isinstance(part, _DropoutNd):
        return part.p > 0
    if isinstance(part, nn.MultiheadAttention | nn.RNNBase):
        return part.dropout > 0
    if isinstance(part, _InstanceNorm):
        return part.track_running_stats
    return isinstance(part, _BatchNorm | nn.RReLU)


def _listed(parts: Sequence[tuple[str, nn.Module]], most: int = 5) -> str:
    words = [f"{path_of(name) or 'itself'} ({type(part).__name__})" for name, part in parts[:most]]
    rest = f" and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(words) + rest
