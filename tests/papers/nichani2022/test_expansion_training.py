# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy import activation, escape, taylor
from unlazy.data import sphere, target
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.nichani2022 import ExpansionSetting, TrialData, fit_expansion
from unlazy.train import Perturbation, fit, perturbed_gradient_descent

D, N, M, RANK = 5, 24, 16, 6
NET = TwoLayer(D, M, activation("sigmoid", shift=1.5), init="sphere")
SETTINGS = [
    ExpansionSetting(),
    ExpansionSetting(lam3=2.0, lam1=3.0, start=0.1),
    ExpansionSetting(lam3=0.5, quadratic=False),
    ExpansionSetting(linear=False, start=0.3),
]


def drawn(trials=2, seed=0, dtype=None):
    """Networks, training sets, test sets and unlabelled points of some trials."""
    keys = jr.split(jr.key(seed), 4)
    params = jax.vmap(lambda key: NET.init(key=key))(jr.split(keys[0], trials))
    f = target("linear-plus-square", beta=np.arange(1.0, D + 1))

    def points(n, key):
        return sphere(trials * n, D, radius=math.sqrt(D), key=key).reshape(trials, n, D)

    sets = [
        TrialData(x, jnp.asarray(jax.vmap(f)(x))) for x in (points(N, keys[1]), points(30, keys[2]))
    ]
    found = (params, *sets, points(40, keys[3]))
    return jax.tree.map(lambda leaf: leaf.astype(dtype or leaf.dtype), found)


def runs_of(problem, settings=SETTINGS, steps=12, **options):
    params, train, test, unlabelled = problem
    chosen = {"learning_rate": 0.5, "rank": RANK, "key": jr.key(7), **options}
    return fit_expansion(
        NET,
        params,
        train,
        settings=settings,
        steps=steps,
        test=test,
        unlabelled=unlabelled,
        **chosen,
    )


def parts(W, own, x):
    """Both terms of the expansion, by automatic differentiation."""
    return taylor.terms(NET, own, TwoLayerParams(W=W, a=jnp.zeros_like(own.a)), x, 2)[1:]


def outside(own, x):
    """The projector off the leading left singular vectors of the dense features."""
    phi = jax.jit(jax.jacobian(lambda W: parts(W, own, x)[0]))(jnp.zeros_like(own.W)).reshape(
        len(x), -1
    )
    U = jnp.linalg.svd(phi, full_matrices=False)[0][:, :RANK]
    return jnp.eye(len(x)) - U @ U.T


def naive_loss(W, own, train, unlabelled, P3, P1, setting):
    """NB-16 in these terms, with its three parts."""
    lam3, lam1, linear, quadratic = setting
    f_L, f_Q = parts(W, own, train.x)
    loss = jnp.mean((linear * f_L + quadratic * f_Q - train.y) ** 2)
    r3 = jnp.mean((P3 @ f_L) ** 2)
    r1 = jnp.mean((P1 @ parts(W, own, unlabelled)[0]) ** 2)
    return loss + lam3 * r3 + lam1 * r1, (loss, r3, r1)


@pytest.fixture(scope="module")
def short():
    """A short run of all kinds of settings in float64, and what it was made of."""
    with jax.enable_x64(True):
        problem = drawn(dtype=jnp.float64)
        return problem, runs_of(problem)


@pytest.mark.slow
def test_every_lane_follows_the_gradient_of_its_own_penalised_loss(short, x64):
    (params, train, _, unlabelled), runs = short
    starts = runs_of(short[0], steps=0).W
    slope = jax.jit(jax.grad(naive_loss, has_aux=True))
    for i in range(2):
        own = jax.tree.map(lambda leaf, i=i: leaf[i], params)
        labelled = jax.tree.map(lambda leaf, i=i: leaf[i], train)
        projectors = outside(own, labelled.x), outside(own, unlabelled[i])
        for j, one in enumerate(SETTINGS):
            numbers = jnp.array([float(v) for v in (one.lam3, one.lam1, one.linear, one.quadratic)])
            W = starts[i, j]
            for _ in range(12):
                G, _ = slope(W, own, labelled, unlabelled[i], *projectors, numbers)
                W = W - 0.5 * G
            np.testing.assert_allclose(runs.W[i, j], W, rtol=0, atol=1e-11)
            _, found = slope(W, own, labelled, unlabelled[i], *projectors, numbers)
            for name, value in zip(("train", "r3", "r1"), found, strict=True):
                np.testing.assert_allclose(getattr(runs, name)[i, j, -1], value, rtol=1e-8)


def test_fresh_points_are_penalised_beyond_the_directions_of_the_training_points(x64):
    # By the dense singular vectors of the features, and automatic differentiation.
    params, train, test, _ = drawn(trials=2, dtype=jnp.float64)
    points = sphere(7, D, radius=2.0, key=jr.key(3)).astype(jnp.float64)
    setting = ExpansionSetting(lam1=4.0, lam3=0.3, start=0.2)
    runs = runs_of(
        (params, train, test, None), [setting], 3, fresh=lambda _: points, learning_rate=0.4
    )
    assert np.isnan(runs.r1).all()
    first = runs_of(
        (params, train, test, None), [setting], 0, fresh=lambda _: points, learning_rate=0.4
    )
    own, x, y = jax.tree.map(lambda leaf: leaf[1], (params, train.x, train.y))

    def features(x):
        slope = jax.jacobian(lambda W: NET(TwoLayerParams(W=W, a=own.a), x))(own.W)
        return slope.reshape(len(x), -1)

    J = features(x)
    V1 = jnp.linalg.svd(J, full_matrices=False)[2][:RANK]
    new = features(points)

    def loss(W):
        f_L, f_Q = parts(W, own, x)
        w = W.ravel()
        high = w - V1.T @ (V1 @ w)
        r3, r1 = jnp.mean((J @ high) ** 2), jnp.mean((new @ high) ** 2)
        return jnp.mean((f_L + f_Q - y) ** 2) + 0.3 * r3 + 4.0 * r1

    W = jnp.asarray(first.W[1, 0])
    for _ in range(3):
        W = W - 0.4 * jax.grad(loss)(W)
    np.testing.assert_allclose(runs.W[1, 0], W, rtol=1e-9, atol=1e-12)


def test_fresh_points_are_others_at_every_step_and_in_every_trial(x64):
    params, train, test, _ = drawn(trials=2, dtype=jnp.float64)
    setting = [ExpansionSetting(lam1=1.0, start=0.1)]
    problem = (params, train, test, None)
    whole = runs_of(problem, setting, 2, fresh=lambda key: jr.normal(key, (3, D)))
    fixed = runs_of(problem, setting, 2, fresh=lambda _: jr.normal(jr.key(0), (3, D)))
    again = runs_of(problem, setting, 2, fresh=lambda key: jr.normal(key, (3, D)))
    np.testing.assert_array_equal(whole.W, again.W)
    assert np.abs(whole.W - fixed.W).max() > 1e-4


def test_test_losses_are_those_of_the_taylor_model(short, x64):
    params, _, test, _ = short[0]
    for i in range(2):
        own = jax.tree.map(lambda leaf, i=i: leaf[i], params)
        moved = TwoLayerParams(W=own.W + short[1].W[i, 1], a=own.a)
        f = taylor.expand(NET, own, 2)(moved, test.x[i])
        expected = jnp.mean((f - test.y[i]) ** 2)
        np.testing.assert_allclose(short[1].test[i, 1, -1], expected, rtol=1e-9)


def test_r3_is_that_of_the_geometry(short, x64):
    params, train, _, _ = short[0]
    own = jax.tree.map(lambda leaf: leaf[1], params)
    geometry = escape.directions(NET, own, train.x[1], degree=1)
    np.testing.assert_allclose(short[1].r3[1, 1, -1], geometry.r3(short[1].W[1, 1]), rtol=1e-8)


def test_a_lane_together_is_the_lane_alone(short, x64):
    problem, runs = short
    alone = runs_of(jax.tree.map(lambda leaf: leaf[:1], problem), [SETTINGS[2]])
    np.testing.assert_allclose(alone.train[0, 0], runs.train[0, 2], rtol=1e-12)
    np.testing.assert_allclose(alone.W[0, 0], runs.W[0, 2], atol=1e-14)


def test_curves_begin_at_the_start_and_end_at_the_end(short):
    runs = short[1]
    assert runs.steps.tolist() == list(range(13))
    labels = np.mean(np.asarray(short[0][1].y) ** 2, axis=1)
    np.testing.assert_allclose(runs.train[:, 0, 0], labels, rtol=1e-12)  # f is 0 at W = 0
    assert not runs.diverged.any()


@pytest.mark.slow
def test_float32_training_stays_near_float64(short):
    rounded = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float32), short[0])
    runs = runs_of(rounded)
    assert runs.W.dtype == jnp.float32
    assert runs.train.dtype == np.float32
    for j in (0, 2):  # the others start at random, from other draws
        np.testing.assert_allclose(runs.train[:, j], short[1].train[:, j], rtol=2e-5)
    np.testing.assert_allclose(runs.r3[:, 2, -1], short[1].r3[:, 2, -1], rtol=1e-3)


@pytest.mark.slow
def test_noise_has_the_law_of_perturbed_descent():
    # From W = 0 one step with and without noise differ by -eta Xi, entries N(0, tau^2/(md)):
    # 160 entries, so that the mean square is within 45% of its expectation up to 4 deviations.
    problem = drawn()
    eta, tau = 0.5, 3.0
    still, noisy = (runs_of(problem, steps=1, noise=noise) for noise in (0.0, tau))
    moved = np.asarray((noisy.W - still.W) / eta)
    np.testing.assert_allclose(moved[:, 0], moved[:, 1], atol=1e-5)  # settings share their noise
    assert np.mean(moved[:, 0] ** 2) * M * D / tau**2 == pytest.approx(1, abs=0.45)
    assert abs(np.corrcoef(moved[0, 0].ravel(), moved[1, 0].ravel())[0, 1]) < 0.45
    two = runs_of(problem, steps=2, noise=tau, learning_rate=1e-6)
    G = -still.W[:, 0] / eta
    both = np.asarray(-two.W[:, 0] / 1e-6 - 2 * G)  # two draws, the gradient taken off
    assert np.mean(both**2) * M * D / tau**2 == pytest.approx(2, abs=0.9)


def test_a_lane_that_diverges_is_marked_and_leaves_the_others_alone():
    settings = [*SETTINGS[:3], ExpansionSetting(lam3=1e6)]
    runs = runs_of(drawn(), settings, 40)
    np.testing.assert_array_equal(runs.diverged, [[False, False, False, True]] * 2)
    assert np.isinf(runs.train[:, 3, -1]).all()
    assert np.isfinite(runs.train[:, :3]).all()
    params, train, *_ = drawn()
    settings = [ExpansionSetting(), ExpansionSetting(lam3=1e6)]
    alone = runs_of((params, train, None, None), settings, 40)
    np.testing.assert_array_equal(alone.diverged, [[False, True]] * 2)
    assert np.isnan(alone.test).all()  # there is none, diverged or not
    assert np.isnan(alone.r1).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rank": N}, r"`rank` must be below the number of points, 24"),
        ({"unlabelled": None}, "`unlabelled` must be given where `lam1` is not 0"),
        ({"settings": []}, "`settings` must hold one setting"),
        ({"noise": -1.0}, "`noise` must be at least 0"),
        ({"learning_rate": 0.0}, "`learning_rate` must be a positive number"),
    ],
)
def test_bad_arguments_are_named(change, words):
    params, train, test, unlabelled = drawn()
    arguments = {
        "settings": SETTINGS,
        "rank": RANK,
        "learning_rate": 0.5,
        "steps": 1,
        "test": test,
        "unlabelled": unlabelled,
        "key": jr.key(0),
        **change,
    }
    with pytest.raises(ValueError, match=words):
        fit_expansion(NET, params, train, **arguments)


def test_settings_and_data_that_make_no_sense_are_refused(no_shape_checker):
    with pytest.raises(ValueError, match="W = 0 is a stationary point"):
        ExpansionSetting(linear=False)
    with pytest.raises(ValueError, match="neither: nothing to train"):
        ExpansionSetting(linear=False, quadratic=False, start=1.0)
    with pytest.raises(ValueError, match="`lam3` must be at least 0"):
        ExpansionSetting(lam3=-1.0)
    with pytest.raises(ValueError, match=r"shapes \(s, n, d\) and \(s, n\)"):
        TrialData(jnp.zeros((3, 2)), jnp.zeros(3))
    params, train, _, _ = drawn()
    one = jax.tree.map(lambda leaf: leaf[0], params)
    with pytest.raises(ValueError, match="a trial on each entry of the first axis"):
        fit_expansion(
            NET, one, train, settings=SETTINGS, rank=2, learning_rate=1.0, steps=1, key=jr.key(0)
        )
    given = {"settings": SETTINGS, "rank": 2, "learning_rate": 1.0, "steps": 1, "key": jr.key(0)}
    narrow = type(params)(W=params.W, a=params.a[:, :1])
    with pytest.raises(ValueError, match=r"`params` must have a of shape .* got params.a.shape="):
        fit_expansion(NET, narrow, train, **given)
    with pytest.raises(ValueError, match="`unlabelled` must be finite"):
        fit_expansion(NET, params, train, **given, unlabelled=train.x * jnp.nan)
    with pytest.raises(ValueError, match="`unlabelled` must hold"):
        fit_expansion(NET, params, train, **given, unlabelled=train.x[:, 0])


# --- the same loss under the other trainers -------------------------------------------------------


class RegularizedRisk:
    """NB-16 for the model f_L + f_Q, or f_Q alone, as a function of the movement."""

    def __init__(self, net, params, x, y, *, linear=1.0, lams=(0.0, 0.01, 2.0, 1e-6)):
        self.geometry = escape.directions(net, params, x, degree=1)
        self.expansion = [taylor.expand(net, params, order) for order in (1, 2)]
        self.params, self.y, self.x, self.linear, self.lams = params, y, x, linear, lams

    def __call__(self, W, data):
        del data
        moved = TwoLayerParams(W=self.params.W + W, a=self.params.a)
        f_L, both = (model(moved, self.x) for model in self.expansion)  # the network starts at 0
        loss = jnp.mean((self.linear * f_L + both - f_L - self.y) ** 2)
        penalties = (self.geometry.r1, self.geometry.r2, self.geometry.r3, self.geometry.r4)
        pairs = zip(self.lams, penalties, strict=True)
        return loss + sum(lam * penalty(W) for lam, penalty in pairs if lam)


def one_trial(dtype=jnp.float64):
    params, train, _, _ = drawn(1, dtype=dtype)
    return jax.tree.map(lambda leaf: leaf[0], params), train.x[0], train.y[0]


@pytest.mark.slow
def test_perturbed_descent_trains_the_regularised_loss(x64):
    risk = RegularizedRisk(NET, *one_trial())
    start = jnp.zeros((M, D))
    history = perturbed_gradient_descent(
        risk, start, None, steps=3000, perturbation=Perturbation.scaled(M), key=jr.key(0)
    )
    assert history.loss[-1] < 0.2 * history.loss[0]
    slope = jnp.linalg.norm(jax.grad(risk)(history.params, None))
    assert float(slope) < 0.02 * float(jnp.linalg.norm(jax.grad(risk)(start, None)))


@pytest.mark.slow
def test_without_the_linear_term_only_kicks_leave_the_start(x64):
    risk = RegularizedRisk(NET, *one_trial(), linear=0.0, lams=(0.0, 0.0, 0.0, 0.0))
    start = jnp.zeros((M, D))
    still = fit(risk, start, (jnp.zeros(1),), optimizer=optax.sgd(1.0), steps=3)
    assert not still.params.any()
    history = perturbed_gradient_descent(
        risk, start, None, steps=1500, learning_rate=1.0, key=jr.key(0)
    )
    assert history.perturbed_at[0] == 0
    assert history.loss[-1] < 0.5 * history.loss[0]
