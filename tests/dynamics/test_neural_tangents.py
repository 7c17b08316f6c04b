# SPDX-License-Identifier: Apache-2.0
"""Agreement with `neural_tangents.predict` 0.6.5, item by item, on recorded answers.

The file holds the problems, the answers and where they come from; its script is
`benchmarks/peers/record_predictions.py`. neural-tangents descends on the mean of squares over
samples and outputs, 1/(2 n c), so that its time is n c times ours and its rates are n c of ours.
"""

import math
from pathlib import Path

import jax
import numpy as np
import pytest

from unlazy import kernels
from unlazy.dynamics import KernelDynamics, LossDynamics, ensemble

RECORDED = dict(np.load(Path(__file__).parents[1] / "recorded" / "neural_tangents_predict.npz"))
TRAIN, TEST = slice(0, 5), slice(5, 7)
FORMS = ("plain", "coupled")
REGULARIZED = ("none", "relative", "absolute")
X, Y, START = RECORDED["x"], RECORDED["y"], RECORDED["start"]
RATE, MOMENTUM = float(RECORDED["rate"]), float(RECORDED["momentum"])
COUNT = Y.size  # their loss is ours over this
TIMES = np.append(RECORDED["times"], math.inf) * RATE / COUNT
FINITE, LAST = 1e-6, 1e-8


def gram(form, name, rows, columns):
    return RECORDED[f"{form}/{name}"][rows][:, columns]


def ridges(i):
    value, absolute = RECORDED["regularized"][i]
    return {"ridge" if absolute else "relative_ridge": value}


def close(found, theirs, tolerance):
    np.testing.assert_allclose(found, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())


def test_the_record_says_where_it_comes_from():
    assert "neural-tangents 0.6.5" in str(RECORDED["source"])


def test_the_kernels_are_ours():
    # W_std = 1.3 and b_std = 0.4, two hidden layers.
    network = {"depth": 2, "weight_variance": 1.69, "bias_variance": 0.16}
    close(kernels.ntk(X, **network), RECORDED["plain/ntk"], 1e-10)
    close(kernels.nngp(X, **network), RECORDED["plain/nngp"], 1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("i", range(3), ids=REGULARIZED)
def test_gradient_descent_mse(form, i):
    flow = KernelDynamics.from_gram(
        gram(form, "ntk", TRAIN, TRAIN), Y, start=START[TRAIN], **ridges(i)
    )
    at = flow.at_time(TIMES)
    theirs = RECORDED[f"{form}/mse"][i]
    both = np.concatenate(
        [at.train, at.outputs(gram(form, "ntk", TEST, TRAIN), start=START[TEST])], axis=1
    )
    close(both[:-1], theirs[:-1], FINITE)
    close(both[-1], theirs[-1], LAST)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heavy", [False, True], ids=["plain", "momentum"])
def test_gradient_descent_with_momentum_in_closed_form(form, heavy):
    flow = KernelDynamics.from_gram(
        gram(form, "ntk", TRAIN, TRAIN),
        Y,
        learning_rate=RATE / COUNT,
        momentum=MOMENTUM * heavy,
        start=START[TRAIN],
    )
    at = flow.at_time(RECORDED["ode_times"] * flow.learning_rate)
    theirs = RECORDED[f"{form}/ode"][0, int(heavy)]
    close(at.train, theirs[:, TRAIN], FINITE)
    new = at.outputs(gram(form, "ntk", TEST, TRAIN), start=START[TEST])
    close(new, theirs[:, TEST], FINITE)


def squared(u, y):
    return jax.numpy.mean((u - y) ** 2) / 2


def cross_entropy(u, y):
    return -jax.numpy.sum(jax.nn.log_softmax(u) * y)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heavy", [False, True], ids=["plain", "momentum"])
@pytest.mark.parametrize("which", [0, 1], ids=["squared", "cross_entropy"])
def test_gradient_descent_on_any_loss(form, heavy, which):
    # The same function as theirs, hence the same learning rate, and time is rate times steps.
    flow = LossDynamics.from_gram(
        gram(form, "ntk", TRAIN, TRAIN),
        (Y, RECORDED["classes"])[which],
        (squared, cross_entropy)[which],
        learning_rate=RATE,
        momentum=MOMENTUM * heavy,
        start=START[TRAIN],
    )
    at = flow.at_time(RECORDED["ode_times"] * RATE)
    theirs = RECORDED[f"{form}/ode"][which, int(heavy)]
    close(at.train, theirs[:, TRAIN], FINITE)
    new = at.outputs(gram(form, "ntk", TEST, TRAIN), start=START[TEST])
    close(new, theirs[:, TEST], FINITE)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("i", [0, 1], ids=REGULARIZED[:2])
@pytest.mark.parametrize("which", [0, 1], ids=["nngp", "ntk"])
def test_gradient_descent_mse_ensemble(form, i, which):
    name = ("nngp", "ntk")[which]
    flow = KernelDynamics.from_gram(gram(form, name, TRAIN, TRAIN), Y, **ridges(i))
    crowd = ensemble(
        flow,
        gram(form, name, TEST, TRAIN),
        prior=gram(form, "nngp", TRAIN, TRAIN),
        prior_cross=gram(form, "nngp", TEST, TRAIN),
        prior_test=gram(form, "nngp", TEST, TEST),
        # Their "nngp" with regularisation counts it as noise of the labels, their "ntk" does not.
        noise=flow.ridge if name == "nngp" else 0.0,
    )
    at = crowd.at_time(TIMES)
    for moment in ("mean", "covariance"):
        theirs = RECORDED[f"{form}/ensemble/{moment}"][i, which]
        close(getattr(at, moment)[:-1], theirs[:-1], FINITE)
        close(getattr(at, moment)[-1], theirs[-1], LAST)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("i", range(3), ids=REGULARIZED)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["nngp", "ntk", "ntkgp"])
def test_gp_inference(form, i, which):
    name = "nngp" if which == 0 else "ntk"
    blocks = [(TRAIN, TRAIN), (TEST, TRAIN), (TEST, TEST)]
    H, cross, test = (gram(form, name, *block) for block in blocks)
    if which == 1:
        flow = KernelDynamics.from_gram(H, Y, **ridges(i))
        prior, prior_cross, prior_test = (gram(form, "nngp", *block) for block in blocks)
        found = ensemble(
            flow, cross, prior=prior, prior_cross=prior_cross, prior_test=prior_test
        ).at_time(math.inf)
    else:
        found = kernels.posterior(H, Y, cross, test, **ridges(i))
    close(found.mean, RECORDED[f"{form}/posterior/mean"][i, which], LAST)
    close(found.covariance, RECORDED[f"{form}/posterior/covariance"][i, which], LAST)


@pytest.mark.parametrize("form", FORMS)
def test_max_learning_rate(form):
    H = gram(form, "ntk", TRAIN, TRAIN)
    rates = [
        KernelDynamics.from_gram(H, Y, momentum=m).max_learning_rate * COUNT
        for m in (0.0, MOMENTUM)
    ]
    close(np.array(rates), RECORDED[f"{form}/rates"], 1e-10)
