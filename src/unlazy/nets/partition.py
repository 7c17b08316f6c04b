# SPDX-License-Identifier: Apache-2.0
"""Which parameters are trained: the hidden layers, the last one, or all."""

from typing import Literal, Protocol, TypeVar, get_args, runtime_checkable

import equinox as eqx
import jax

from unlazy.checks import check_name

Trained = Literal["hidden", "weights", "last", "all"]
TRAINED: tuple[str, ...] = get_args(Trained)


@runtime_checkable
class LayeredParams(Protocol):
    """Parameters of a learner, which know their last layer."""

    def is_last(self) -> "LayeredParams":
        """The same structure with True at the leaves of the last layer, False elsewhere."""
        ...


@runtime_checkable
class BiasedParams(Protocol):
    """Parameters of a learner with biases, which know their hidden weights."""

    def is_weight(self) -> "BiasedParams":
        """The same structure with True at the hidden weights, False elsewhere."""
        ...


P = TypeVar("P", bound=LayeredParams)


def partition(params: P, trained: Trained) -> tuple[P, P]:
    """Split `params` into those to train and the frozen rest.

    Both have the structure of `params`, with None where a leaf is in the other part, so that each
    is a pytree of its own: differentiate with respect to the first, and put them together again
    with `combine`.

    Args:
        params: of one of the learners.
        trained: "hidden": all but the last layer, biases included (AR, RN). "weights": the hidden
            weights without their biases (LG); the same for a learner that has none. "last": the
            output weights. "all": everything, a weight that is used twice with the gradient of both
            uses.

    Raises:
        TypeError: `params` do not say which is their last layer.
        ValueError: "last" for a `ResNet3` in bottleneck form, whose output weights are also in the
            hidden layers.

    Example:
        >>> from unlazy.nets import TwoLayer
        >>> params = TwoLayer(inputs=3, width=4).init(key=jax.random.key(0))
        >>> trainable, frozen = partition(params, "hidden")
        >>> print(trainable.a, frozen.W, combine(trainable, frozen).W.shape)
        None None (4, 3)
    """
    check_name(trained, TRAINED, "trained")
    if trained == "all":
        return eqx.partition(params, True)
    if not isinstance(params, LayeredParams):
        raise TypeError(
            "`params` must be of one of the learners, which know their last layer, got "
            f"{type(params).__name__}. Split other parameters with equinox.partition."
        )
    if trained == "weights" and isinstance(params, BiasedParams):
        return eqx.partition(params, params.is_weight())
    if trained == "last" and getattr(params, "last_is_shared", False):
        raise ValueError(
            "`trained` must be another for a network whose output weights are used twice, got "
            "trained='last'. Train the linear model net.last_layer(params), from params.A on."
        )
    chosen = jax.tree.map(lambda last: last == (trained == "last"), params.is_last())
    return eqx.partition(params, chosen)


def combine(trainable: P, frozen: P) -> P:
    """Put the two parts of `partition` together again."""
    return eqx.combine(trainable, frozen)
