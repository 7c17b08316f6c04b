# SPDX-License-Identifier: Apache-2.0
"""What Appendix G says of the authors' own runs, as numbers."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Claim, Results, with_record
from unlazy.papers.nichani2022.figures.appendix_g.authors.config import (
    AuthorsConfig,
    FreshPenalties,
    ImageCourse,
)
from unlazy.papers.shared.grids.tuning import shown


class Curves(NamedTuple):
    """The curves under R1 on fresh points, by trial, strength and step."""

    step: Float[np.ndarray, " t"]
    train: Float[np.ndarray, "s k t"]
    test: Float[np.ndarray, "s k t"]
    r3: Float[np.ndarray, "s k t"]


class Path(NamedTuple):
    """A model evaluated along a training on images."""

    epoch: Float[np.ndarray, " t"]
    train: Float[np.ndarray, " t"]
    test: Float[np.ndarray, " t"]
    accuracy: Float[np.ndarray, " t"]


def curves(config: FreshPenalties, results: Results) -> Curves:
    table = _table(results, lambda one: one == config)
    shape = (config.trials, len(config.strengths), -1)
    columns = [table[name].reshape(shape) for name in ("step", "train", "test", "r3")]
    return Curves(columns[0][0, 0].astype(float), *columns[1:])


def path(results: Results, trained: int, evaluated: int) -> Path:
    """The model of the order `evaluated` along the training of the model of the order `trained`."""
    table = _table(results, lambda one: isinstance(one, ImageCourse) and one.order == trained)
    own = table["evaluated"] == evaluated
    return Path(*(table[name][own].astype(float) for name in Path._fields))


def _table(results: Results, wanted: Any) -> dict[str, np.ndarray]:
    return next(result.table for cell, result in results.items() if wanted(cell.config))


def authors_claims(config: AuthorsConfig, results: Results) -> list[Claim]:
    listed = [*_penalties(config.penalties, results), *_images(results)]
    return with_record(listed, config.refuted)


def _penalties(config: FreshPenalties, results: Results) -> Iterator[Claim]:
    found = curves(config, results)
    test = found.test[:, :, -1].mean(axis=0)
    said = f"Beside R3 at {config.lam3:g}, R1 on fresh points changes little at any strength: "
    said += "largest change of the mean test loss, relative"
    measured = float(np.max(np.abs(test / test[0] - 1)))
    yield Claim("NB-51/fresh", said, measured, "<=", 0.1, note=f"means {shown(test)}")
    said = "Every strength fits the training set: largest training loss"
    yield Claim("NB-51/fresh-train", said, float(np.max(found.train[:, :, -1])), "<=", 1e-2)


def _images(results: Results) -> Iterator[Claim]:
    network, linear, quadratic = (path(results, order, order) for order in (0, 1, 2))
    losses = [float(one.test[-1]) for one in (network, linear, quadratic)]
    right = ", ".join(f"{one.accuracy[-1]:.1%}" for one in (network, linear, quadratic))
    note = f"f, f_L and f_L + f_Q: losses {shown(np.array(losses))}; right {right}"
    said = "Trained on CIFAR-10, f_L + f_Q tests better than f_L: ratio of test losses"
    yield Claim("NB-53/images", said, losses[2] / losses[1], "<", 1.0, note=note)
    said = "The network tests better than both: its test loss over the smaller of theirs"
    yield Claim("NB-53/images-network", said, losses[0] / min(losses[1:]), "<", 1.0)
    gaps = [abs(losses[order] - losses[0]) for order in (1, 2)]
    said = "f_L + f_Q is nearer to the network: distance of test losses over that of f_L"
    yield Claim("NB-53/images-gap", said, gaps[1] / gaps[0], "<", 0.7)
    along = [float(path(results, 0, order).test[-1]) for order in (1, 2)]
    said = "At the trained network's own weights f_L + f_Q is nearer to it than f_L: distance of "
    said += "test losses over that of f_L"
    note = f"losses {shown(np.array(along))}"
    measured = abs(along[1] - losses[0]) / abs(along[0] - losses[0])
    yield Claim("NB-53/images-path", said, measured, "<", 1.0, note=note)
