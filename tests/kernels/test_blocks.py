# SPDX-License-Identifier: Apache-2.0
"""That compiling takes as long at every n and depth; the values are tested kernel by kernel."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.kernels import blocks, ntk
from unlazy.kernels.sizes import rows_for

TRACED = []


@dataclass(frozen=True)
class Recorded:
    """The cosine times both rows' numbers; `label` keeps what is compiled for a test apart."""

    label: str

    def pairs(self, cos, gap, rows1, rows2):
        del gap
        TRACED.append(cos.shape)
        return cos * (rows1 * rows2)

    def diagonal(self, rows):
        return rows**2


@pytest.mark.parametrize("n", [1001, 1155])
def test_one_program_serves_all_blocks_of_a_symmetric_matrix(n):
    TRACED.clear()
    x = np.random.default_rng(n).standard_normal((n, 40))
    with jax.enable_x64(True):
        H = blocks.angular_matrix(Recorded(f"n={n}"), list, x, None, jnp.dtype("float64"))
    assert len(TRACED) == 1
    padded = rows_for(n)
    assert TRACED[0] == (-(-padded // len(blocks.block_rows(padded))),) * 2
    np.testing.assert_array_equal(np.asarray(H), np.asarray(H).T)
    np.testing.assert_allclose(np.asarray(H), x @ x.T, rtol=1e-12, atol=1e-12)


def test_a_cross_matrix_in_blocks_is_the_same_matrix(monkeypatch):
    monkeypatch.setattr(blocks, "_LARGEST_CROSS_BLOCK", 30)
    TRACED.clear()
    draw = np.random.default_rng(0)
    x1, x2 = draw.standard_normal((71, 5)), 100 * draw.standard_normal((44, 5))
    x2[43] = x1[70]  # a near pair in the last block of both sides
    with jax.enable_x64(True):
        H = blocks.angular_matrix(Recorded("cross"), list, x1, x2, jnp.dtype("float64"))
    assert TRACED[0] == (24, 24)  # of 96 and 48 rows, with those that pad
    assert len(TRACED) == 2  # the blocks, and the near pair
    np.testing.assert_allclose(np.asarray(H), x1 @ x2.T, rtol=1e-12, atol=1e-11)


def arc_cosine_recursion(x, depth):
    """The tangent kernel of a ReLU network with weight variance 2, layer by layer."""
    covariance = 2 * x @ x.T / x.shape[1]
    theta, size = covariance, np.sqrt(np.diag(covariance))
    for _ in range(depth):
        angle = np.arccos(np.clip(covariance / np.outer(size, size), -1, 1))
        slope = (np.pi - angle) / np.pi
        covariance = np.outer(size, size) * (np.sin(angle) / np.pi + slope * np.cos(angle))
        theta = covariance + slope * theta
    return theta


@pytest.mark.parametrize("depth", [16, 17, 37])
def test_layers_in_a_loop_follow_the_recursion(depth):
    x = np.random.default_rng(depth).standard_normal((6, 4))
    expected = arc_cosine_recursion(x, depth)
    off = ~np.eye(6, dtype=bool)  # there the plain arccos is not exact
    np.testing.assert_allclose(
        np.asarray(ntk(x, depth=depth))[off], expected[off], rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_program_does_not_grow_with_depth(activation):
    def lines(depth):
        traced = jax.jit(lambda x: ntk(x, depth=depth, activation=activation))
        return traced.lower(np.ones((3, 2))).as_text().count("\n")

    assert lines(48) == lines(960)


def test_one_program_serves_many_numbers_of_rows_and_columns():
    TRACED.clear()
    draw = np.random.default_rng(3)
    kernel = Recorded("few sizes")
    with jax.enable_x64(True):
        for n1, n2, d in [(65, 97, 5), (70, 128, 8), (96, 100, 7), (96, 128, 6)]:
            x1, x2 = draw.standard_normal((n1, d)), 5 * draw.standard_normal((n2, d))
            H = blocks.angular_matrix(kernel, list, x1, x2, jnp.dtype("float64"))
            np.testing.assert_allclose(np.asarray(H), x1 @ x2.T, rtol=1e-12, atol=1e-12)
    assert TRACED == [(96, 128)]
