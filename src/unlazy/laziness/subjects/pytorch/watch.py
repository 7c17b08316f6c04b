# SPDX-License-Identifier: Apache-2.0
"""A PyTorch module, watched while it trains.

Between two epochs a module is in training mode. A watch looks at a copy of it that is in evaluation
mode for good, and takes only tensors from the user's own.
"""

import copy
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from unlazy.laziness.subjects.pytorch.modules import check_torch_module, uncompiled
from unlazy.laziness.subjects.pytorch.state import path_of
from unlazy.laziness.subjects.pytorch.subject import TorchSubject
from unlazy.laziness.subjects.watch import Sight, Squares


def evaluated(module: Any) -> nn.Module:
    """A copy of the module in evaluation mode.

    Raises:
        ValueError: the module cannot be copied.
    """
    check_torch_module(module, "f")
    try:
        return copy.deepcopy(uncompiled(module)).eval()
    except Exception as error:
        raise ValueError(
            "`f` must be a module that copy.deepcopy copies, since it is looked at in evaluation "
            f"mode while yours trains, got {type(error).__name__}: {error}"
        ) from error


class TorchWatch:
    """A module and the start of its training, as `subjects.Watch` describes it."""

    def __init__(
        self,
        subject: TorchSubject,
        start: dict[str, Tensor],
        x: Any,
        directions: Float[np.ndarray, "c k"],
        order: int,
    ) -> None:
        """Look at the start.

        Args:
            subject: a module in evaluation mode, which nobody else changes.
            start: its tensors at the start, which nobody else changes.
            x: the samples to look at.
            directions: of the outputs, in the kernel.
            order: the last Taylor term.
        """
        self._subject, self._start, self._x = subject, start, x
        self._directions, self._order = directions, order
        self._weights = subject.weights(start)
        self._active = subject.active_units(start, x)

    def squares(self, params: Any) -> dict[str, Squares]:
        """Per trained parameter how far it is from the start; nan where it is not finite."""
        broken = {path_of(name) for name, value in params.items() if not _is_finite(value)}
        whole = {name: torch.nan_to_num(v) if _is_float(v) else v for name, v in params.items()}
        now = self._subject.weights(whole if broken else params)
        found = {path: _squares(now[path], before) for path, before in self._weights.items()}
        nothing = Squares(float("nan"), float("nan"))
        return found | {path: nothing for path in sorted(broken)}

    def see(self, params: Any) -> Sight:
        """Look at the module with these tensors."""
        subject, x = self._subject, self._x
        now = subject.active_units(params, x)
        return Sight(
            kernels=subject.layer_kernels(params, x, self._directions),
            outputs=subject.outputs(params, x),
            terms=subject.taylor_terms(self._start, params, x, self._order),
            flipped={name: float(np.mean(on != now[name])) for name, on in self._active.items()},
            units={name: on.size for name, on in self._active.items()},
        )


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _is_finite(value: Any) -> bool:
    return not _is_float(value) or bool(torch.isfinite(value).all())


def _squares(now: np.ndarray, start: np.ndarray) -> Squares:
    change, before = (now - start).ravel(), start.ravel()
    return Squares(float(change @ change), float(before @ before))
