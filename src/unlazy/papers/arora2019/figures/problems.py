# SPDX-License-Identifier: Apache-2.0
"""What both figures share: two-class image problems, and networks trained on them."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.random as jr
import optax

from unlazy import data
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.arora2019.gram_space import gram_descent
from unlazy.train import History, LossBelow, SquaredError, fit
from unlazy.train.loop import Progress
from unlazy.train.stopping import StopRule

_CENTERED = ("cifar10",)  # raw pixels would put the paper's step of 1e-3 above 2/lambda_max
SHOWN = {"mnist": "MNIST 0/1", "cifar10": "CIFAR-10 planes/cars", "digits": "digits 0/1"}


@dataclass(frozen=True)
class Problem:
    """The first two classes of a data set, `n` samples, unit norm."""

    dataset: str
    n: int
    fingerprint: str  # of the files, since copies of a data set differ

    def load(self, *, n_test: int, seed: int) -> data.Task:
        return data.load(
            self.dataset,
            classes=(0, 1),
            n_train=self.n,
            n_test=n_test,
            center=self.dataset in _CENTERED,
            key=jr.key(seed),
        )


@dataclass(frozen=True)
class Network:
    """A two-layer network and how it is trained."""

    width: int
    init: str
    init_scale: float
    learning_rate: float | None  # None: 1/lambda_max
    steps: int

    def build(self, inputs: int, *, seed: int) -> tuple[TwoLayer, TwoLayerParams]:
        net = TwoLayer(inputs, self.width, init=self.init, init_scale=self.init_scale)
        return net, net.init(key=jr.fold_in(jr.key(seed), 3))

    def rate(self, largest_eigenvalue: Callable[[], float]) -> float:
        """The learning rate; the eigenvalue is computed only where it is needed."""
        return 1 / largest_eigenvalue() if self.learning_rate is None else self.learning_rate

    def stop(self, n: int) -> StopRule | None:
        """What ends the training of `n` samples before `steps`."""
        del n

    def train(
        self,
        net: TwoLayer,
        start: TwoLayerParams,
        x: jax.Array,
        y: jax.Array,
        learning_rate: float,
        progress: Progress,
    ) -> History:
        """Full-batch descent on the hidden layer, by the cheaper of the two routes."""
        n, d = x.shape
        shared: dict[str, Any] = {"steps": self.steps, "stop": self.stop(n), "progress": progress}
        if n < 2 * d:
            return gram_descent(net, start, x, y, learning_rate=learning_rate, **shared)
        optimizer = _sgd(learning_rate)
        loss = SquaredError(net)
        return fit(loss, start, (x, y), optimizer=optimizer, trained="hidden", **shared)


@dataclass(frozen=True)
class ConvergedNetwork(Network):
    """A network that is trained until it fits its labels; `steps` is a bound.

    It is a class of its own, because a new field of `Network` would be a new digest of every cell.
    """

    training_mse: float  # mean square of the residuals at which training ends
    share_of_limit: float  # a `learning_rate` of None is this share of 2/lambda_max

    def rate(self, largest_eigenvalue: Callable[[], float]) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return 2 * self.share_of_limit / largest_eigenvalue()

    def stop(self, n: int) -> StopRule:
        return LossBelow(self.training_mse * n / 2)


@dataclass(frozen=True)
class DataSets:
    """The data sets of a figure, and a fallback for machines that have none of them."""

    names: tuple[str, ...]
    fallback: str | None = None  # None: download them

    def found(self) -> tuple[str, ...]:
        if self.fallback is None:
            return self.names
        return tuple(filter(data.available, self.names)) or (self.fallback,)

    def problems(self, n: int) -> list[Problem]:
        return [Problem(name, n, data.fingerprint(name)) for name in self.found()]

    def notes(self) -> list[str]:
        missing = [name for name in self.names if name not in self.found()]
        if not missing:
            return []
        return [
            f"{' and '.join(missing)} not found on this machine: using {' and '.join(self.found())}"
            ". Point UNLAZY_DATA at a folder that holds the data, or run the paper preset, which "
            "downloads it."
        ]


@functools.cache  # one optimiser object for all label sets, so that they compile once
def _sgd(learning_rate: float) -> optax.GradientTransformation:
    return optax.sgd(learning_rate)
