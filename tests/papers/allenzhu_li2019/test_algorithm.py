# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import data
from unlazy.data.parities import hard_parities
from unlazy.nets import ResNet3, combine, partition
from unlazy.papers.allenzhu_li2019 import resnet_sgd


def test_steps_are_those_of_plain_gradient_descent(getkey, x64):
    # RN-31, sample by sample, both layers at the old point, by automatic differentiation.
    net = ResNet3(3, 30, 2)
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), net.init(key=getkey()))
    x, y = jr.normal(getkey(), (4, 3)), jr.normal(getkey(), (4, 2))
    kept: dict[str, Any] = dict(rate_w=0.1, rate_v=0.03, record_every=1, key=getkey())
    run = resnet_sgd(net, params, (x, y), steps=4, order="sequential", **kept)
    trained, frozen = partition(params, "hidden")
    gradient = jax.jit(jax.grad(lambda t, x, y: jnp.sum((net(combine(t, frozen), x) - y) ** 2) / 2))
    structure = jax.tree.structure(trained)
    for t in range(4):
        slopes = jax.tree.leaves(gradient(trained, x[t][None], y[t][None]))
        pairs = zip(jax.tree.leaves(trained), slopes, (0.1, 0.1, 0.03, 0.03), strict=True)
        trained = jax.tree.unflatten(structure, [old - rate * g for old, g, rate in pairs])
    for name in ("W", "b1", "V", "b2"):
        np.testing.assert_allclose(
            getattr(run.params, name), getattr(trained, name), rtol=1e-12, atol=1e-14
        )
        moved = getattr(run.params, name) - getattr(params, name)
        np.testing.assert_allclose(getattr(run.increment, name), moved, rtol=1e-9, atol=1e-14)
    np.testing.assert_array_equal(run.params.A, params.A)
    risk = np.mean(np.sum(np.asarray(net(params, x) - y) ** 2, axis=1))
    assert run.risk[0] == pytest.approx(risk, rel=1e-12)
    assert run.mean_risk == pytest.approx(np.mean(run.risk))
    assert run.history.steps.tolist() == [0, 1, 2, 3, 4]


class HardInstance:
    """RN-59: d = 10, k = 3, alpha = 0.3 on the whole cube of unit-norm corners."""

    def __init__(self):
        scale = 10**-0.5
        self.target = hard_parities((0, 1, 2), alpha=0.3, scale=scale)
        self.x = data.corners(10, scale=scale)
        self.net = ResNet3(10, 500, 3)

    def run(self, rate_w, rate_v, seed):
        params, y = self.net.init(key=jr.key(seed)), self.target(self.x)
        return resnet_sgd(
            self.net,
            params,
            (self.x, y),
            rate_w=rate_w,
            rate_v=rate_v,
            steps=20_000,
            record_every=2000,
            key=jr.key(seed + 100),
        )

    def first_layer_error(self, params):
        out1 = self.net.first_outputs(params, jnp.asarray(self.x, jnp.float32))
        return np.mean(np.sum((np.asarray(out1) - self.target.base(self.x)) ** 2, axis=1))


@pytest.mark.slow
def test_composite_signal_is_learnt_on_the_hard_instance():
    # RN-59, (0.1, 0.1), in units of alpha^2: .375 at T = 2000, .038 at 4000, .007 at 20000; three
    # of our seeds gave .25 to .29, .030 to .040 and .006 to .007. Learning F alone leaves 3.
    problem = HardInstance()
    run = problem.run(0.1, 0.1, seed=0)
    assert run.history.steps.tolist()[:3] == [0, 2000, 4000]
    risk = run.risk / 0.3**2
    assert 0.15 < risk[1] < 0.5
    assert 0.02 < risk[2] < 0.06
    assert risk[-1] < 0.012
    # E||out1 - F||^2 stays of order alpha^2: 1.4 to 6.2 in these units.
    assert 1 < problem.first_layer_error(run.params) / 0.3**2 < 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "measured"),
    [((0.05, 0.005), (2.07, 1.11, 0.016)), ((0.02, 0.002), (2.83, 2.07, 0.34))],
)
def test_slower_rates_follow_the_table(rates, measured):
    # RN-59; one seed there, another here: within 25 %, and a factor of 2.2 at the small end (three
    # of our seeds: 1.88 to 2.03, 1.19 to 1.31, .026 to .031; 2.90 to 3.02, 2.10 to 2.21, .47 to
    # .50).
    risk = HardInstance().run(*rates, seed=0).risk[[1, 2, -1]] / 0.3**2
    assert risk[:2] == pytest.approx(measured[:2], rel=0.25)
    assert measured[2] / 2.2 < risk[2] < measured[2] * 2.2


def test_a_rate_of_zero_leaves_its_layer_as_it_is(getkey):
    net = ResNet3(3, 20, 2)
    params, x, y = net.init(key=getkey()), jr.normal(getkey(), (4, 3)), jr.normal(getkey(), (4, 2))
    options: dict[str, Any] = {"steps": 5, "key": getkey()}
    both = resnet_sgd(net, params, (x, y), **options).params
    first = resnet_sgd(net, params, (x, y), rate_v=0.0, **options).params
    second = resnet_sgd(net, first, (x, y), rate_w=0, **options).params
    for old, new, moved, kept in (
        (params, first, ("W", "b1"), ("V", "b2")),
        (first, second, ("V", "b2"), ("W", "b1")),
        (params, both, ("W", "b1", "V", "b2"), ("A",)),
    ):
        for name in kept:
            np.testing.assert_array_equal(getattr(new, name), getattr(old, name))
        for name in moved:
            assert np.abs(getattr(new, name) - getattr(old, name)).max() > 1e-4


@pytest.mark.slow
def test_layers_trained_one_after_the_other_learn_the_composite_less_well():
    # Section 2.1 says that layer-wise training could fail. On the hard class (d = 20, k = 3) the
    # first layer alone leaves the composite, and the second then learns it all the same. In units
    # of k alpha^2, for three seeds: .94 to 1.04, then .034 to .044; .012 to .020 jointly.
    d, k, alpha, steps = 20, 3, 0.3, 8000
    target = hard_parities(range(k), alpha=alpha, scale=d**-0.5)
    x, others = (data.cube(n, d, scale=d**-0.5, key=jr.key(n)) for n in (steps, 1000))
    y, wanted = target(x), target(others)
    net = ResNet3(d, 200, k)
    start = net.init(key=jr.key(3))

    def train(params, rate_w, rate_v, steps):
        options: dict[str, Any] = {"steps": steps, "record_every": steps, "key": jr.key(4)}
        return resnet_sgd(net, params, (x, y), rate_w=rate_w, rate_v=rate_v, **options).params

    def risk(params):
        errors = np.asarray(net(params, others)) - np.asarray(wanted)
        return float(np.mean(np.sum(errors**2, axis=1))) / (k * alpha**2)

    jointly = risk(train(start, 0.1, 0.1, steps))
    first = train(start, 0.1, 0.0, steps // 2)
    second = train(first, 0.0, 0.1, steps // 2)
    assert 0.8 < risk(first) < 1.2
    assert risk(second) < 0.08
    assert jointly < 0.7 * risk(second)


def test_bad_arguments_are_named(getkey, no_shape_checker):
    net = ResNet3(3, 4, 2)
    params, x, y = net.init(key=getkey()), jnp.ones((5, 3)), jnp.ones((5, 2))
    with pytest.raises(ValueError, match="`steps` must be at most the number of samples, 5"):
        resnet_sgd(net, params, (x, y), steps=6, order="sequential", key=getkey())
    with pytest.raises(ValueError, match=r"`y` must have the shape of the network's outputs"):
        resnet_sgd(net, params, (x, y[:, :1]), steps=6, key=getkey())
    with pytest.raises(ValueError, match="`rate_v` must be a number >= 0, got rate_v=-1"):
        resnet_sgd(net, params, (x, y), steps=6, rate_v=-1, key=getkey())
    with pytest.raises(ValueError, match="`rate_w` and `rate_v` must not both be 0"):
        resnet_sgd(net, params, (x, y), steps=6, rate_w=0, rate_v=0.0, key=getkey())
    with pytest.raises(ValueError, match="Did you mean 'random'"):
        resnet_sgd(net, params, (x, y), steps=6, order="randm", key=getkey())  # pyright: ignore[reportArgumentType]  # on purpose
