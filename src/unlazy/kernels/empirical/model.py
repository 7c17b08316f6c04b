# SPDX-License-Identifier: Apache-2.0
"""A network as a function of its trained parameters and one sample."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from unlazy.core.checks import calling, is_known
from unlazy.core.compiling import jit_untuned

Apply = Callable[[Any, Any], Array]
"""A network `f(params, x)`, with x of shape (n, ...) and outputs (n,) or (n, c)."""


class Model(eqx.Module):
    """The network, with the parameters that are not trained."""

    f: Apply
    frozen: PyTree

    def batch(self, trained: PyTree, x: Array) -> Float[Array, "n c"]:
        """The outputs at the rows of `x`, one column at least."""
        out = self.f(eqx.combine(trained, self.frozen), x)
        return out.reshape(x.shape[0], -1)

    def __call__(self, trained: PyTree, x: Array) -> Float[Array, " c"]:
        """The outputs at one sample."""
        return self.batch(trained, x[None])[0]


def check_outputs(model: Model, trained: PyTree, x: Array) -> None:
    """Raise unless `f` returns real outputs of shape (n,) or (n, c) for n rows."""
    rows = jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype)
    with calling("f", "these `params` and rows of `x`, or `x1` and `x2`"):
        out = jax.eval_shape(lambda rows: model.f(eqx.combine(trained, model.frozen), rows), rows)
    shape = getattr(out, "shape", None)
    if shape is None or len(shape) not in (1, 2) or shape[0] != 2 or shape[-1] == 0:
        raise ValueError(
            "`f` must return an array of shape (n,) or (n, c) for n inputs, got "
            f"{shape if shape is not None else type(out).__name__} for n=2. "
            "Flatten the outputs of a sample to one axis; wrap a model of one sample in jax.vmap."
        )
    if not jnp.issubdtype(out.dtype, jnp.floating):
        raise ValueError(f"`f` must return real floating-point outputs, got dtype {out.dtype}.")


def check_rowwise(model: Model, trained: PyTree, x: Array) -> None:
    """Raise if the output at a row depends on the other rows, as batch normalisation makes it."""
    if x.shape[0] < 2 or not all(is_known(leaf) for leaf in (x, *jax.tree.leaves(trained))):
        return
    gap, scale, eps = (float(value) for value in _rowwise_gap(model, trained, x))
    if not np.isfinite(scale):
        raise ValueError(
            "`f` must give finite outputs, got nan or inf at some rows of `x`. Look at `params`."
        )
    if not gap <= eps**0.5 * scale:  # nan counts as a difference: the variance of one row is 0
        raise ValueError(
            "`f` must treat each row of `x` by itself, got an output that changes by "
            f"{gap:.3g} when other rows join the batch. Put batch normalisation and dropout into "
            "evaluation mode."
        )


@jit_untuned
def _rowwise_gap(model: Model, trained: PyTree, x: Array) -> tuple[Array, Array, float]:
    # Beside the parameters: at a start whose halves cancel the outputs are rounding, no scale.
    trained = jax.tree.map(_beside, trained)
    together, alone = model.batch(trained, x), model.batch(trained, x[:1])
    scale = jnp.max(jnp.abs(together))
    return jnp.max(jnp.abs(together[0] - alone[0])), scale, float(jnp.finfo(scale.dtype).eps)


def _beside(leaf: Array) -> Array:
    """Each entry by up to a tenth larger or smaller, neighbours by unlike parts."""
    wave = jnp.cos(jnp.arange(leaf.size, dtype=leaf.dtype)).reshape(leaf.shape)
    return leaf * (1 + wave / 10)
