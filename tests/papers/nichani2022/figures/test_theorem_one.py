# SPDX-License-Identifier: Apache-2.0
import dataclasses

import jax
import jax.random as jr
import numpy as np
import pytest

from unlazy.experiments import CellResult
from unlazy.papers.nichani2022.figures import theorem1
from unlazy.papers.nichani2022.figures.theorem1.config import Config, Descents
from unlazy.papers.nichani2022.figures.theorem1.run import drawn
from unlazy.papers.nichani2022.figures.trials import Problem

TINY = Descents(Problem(4, 12, 8, n_test=20, n_unlabelled=30), trials=1, steps=2, noise=0.0,
                record_every=1)  # fmt: skip


def quiet(done, total):
    del done, total


@pytest.mark.slow
def test_without_noise_two_steps_are_those_of_descent_on_the_regularised_risk():
    # By the risk with its own penalties, differentiated apart, from the start on.
    table = theorem1.run(TINY, seed=3, progress=quiet).table
    trial = drawn(TINY, jr.fold_in(jr.key(38), 3))
    for setting in (0, 1):
        strengths = tuple(float(lam) for lam in np.asarray(trial.strengths[setting], np.float64))
        risk = dataclasses.replace(trial.risk, strengths=strengths)
        W, step = np.zeros((8, 4), np.float32), jax.jit(lambda W, r=risk: (r(W), r.gradient(W)))
        rows = table["penalised"] == setting
        for recorded in table["risk"][rows]:
            value, gradient = step(W)
            assert recorded == pytest.approx(float(value), rel=1e-5)
            W = W - 5.0 * np.asarray(gradient)
        assert table["step"][rows].tolist() == [0, 1, 2]
    assert not np.asarray(trial.strengths[0]).any()
    # epsilon over R4 of the movement of Lemma 1, which is (8 / (E s'')^2)^2.
    z = np.random.default_rng(0).normal(size=(200_000, 4))
    s = 1 / (1 + np.exp(1.5 - 2 * z[:, 0] / np.linalg.norm(z, axis=1)))
    r4 = (8 / np.mean(s * (1 - s) * (1 - 2 * s)) ** 2) ** 2
    assert 0.05 / float(trial.strengths[1, 3]) == pytest.approx(r4, rel=0.02)  # 5 standard errors
    # The network starts at zero, so that the first losses are those of the labels.
    y = np.asarray(trial.y_new, np.float64)
    assert table["test"][0] == pytest.approx(np.mean(np.log(np.cosh(y))), rel=1e-5)
    np.testing.assert_array_equal(table["r4"][table["step"] == 0], 0)


def made_up(config, *, with_=0.3, without=0.25, train=(0.03, 0.1), r1=0.01, r3=0.01, last=0.9):
    """A table in which all is well, or as it is told to be."""
    one = config.descents
    steps = np.array([0, one.steps // 2, one.steps])
    seeds, setting, step = np.meshgrid(range(one.trials), (0, 1), steps, indexing="ij")
    fall = np.where(step == 0, 1.0, np.where(step == steps[1], 0.5, 0.5 * last))
    table = {
        "seed": seeds,
        "penalised": setting,
        "step": step,
        "train": np.where(setting, train[1], train[0]),
        "test": np.where(setting, with_, without),
        "r1": np.where(setting, r1, 1.0),
        "r3": np.where(setting, r3, 1.0),
        "risk": fall,
    }
    (cell,) = theorem1.cells(config)
    return {cell: CellResult({name: np.asarray(column).ravel() for name, column in table.items()})}


def refuted(config, **changes):
    listed = theorem1.claims(config, made_up(config, **changes))
    return {claim.id.split("/")[1] for claim in listed if not claim.as_expected}


def test_made_up_tables_refute_the_claim_that_they_break_and_no_other():
    config = Config(Descents(Problem(10, 60, 400, n_unlabelled=220), trials=2), refuted=("order",))
    assert refuted(config) == set()
    # epsilon + sqrt(d/n) = .05 + .408
    assert refuted(config, with_=0.46, train=(0.0, 0.25)) == {"population"}
    assert refuted(config, r1=0.3) == {"r1"}
    assert refuted(config, r3=0.3) == {"r3"}
    assert refuted(config, train=(0.06, 0.1)) == {"gap"}
    assert refuted(config, last=1.1) == {"descent"}
    # Losses that are smaller with the penalties are news, since they are on record as larger.
    assert refuted(config, without=0.31, train=(0.03, 0.1)) == {"order"}
