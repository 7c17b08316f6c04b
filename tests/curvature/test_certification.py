# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.curvature import certify


def test_the_four_verdicts(getkey):
    bowl, saddle = (lambda w: jnp.sum(w**2)), (lambda w: w[0] ** 2 - w[1] ** 2)
    assert certify(bowl, jnp.zeros(3), key=getkey()).verdict == "second-order stationary"
    assert certify(saddle, jnp.zeros(2), key=getkey()).verdict == "saddle"
    assert certify(bowl, jnp.ones(3), key=getkey()).verdict == "not stationary"
    # Two products cannot tell that a spectrum from 0 to 1 in 300 steps has nothing below 0.
    spread = jnp.linspace(0.0, 1.0, 300)
    cut = certify(
        lambda w: jnp.sum(spread * w**2), jnp.zeros(300), steps=2, dense=False, key=getkey()
    )
    assert cut.verdict == "undecided"
    assert cut.curvature.smallest > 0


def test_a_single_negative_direction_among_many_is_found(getkey):
    values = jnp.concatenate([jnp.linspace(0.1, 1.0, 2999), jnp.array([-0.05])])
    found = certify(lambda w: jnp.sum(values * w**2) / 2, jnp.zeros(3000), key=getkey())
    assert not found.curvature.dense
    assert found.verdict == "saddle"
    assert found.curvature.smallest == pytest.approx(-0.05, rel=1e-6)
    direction = np.abs(np.asarray(found.curvature.smallest_vector))
    assert direction[-1] == pytest.approx(1, abs=1e-5)


def test_bad_arguments_are_named(getkey):
    loss = lambda w: jnp.sum(w**2)  # noqa: E731
    with pytest.raises(ValueError, match="`gradient_tolerance` must be a positive number"):
        certify(loss, jnp.zeros(2), gradient_tolerance=0.0, key=getkey())
    with pytest.raises(ValueError, match="`width` must be an integer >= 1"):
        certify(loss, jnp.zeros(2), width=0, key=getkey())
    with pytest.raises(ValueError, match="`steps` must be an integer >= 1"):
        certify(loss, jnp.zeros(2), steps=0, key=getkey())
    with pytest.raises(ValueError, match="`params` must be finite"):
        certify(loss, jnp.full(2, jnp.nan), key=getkey())
    with pytest.raises(ValueError, match="`loss` must be finite with a finite gradient"):
        certify(lambda w: jnp.sum(1 / w), jnp.zeros(2), key=getkey())


@pytest.mark.parametrize("smoothing", [None, 0.1])
def test_a_changed_closure_changes_the_verdict(smoothing):
    sign = 1.0

    def verdict():
        loss = certify(bowl, jnp.zeros(2), smoothing=smoothing, draws=64, key=jax.random.key(0))
        return loss.verdict

    def bowl(w):
        return w[0] ** 2 + sign * w[1] ** 2

    before = verdict()
    sign = -1.0
    assert (before, verdict()) == ("second-order stationary", "saddle")
