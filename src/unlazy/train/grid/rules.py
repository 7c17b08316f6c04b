# SPDX-License-Identifier: Apache-2.0
"""How a lane moves: the rule of its update, and the order in which an epoch visits the samples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Integer, PRNGKeyArray

from unlazy.core.checks import check_count, check_key
from unlazy.core.entries import entry
from unlazy.train.descent import as_before

OptimizerFactory = Callable[[Any, Any], optax.GradientTransformation]
"""`factory(learning_rate, weight_decay)`, both traced scalars."""


@dataclass(frozen=True)
class TorchSGD:
    r"""SGD with momentum and coupled weight decay, as PyTorch defines it.

    $$g = \nabla L + \omega\theta, \qquad v \leftarrow \mu v + g, \qquad
    \theta \leftarrow \theta - \eta v$$

    Source: RN-32, arXiv:1905.10337 section 7 (whose experiments are the same).
    """

    momentum: float

    def init(self, trained: Any, lr: Float[Array, ""], wd: Float[Array, ""]) -> Any:
        """A velocity of zero; none at all without momentum."""
        del lr, wd
        return jax.tree.map(jnp.zeros_like, trained) if self.momentum else None

    def update(
        self, trained: Any, gradient: Any, state: Any, lr: Float[Array, ""], wd: Float[Array, ""]
    ) -> tuple[Any, Any]:
        """The next parameters and velocity."""
        v = jax.tree.map(lambda g, p: g + wd.astype(p.dtype) * p, gradient, trained)
        if self.momentum:
            v = jax.tree.map(lambda old, g: self.momentum * old + g, state, v)
        moved = jax.tree.map(lambda p, v: p - lr.astype(p.dtype) * v, trained, v)
        return moved, v if self.momentum else None


@dataclass(frozen=True)
class OptaxRule:
    """An optax optimiser, made again in every step with the learning rate of that epoch."""

    factory: OptimizerFactory

    def init(self, trained: Any, lr: Float[Array, ""], wd: Float[Array, ""]) -> Any:
        """The optimiser's own state."""
        # Optax mixes its own constants with ours, which strict promotion forbids.
        with jax.numpy_dtype_promotion("standard"):
            made = self.factory(lr, wd)
            if not hasattr(made, "init"):
                raise TypeError(
                    "`optimizer` must give an optax optimiser, got a function that gives "
                    f"{type(made).__name__}. Does it return what it makes?"
                )
            return made.init(trained)

    def update(
        self, trained: Any, gradient: Any, state: Any, lr: Float[Array, ""], wd: Float[Array, ""]
    ) -> tuple[Any, Any]:
        """The next parameters and state, in the dtypes of the old ones."""
        with jax.numpy_dtype_promotion("standard"):
            change, after = self.factory(lr, wd).update(gradient, state, trained)
            moved = optax.apply_updates(trained, change)
        return as_before(moved, trained), as_before(after, state)


UpdateRule = TorchSGD | OptaxRule
"""How a lane moves. Hashable, because the compiled program is cached on it."""


@entry
def batch_order(n: int, *, epoch: int, seed: int = 0, key: PRNGKeyArray) -> Int[np.ndarray, " n"]:
    """The order in which `fit_grid` visits n samples in an epoch, counted from 0.

    Mini-batch number j takes the places from j * batch_size on. Use it to train with another
    library on the same mini-batches.

    Args:
        n: number of samples.
        epoch: which epoch.
        seed: entry of the `seeds` of the grid.
        key: the `key` of the grid.

    Example:
        >>> print(sorted(batch_order(5, epoch=0, key=jr.key(0)).tolist()))
        [0, 1, 2, 3, 4]
    """
    check_count(n, "n")
    check_count(epoch, "epoch", least=0)
    check_count(seed, "seed", least=0, most=None)
    check_key(key)
    return np.asarray(epoch_order(seed_key(key, seed), epoch, n))


def seed_key(key: PRNGKeyArray, seed: int | Integer[Array, ""]) -> PRNGKeyArray:
    """The key of all batch orders of a seed."""
    return jr.fold_in(key, seed)


def epoch_order(key: PRNGKeyArray, epoch: int | Int[Array, ""], n: int) -> Int[Array, " n"]:
    """The order of one epoch, from the key of a seed; epochs are independent."""
    return jr.permutation(jr.fold_in(key, epoch), n)
