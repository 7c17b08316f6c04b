# SPDX-License-Identifier: Apache-2.0
"""The risk averaged over random signs: a stochastic loss with an unbiased gradient."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_finite, check_key, check_real
from unlazy.core.entries import entry
from unlazy.escape.penalty import regularizer
from unlazy.escape.predictors import Model, evaluator
from unlazy.escape.signs import Where, all_signs, hidden_rows, units
from unlazy.losses import PointwiseLoss, check_shapes, check_targets, pointwise

_MOST_UNITS = 16  # neurons in an enumeration of all signs: 65536 vectors
_AT_ONCE = 256  # sign vectors evaluated together in the enumeration


@dataclass(frozen=True, eq=False)  # equal only to itself: its arrays have no hash
class RandomizedRisk:
    r"""The mean loss of a network whose neurons' movements carry random signs.

    $$L(W) = E_s \frac1n \sum_i \ell\big(f_{W_0 + sW}(x_i), y_i\big) + \lambda \|W\|_{2,4}^8$$

    `risk(delta, batch, key)` is an unbiased estimate, and its derivative with respect to `delta`
    an unbiased gradient, by default from one antithetic pair of draws ($s$ and $-s$), which cancels
    most of the noise. `risk.exact(delta, batch)` is the expectation itself, for few neurons.
    `delta = 0` is a saddle point: start near it, not at it. The natural step is of order
    $\sqrt m$, because each neuron's gradient is of order $m^{-1/2}$.

    Two risks are never equal, so build one and keep it: training again with the same object
    compiles nothing. A risk can be built inside a compiled function, from traced parameters.

    Source: BL-11 and BL-14, arXiv:1910.01619 section 3.

    Args:
        net: a `TwoLayer`, or any model `f(params, x)`.
        params: the origin, which stays fixed.
        loss: a name or a loss of `unlazy.losses`; called with output and label.
        draws: draws per call, or pairs of draws where they are antithetic.
        antithetic: whether to draw in pairs.
        per_example: whether each sample gets its own signs; also unbiased, with less noise from
            the signs, at the same cost for a `TwoLayer`.
        strength: $\lambda$, of the penalty.
        where: from `delta` to its hidden arrays, for models other than `TwoLayer`; see `flip`.

    Example:
        >>> from unlazy.nets import TwoLayer
        >>> net = TwoLayer(inputs=2, width=4, activation="relu3", init="symmetric")
        >>> risk = RandomizedRisk(net, net.init(key=jr.key(0)), "logistic")
        >>> batch = (jnp.eye(2), jnp.array([1.0, -1.0]))
        >>> print(risk.exact(jnp.zeros((4, 2)), batch).round(4))
        0.6931
    """

    net: Model
    params: Any
    loss: str | PointwiseLoss
    draws: int = 1
    antithetic: bool = True
    per_example: bool = False
    strength: int | float = 0.0
    where: Where | None = None

    @entry
    def __post_init__(self) -> None:
        """Check the options."""
        check_count(self.draws, "draws")
        check_finite(self.strength, "strength")
        if self.strength < 0:
            raise ValueError(f"`strength` must be at least 0, got strength={self.strength}.")
        pointwise(self.loss)

    @entry
    def __call__(self, delta: Any, batch: tuple[Any, Any], key: PRNGKeyArray) -> Float[Array, ""]:
        """An unbiased estimate of the risk on the batch `(x, y)`."""
        check_key(key)
        x, _ = _samples(batch)
        width = units(delta, self.where)
        shape = (self.draws, jnp.shape(x)[0], width) if self.per_example else (self.draws, width)
        signs = jr.rademacher(key, shape, dtype=jnp.result_type(float))
        if self.antithetic:
            signs = jnp.concatenate([signs, -signs])
        return jnp.mean(jax.vmap(self._at(delta, batch))(signs)) + self._regularization(delta)

    @entry
    def exact(self, delta: Any, batch: tuple[Any, Any]) -> Float[Array, ""]:
        """The expectation over all 2^m signs, for at most 16 neurons."""
        width = units(delta, self.where)
        if width > _MOST_UNITS:
            raise ValueError(
                f"`delta` must move at most {_MOST_UNITS} neurons for an exact expectation, got "
                f"{width} (2^{width} sign vectors). Call the risk with a key instead."
            )
        values = jax.lax.map(
            # Recomputed in the backward pass, which would otherwise hold all 2^m evaluations.
            jax.checkpoint(self._at(delta, batch)),
            jnp.asarray(all_signs(width), float),
            batch_size=_AT_ONCE,
        )
        return jnp.mean(values) + self._regularization(delta)

    def _at(self, delta: Any, batch: tuple[Any, Any]):
        """The mean loss as a function of the signs."""
        x, y = _samples(batch)
        check_targets(self.loss, y)
        outputs, loss = evaluator(self.net, self.params, delta, x, self.where), pointwise(self.loss)

        def value(signs: Array) -> Array:
            z = outputs(signs)
            check_shapes(z, y, of="the model's outputs")
            return jnp.mean(loss(z, jnp.asarray(y, z.dtype)))

        return value

    def _regularization(self, delta: Any) -> Float[Array, ""]:
        rows = hidden_rows(delta, self.where)
        return self.strength * regularizer(rows) if self.strength else jnp.zeros((), rows.dtype)


def _samples(batch: tuple[Any, Any]) -> tuple[Any, Any]:
    x, y = batch
    check_real(x, "batch")
    check_real(y, "batch")
    return x, y
