# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.nets import ResNet3, ResNet3Params
from unlazy.papers.allenzhu_li2019 import (
    BiasedConcept,
    ResidualConcept,
    resnet3_gradient,
    resnet_coupling,
    resnet_progress,
    resnet_weights,
)
from unlazy.papers.allenzhu_li2019.gradients import ResNet3Gradient
from unlazy.papers.shared import worst_case_flip_output, worst_case_flips

D = 5


def params_of(W, V, A):
    """Parameters in float64 from matrices whose last column is the bias."""
    with jax.enable_x64(True):
        W, V, A = (jnp.asarray(array, jnp.float64) for array in (W, V, A))
        return ResNet3Params(W=W[:, :-1], b1=W[:, -1], V=V[:, :-1], b2=V[:, -1], A=A)


def start(m, k, seed, sigma_v=2.0):
    rng = np.random.default_rng([m, k, seed])
    sigma_w = m**-0.25
    W = sigma_w * rng.standard_normal((m, D + 1))
    V = sigma_v / math.sqrt(m) * rng.standard_normal((m, k + 1))
    params = params_of(W, V, rng.standard_normal((k, m)) / math.sqrt(m))
    return params, {"sigma_w": sigma_w, "sigma_v": sigma_v}


def random_movement(m, k, tau_w, tau_v, seed):
    rng = np.random.default_rng([m, k, seed, 1])
    W, V = rng.standard_normal((m, D + 1)), rng.standard_normal((m, k + 1))
    return params_of(
        W * tau_w / np.linalg.norm(W, 2), V * tau_v / np.linalg.norm(V, 2), np.zeros((k, m))
    )


def points(n, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def excesses(coupling):
    return {condition.text[:3]: condition.excess for condition in coupling.conditions}


def concept(alpha):
    F = BiasedConcept.ridge(np.eye(2), [[0.2, 0.8, 0.5, -0.3], [0, -1, 0.4]], np.eye(D)[:2])
    G = BiasedConcept.ridge(np.eye(2), [[0, 0.6, 0.3, -0.4], [0.2, 0, 0.5, 0.3]], np.eye(2))
    return ResidualConcept(F, G, alpha)


def test_terms_are_their_formulas_neuron_by_neuron():
    # Lemma C.1 by loops over a small network, two points.
    m, k = 30, 2
    params0, sigmas = start(m, k, 0)
    dparams, x = random_movement(m, k, 2.0, 0.7, 0), points(2)
    found = [c.value for c in resnet_coupling(params0, dparams, x, **sigmas).conditions]
    W0, V0, A = np.asarray(params0.W), np.asarray(params0.V), np.asarray(params0.A)
    b1, b2 = np.asarray(params0.b1), np.asarray(params0.b2)
    expected = np.zeros(7)
    for row in x:
        old = [W0[j] @ row + b1[j] for j in range(m)]
        new = [old[j] + np.asarray(dparams.W)[j] @ row + float(dparams.b1[j]) for j in range(m)]
        out1 = sum(A[:, j] * max(new[j], 0) for j in range(m))
        old2 = [V0[j] @ out1 + b2[j] for j in range(m)]
        new2 = [old2[j] + np.asarray(dparams.V)[j] @ out1 + float(dparams.b2[j]) for j in range(m)]
        on = [j for j in range(m) if new2[j] >= 0]
        size = 1 + np.linalg.norm(out1)
        V0_rows = np.concatenate([V0, b2[:, None]], axis=1)
        at = [
            sum((old[j] >= 0) != (new[j] >= 0) for j in range(m)),
            np.linalg.norm(sum(A[:, j] * old[j] for j in range(m) if new[j] >= 0)),
            np.linalg.norm(out1),
            sum((old2[j] >= 0) != (new2[j] >= 0) for j in range(m)),
            np.linalg.norm(sum(A[:, j] * old2[j] for j in on)) / size,
            np.linalg.norm(sum(np.outer(A[:, j], V0_rows[j]) for j in on), 2),
            np.linalg.norm(sum(A[:, j] * new2[j] for j in on)) / size,
        ]
        expected = np.maximum(expected, at)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize(("m", "k", "tau_w", "tau_v"), [(1000, 1, 2.0, 0.3), (4000, 3, 1.0, 0.5)])
def test_random_movements_stay_within_the_bounds_with_constants_of_one(m, k, tau_w, tau_v):
    # Within the lemma's range of tau_v, from sigma_v (k/m)^(3/8) = .15 and .13 on.
    params0, sigmas = start(m, k, 1)
    x = points(20, m)
    found = resnet_coupling(params0, random_movement(m, k, tau_w, tau_v, 2), x, **sigmas)
    assert (found.tau_w, found.tau_v) == pytest.approx((tau_w, tau_v))
    assert found.valid, str(found)
    # Far below that range the start itself, of size sqrt(k) sigma_v / sqrt(m), breaks (e) and (f).
    below = resnet_coupling(params0, random_movement(m, k, tau_w, 0.01, 2), x, **sigmas)
    assert excesses(below)["(e)"] > 2
    assert excesses(below)["(f)"] > 2


def test_a_first_layer_moved_along_the_output_weights_has_outputs_of_the_size_of_the_bound():
    # (c): |A_+| = sqrt(1/2) for the positive entries and |(x, 1)| = sqrt(2): the constant is 1.
    m, tau_w = 4000, 5.0
    params0, sigmas = start(m, 1, 9)
    x = points(1)
    along = np.outer(np.maximum(np.asarray(params0.A)[0], 0), np.append(x[0], 1.0))
    small = random_movement(m, 1, 1.0, 0.2, 9)
    V = np.concatenate([small.V, small.b2[:, None]], axis=1)
    W = along * tau_w / np.linalg.norm(along, 2)
    found = resnet_coupling(params0, params_of(W, V, np.zeros((1, m))), x, **sigmas)
    assert 0.8 < excesses(found)["(c)"] < 1.1


@pytest.mark.parametrize("m", [1000, 16_000])
def test_the_worst_movement_of_the_second_layer_needs_a_constant_near_one(m):
    # (e) and (g) over all V of norm tau_v, k = 1, by the knapsack of RN-36 at z = (out_1, 1): the
    # movement that flips the worst signs. Unlike random movements it does not fade with the width.
    params0, sigmas = start(m, 1, 3)
    x, tau_v = points(1), 0.4
    none = random_movement(m, 1, 1.0, 1e-12, 0)
    out1 = resnet_coupling(params0, none, x, **sigmas).conditions[2].value
    W = np.concatenate([params0.W + none.W, (params0.b1 + none.b1)[:, None]], axis=1)
    V0 = np.concatenate([params0.V, params0.b2[:, None]], axis=1)
    A = np.asarray(params0.A)[0]
    signed = float(A @ np.maximum(W @ np.append(x[0], 1), 0))
    assert abs(signed) == pytest.approx(out1)
    z = np.array([signed, 1.0])
    before = V0 @ z
    budget = tau_v * float(np.linalg.norm(z))
    worst = worst_case_flip_output(A, before, budget)
    g = np.where(worst.flipped, -(1 + 1e-9) * before, 0.0)
    V = np.outer(g, z) / (z @ z)
    moved = params_of(np.concatenate([none.W, none.b1[:, None]], axis=1), V, np.zeros((1, m)))
    found = resnet_coupling(params0, moved, x, **sigmas)
    assert found.tau_v == pytest.approx(tau_v, rel=0.01)
    by_flips = abs(float(A @ (before * (V @ z + before >= 0))))
    term = {c.text[:3]: c for c in found.conditions}
    assert term["(e)"].value == pytest.approx(by_flips / (1 + out1), rel=1e-9)
    assert abs(by_flips - worst.change) <= abs(float(A @ np.maximum(before, 0))) + 1e-9
    assert 0.4 < term["(e)"].excess < 1.3
    assert 0.1 < term["(g)"].excess < 1
    flips = worst_case_flips(before, budget)
    assert term["(d)"].value <= flips <= 1.3 * term["(d)"].most


@pytest.mark.parametrize(("m", "alpha", "share"), [(700, 0.4, 0.0), (1500, -0.2, 0.6)])
def test_the_error_term_is_that_of_the_gradient(m, alpha, share):
    # Fact C.4: with the label out + e_r, minus the gradient is the r-th component of H - out + Err
    # along (W* - W, V* - V). An independent route through the gradients in closed form.
    params0, sigmas = start(m, 2, 4)
    target, x = concept(alpha), points(6)
    aim = resnet_weights(params0, target, **sigmas).dparams
    with jax.enable_x64(True):
        moved = jax.tree.map(lambda p: share * p, aim)
        now = jax.tree.map(jnp.add, params0, moved)
        toward = jax.tree.map(jnp.subtract, aim, moved)
        net = ResNet3(D, m, 2)
        out = np.asarray(net(now, jnp.asarray(x)))
        products = np.zeros((6, 2))
        for i, r in np.ndindex(6, 2):
            y = out[i : i + 1] + np.eye(2)[r]
            grad = resnet3_gradient(net, now, jnp.asarray(x[i : i + 1]), jnp.asarray(y))
            parts = ((grad.W, toward.W), (grad.b1, toward.b1), (grad.V, toward.V))
            parts += ((grad.b2, toward.b2),)
            products[i, r] = -sum(float(jnp.sum(g * d)) for g, d in parts)
    found = resnet_progress(params0, moved, aim, target, x, sigma_v=sigmas["sigma_v"])
    H = target(x)
    np.testing.assert_allclose(found.errors, products - (H - out), atol=1e-12)
    assert found.error == pytest.approx(float(np.mean(np.sum(found.errors**2, axis=1))))
    assert found.risk == pytest.approx(float(np.mean(np.sum((H - out) ** 2, axis=1))))


def test_claims_hold_along_the_way_to_the_target_and_the_lemma_at_wide_networks_only():
    # C.6 and C.7 beyond one point: two alphas, two widths, three places between start and target.
    # C.3 (a) and (c) ask for a width that makes the construction exact to alpha-tilde^2 (1e-4).
    x = points(40)
    for m, alpha in ((1000, 0.4), (4000, 0.1)):
        params0, sigmas = start(m, 2, 5)
        target = concept(alpha)
        aim = resnet_weights(params0, target, **sigmas).dparams
        for along, second in ((0.0, 0.0), (0.7, 0.5), (1.0, 1.0)):
            with jax.enable_x64(True):
                W, b1 = along * aim.W, along * aim.b1
                moved = ResNet3Gradient(W=W, b1=b1, V=second * aim.V, b2=second * aim.b2)
            found = resnet_progress(params0, moved, aim, target, x, sigma_v=sigmas["sigma_v"])
            failed = {c.text[:7] for c in found.failed}
            assert failed == {"C.3 (a)", "C.3 (c)"}, str(found)
            claim = next(c for c in found.conditions if c.text.startswith("C.6 E"))
            assert claim.excess < 0.1
            if along == second == 1.0:  # at the target f + g is 0, and Err is out - H
                assert found.error == pytest.approx(found.risk, rel=1e-9)


def test_a_second_layer_that_hides_the_error_of_the_first_pays_for_it_with_its_norm():
    # C.7: a V of least norm that makes out = H at one point while out_1 is still far from F.
    m = 4000
    params0, sigmas = start(m, 2, 6)
    target, x = concept(0.1), points(1)
    aim = resnet_weights(params0, target, **sigmas).dparams
    A, W0 = np.asarray(params0.A), np.asarray(params0.W)
    V0 = np.concatenate([params0.V, params0.b2[:, None]], axis=1)
    out1 = A @ np.maximum(W0 @ x[0] + np.asarray(params0.b1), 0)
    z = np.append(out1, 1.0)
    F, H = (np.asarray(f(x))[0] for f in (target.base, target))
    V, missing = np.zeros_like(V0), np.ones(2)
    for _ in range(20):  # signs change on the way: Newton steps
        hidden = (V0 + V) @ z
        missing = H - out1 - A @ np.maximum(hidden, 0)
        on = (hidden >= 0) * A
        V = V + np.outer(on.T @ np.linalg.solve(on @ on.T, missing), z) / (z @ z)
    assert np.linalg.norm(missing) < 1e-9
    moved = params_of(np.zeros((m, D + 1)), V, np.zeros((2, m)))
    found = resnet_progress(params0, moved, aim, target, x, sigma_v=sigmas["sigma_v"])
    gap = found.conditions[-1]
    assert found.risk < 1e-18
    assert gap.value == pytest.approx(np.linalg.norm(out1 - F), rel=1e-6)
    assert 0.2 < gap.excess < 1
    text = str(found)
    assert text.startswith("tau_w ")
    assert "errors" not in text


def test_bad_arguments_are_named(no_shape_checker):
    params0, sigmas = start(20, 2, 8)
    moved = random_movement(20, 2, 1.0, 0.1, 0)
    with pytest.raises(ValueError, match="`dparams` must have A = 0"):
        resnet_coupling(params0, params0, points(2), **sigmas)
    with pytest.raises(ValueError, match="`dparams` must have the shapes of `params0`"):
        resnet_coupling(params0, random_movement(21, 2, 1.0, 0.1, 0), points(2), **sigmas)
    with pytest.raises(ValueError, match="`dparams` must move V or b2"):
        resnet_coupling(params0, random_movement(20, 2, 1.0, 0.0, 0), points(2), **sigmas)
    with pytest.raises(ValueError, match="`x` must have the 5 inputs of the network"):
        resnet_coupling(params0, moved, np.ones((2, 3)), **sigmas)
    with pytest.raises(ValueError, match="`sigma_v` must be a positive number"):
        resnet_progress(params0, moved, moved, concept(0.1), points(2), sigma_v=0.0)
    other = random_movement(21, 2, 1.0, 0.1, 0)
    with pytest.raises(ValueError, match="`target` must have the shapes of `params0`"):
        resnet_progress(params0, moved, other, concept(0.1), points(2), sigma_v=2.0)
