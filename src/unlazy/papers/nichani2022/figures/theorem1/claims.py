# SPDX-License-Identifier: Apache-2.0
"""What Theorem 1 says of the network that is trained with penalties, as numbers."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Claim, Results, with_record
from unlazy.papers.nichani2022.conditions import good_directions_theory
from unlazy.papers.nichani2022.figures.theorem1.config import Config
from unlazy.papers.shared.grids.tuning import shown


class Curves(NamedTuple):
    """The curves, by trial, setting (without penalties, with them) and step."""

    step: Float[np.ndarray, " t"]
    train: Float[np.ndarray, "s 2 t"]
    test: Float[np.ndarray, "s 2 t"]
    r1: Float[np.ndarray, "s 2 t"]
    r3: Float[np.ndarray, "s 2 t"]
    risk: Float[np.ndarray, "s 2 t"]


def curves(config: Config, results: Results) -> Curves:
    (result,) = results.values()
    shape = (config.descents.trials, 2, -1)
    columns = [result.table[name].reshape(shape) for name in ("step", *Curves._fields[1:])]
    return Curves(columns[0][0, 0].astype(float), *columns[1:])


def promised(config: Config) -> float:
    """The population loss of the theorem, with hidden constants of 1."""
    one = config.descents
    p = one.problem
    theory = good_directions_theory(p.inputs, 1, n=p.n, m=p.width, accuracy=one.accuracy)
    return theory.risk


def claims(config: Config, results: Results) -> list[Claim]:
    return with_record(list(_said(config, curves(config, results))), config.refuted)


def _said(config: Config, found: Curves) -> Iterator[Claim]:
    test, train, bound = found.test[:, :, -1], found.train[:, :, -1], promised(config)
    said = "The network trained with all four penalties ends with a population loss of at most "
    said += f"epsilon + sqrt(d/n) = {bound:.2f}: largest ratio"
    note = f"population losses {shown(test[:, 1])}"
    yield Claim("NB-38/population", said, float(np.max(test[:, 1])) / bound, "<=", 1.0, note=note)
    for name, values in (("r1", found.r1), ("r3", found.r3)):
        said = f"The penalties hold {name.upper()} down: largest ratio to that without them"
        ratio = values[:, 1, -1] / values[:, 0, -1]
        yield Claim(f"NB-38/{name}", said, float(np.max(ratio)), "<", 0.2)
    gaps = test - train
    said = "Training and population loss are closer with the penalties: largest ratio of gaps"
    note = f"gaps {shown(gaps[:, 0])} without, {shown(gaps[:, 1])} with"
    ratio = float(np.max(gaps[:, 1] / gaps[:, 0]))
    yield Claim("NB-38/gap", said, ratio, "<", 1.0, note=note)
    said = "Update (21) lowers the regularised loss from record to record: largest ratio"
    risk = found.risk[:, 1]
    yield Claim("NB-38/descent", said, float(np.max(risk[:, 1:] / risk[:, :-1])), "<", 1.0)
    said = "The population loss is smaller with the penalties: largest ratio to that without"
    note = f"{shown(test[:, 0])} without; the theorem does not say so"
    ratio = float(np.max(test[:, 1] / test[:, 0]))
    yield Claim("NB-38/order", said, ratio, "<", 1.0, note=note)
