# SPDX-License-Identifier: Apache-2.0
"""The settings of the authors' code, against their formulas written out again."""

import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.data.image_files import Split
from unlazy.nets import BiasedTwoLayer
from unlazy.papers.nichani2022.figures import appendix_g, figure1, figure2
from unlazy.papers.nichani2022.figures.appendix_g.authors import network
from unlazy.papers.nichani2022.figures.appendix_g.authors.config import FreshPenalties, ImageCourse
from unlazy.papers.nichani2022.figures.figure2.config import LEVEL, AuthorsSweep
from unlazy.papers.nichani2022.figures.figure2.run import draw_as_authors
from unlazy.papers.nichani2022.figures.standard_network import authors_init, authors_target
from unlazy.papers.nichani2022.figures.trials import AuthorsProblem, draw

CLASSES = (3, 7)


def quiet(done, total):
    del done, total


def test_the_target_of_figure_1_is_the_authors_and_has_variance_one():
    # The fourth moment of the target is 60/9: 40000 values know their mean square to .012.
    drawn = draw(AuthorsProblem(7, 3, 4, n_test=40_000), range(1))
    x, y = (np.asarray(part[0], np.float64) for part in drawn.test.__dict__.values())
    assert abs(y.mean()) < 0.03
    assert np.mean(y**2) == pytest.approx(1.0, abs=0.08)
    # The target is a quadratic in one direction: beta is its linear regression.
    beta = np.linalg.lstsq(x, y * np.sqrt(3), rcond=None)[0]
    beta /= np.linalg.norm(beta)
    z = x @ beta
    assert np.corrcoef(y, (z**2 - 1 + z) / np.sqrt(3))[0, 1] > 0.99


def test_inputs_are_gaussian_and_the_rank_is_the_dimension():
    problem = figure1.EXPERIMENT.preset("authors").config.descents.problem
    assert (problem.inputs, problem.n, problem.width, problem.rank) == (100, 1000, 10_000, 100)
    assert (problem.shift, problem.n_test) == (1.0, 10_000)
    x = np.asarray(problem.points(2000, key=jr.key(0)))
    assert np.linalg.norm(x, axis=1).std() == pytest.approx(0.5**0.5, rel=0.1)  # 6 errors


@pytest.mark.parametrize("d", [5, 8])
def test_the_target_of_figure_2_is_the_formula(d):
    target = authors_target(d, key=jr.key(1))
    x = np.random.default_rng(0).standard_normal((6, d))
    beta = np.asarray(jr.normal(jr.key(1), (d,)), np.float64)
    z = x @ (beta / np.linalg.norm(beta))
    dense = sum(x[:, i] ** 2 for i in range(d) if i > d / 2) / np.sqrt(675)
    np.testing.assert_allclose(target(x), dense + (z**3 - 3 * z) / np.sqrt(6), rtol=1e-6)


def test_weights_start_uniform_with_variance_half_over_the_fan_in():
    params = authors_init(BiasedTwoLayer(20, 5000), key=jr.key(0))
    assert float(jnp.abs(params.W).max()) <= np.sqrt(3 / 40)
    assert float(jnp.var(params.W)) == pytest.approx(1 / 40, rel=0.02)  # 7 standard errors
    assert float(jnp.var(params.a)) == pytest.approx(1 / 10_000, rel=0.1)
    assert not np.any(params.b)


def test_sizes_grow_until_the_median_reaches_the_level(monkeypatch):
    calls = []

    def rows(config, drawn, sizes, progress):
        calls.append(sizes)
        loss = {4: 0.3, 8: 0.2, 12: 0.15, 16: 0.11, 20: 0.09, 24: 0.05}
        return [
            ("network", s, n, 0.0, loss[n] * (5 if s == 0 else 1)) for s in range(3) for n in sizes
        ]

    monkeypatch.setattr(sys.modules[figure2.run.__module__], "_network_rows", rows)
    config = AuthorsSweep(2, most=9, together=2, n_test=3)
    found = figure2.run(config, seed=0, progress=quiet).table
    assert calls == [[4, 8], [12, 16], [20, 24]]
    assert np.median(found["test"][found["n"] == 20]) < LEVEL


def test_a_seed_has_one_draw_for_all_sizes():
    config = AuthorsSweep(3, most=4, n_test=5)
    one = draw_as_authors(config, 1)
    assert one.x.shape == (36, 3)
    assert one.x_test.shape == (5, 3)
    assert not np.allclose(one.x, draw_as_authors(config, 2).x)


def test_r1_on_fresh_points_is_trained_at_every_strength():
    config = FreshPenalties(
        AuthorsProblem(4, 12, 8, n_test=20), (0.0, 0.5), fresh=5, trials=2, steps=4, record_every=2
    )
    table = appendix_g.run(config, seed=0, progress=quiet).table
    test = table["test"].reshape(2, 2, 3)
    assert np.isfinite(test).all()
    np.testing.assert_array_equal(test[:, 0, 0], test[:, 1, 0])
    assert np.abs(test[:, 0, -1] - test[:, 1, -1]).min() > 1e-7


@pytest.fixture
def images(monkeypatch):
    """A made-up image set of ten classes."""
    rng = np.random.default_rng(0)

    def split(n):
        return Split(rng.integers(0, 256, (n, 3072), dtype=np.uint8), np.arange(n) % 10)

    class Source:
        train, test = split(60), split(40)

    monkeypatch.setattr(network, "read_image_set", lambda _: Source)
    return Source


def test_images_are_of_the_two_classes_standardised_by_colour(images):
    train, test = network.two_classes(CLASSES, 9, 100)
    assert train.x.shape == (9, 32, 32, 3)
    assert test.x.shape == (8, 32, 32, 3)
    assert set(np.unique(test.y)) == {-1.0, 1.0}
    rows = np.flatnonzero(np.isin(images.test.labels, CLASSES))
    red = (images.test.images[rows, :1024].astype(float) - 125.30691805) / 62.99321928
    found = test.x[:, :, :, 0].reshape(8, -1)
    signs = np.where(images.test.labels[rows] == CLASSES[0], 1.0, -1.0)
    for row, sign in zip(red, signs, strict=True):
        place = np.argmin(np.abs(found - row).sum(axis=1))
        np.testing.assert_allclose(found[place], row, atol=1e-5)
        assert test.y[place] == sign


@pytest.mark.usefixtures("images")
@pytest.mark.parametrize(
    "order", [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.slow), 2]
)
def test_courses_on_images_are_descent_on_the_model_of_their_order(order):
    config = ImageCourse(
        *(order, "made up", CLASSES, 12, 8, 2, 1),
        epochs=2,
        batch_size=12,  # all of them: the order of the samples plays no part
        learning_rate=0.3,
        record_every=1,
    )
    table = appendix_g.run(config, seed=0, progress=quiet).table
    train, test = network.two_classes(CLASSES, 12, 8)
    start = network.init(2, 1, 32, key=jr.fold_in(jr.key(2022), 0))

    def model(params, x, order):
        """By derivatives of derivatives along the movement."""
        moved = jax.tree.map(jnp.subtract, params, start)

        def along(t):
            return network.outputs(jax.tree.map(lambda p, m: p + t * m, start, moved), x)

        def slope(t):
            return jax.jvp(along, (t,), (1.0,))[1]

        if order == 0:
            return network.outputs(params, x)
        f, first = jax.jvp(along, (0.0,), (1.0,))
        return f + first + (jax.jvp(slope, (0.0,), (1.0,))[1] / 2 if order == 2 else 0.0)

    def loss(params, data, order):
        return jnp.mean((model(params, jnp.asarray(data.x), order) - data.y) ** 2)

    params = start
    for _ in range(2):
        slope = jax.grad(loss)(params, train, order)
        params = jax.tree.map(lambda p, g: p - 0.3 * g, params, slope)
    for evaluated in config.evaluated:
        row = (table["epoch"] == 2) & (table["evaluated"] == evaluated)
        np.testing.assert_allclose(table["test"][row], loss(params, test, evaluated), rtol=1e-4)
        np.testing.assert_allclose(table["train"][row], loss(params, train, evaluated), rtol=1e-4)
        right = np.mean(np.asarray(model(params, jnp.asarray(test.x), evaluated)) * test.y > 0)
        np.testing.assert_allclose(table["accuracy"][row], right)
