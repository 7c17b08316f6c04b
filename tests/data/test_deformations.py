# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.data import deformations
from unlazy.data.deformations import deformed

KEY = jr.key(3)
NONE = {"rotation": 0, "scale": 0, "shear": 0, "shift": 0, "elastic": (0, 4)}


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    """Several blocks in every call, also for a few small images."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deformations, "_BLOCK", 16 * 14 * 10)
        yield


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (9, 14, 10), dtype=np.uint8)


LABELS = np.arange(9)


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_without_deformation_the_images_come_back_exactly(images, kind):
    given = images.astype(kind)
    x, y = deformed(given, LABELS, 40, start=5, originals=False, key=KEY, **NONE)
    assert x.dtype == kind
    np.testing.assert_array_equal(y, (5 + np.arange(40)) % 9)
    np.testing.assert_array_equal(x, given[y])


def test_the_first_pass_is_the_originals_unless_they_are_declined(images):
    x, _ = deformed(images, LABELS, 20, key=KEY)
    np.testing.assert_array_equal(x[:9], images)
    assert not np.array_equal(x[9:18], images)
    declined, _ = deformed(images, LABELS, 20, originals=False, key=KEY)
    assert not np.array_equal(declined[:9], images)
    np.testing.assert_array_equal(declined[9:], x[9:])


def test_a_sample_depends_on_its_number_alone(images):
    given = images.astype(np.float32)
    whole, labels = deformed(given, LABELS, 100, key=KEY)
    for start, n in [(0, 1), (37, 63), (99, 1), (20, 17)]:
        x, y = deformed(given, LABELS, n, start=start, key=KEY)
        np.testing.assert_array_equal(x, whole[start : start + n])
        np.testing.assert_array_equal(y, labels[start : start + n])
    with jax.enable_x64(True):
        double, _ = deformed(given.astype(np.float64), LABELS, 100, key=KEY)
    assert double.dtype == jnp.float32
    np.testing.assert_array_equal(double, whole)


def test_another_key_or_pass_gives_other_deformations(images):
    x, _ = deformed(images, LABELS, 27, key=KEY)
    other, _ = deformed(images, LABELS, 27, key=jr.key(4))
    assert all(not np.array_equal(a, b) for a, b in zip(x[9:], other[9:], strict=True))
    assert all(not np.array_equal(a, b) for a, b in zip(x[9:18], x[18:], strict=True))


def test_every_layout_holds_the_same_samples(images):
    colours = np.stack([images, 255 - images, images // 2], axis=-1)
    x, _ = deformed(colours, LABELS, 30, key=KEY)
    assert x.shape == (30, 14, 10, 3)
    grey, _ = deformed(images, LABELS, 30, key=KEY)
    np.testing.assert_array_equal(x[..., 0], grey)
    rows = np.moveaxis(colours, -1, 1).reshape(9, -1)
    flat, _ = deformed(rows, LABELS, 30, shape=(14, 10), key=KEY)
    np.testing.assert_array_equal(flat.reshape(30, 3, 14, 10), np.moveaxis(np.asarray(x), -1, 1))


def positions(u, size, **amounts):
    """Where pixels are read for six given numbers in place of the uniform draws."""
    planes = jnp.zeros((1, 1, *size), jnp.float32)
    limits = deformations._deformation(**{**NONE, **amounts}, planes=planes)
    return deformations._positions(limits, jnp.asarray(u, jnp.float32), jnp.zeros((2, *size)))


def test_a_quarter_turn_is_that_of_numpy(images):
    square = images[:1, :10].astype(np.float32)
    at = positions([1, 0, 0, 0, 0, 0], (10, 10), rotation=90)
    # A cosine of 4e-8 instead of 0 moves a reading by 2e-7 pixels of height at most 255.
    np.testing.assert_allclose(
        deformations._read(jnp.asarray(square), at)[0], np.rot90(square[0], -1), atol=1e-3
    )


def test_a_shift_moves_by_its_pixels_and_repeats_the_edge(images):
    picture = images[:1].astype(np.float32)
    at = positions([0, 0, 0, 0, 1, -0.5], (14, 10), shift=2)
    moved = np.pad(picture[0], ((0, 2), (1, 0)), mode="edge")[2:, :-1]
    np.testing.assert_array_equal(deformations._read(jnp.asarray(picture), at)[0], moved)


def test_the_affine_map_is_that_of_the_docstring():
    u = np.array([0.3, -0.7, 0.9, 0.5, -0.2, 0.8])
    at = positions(u, (14, 10), rotation=30, scale=0.2, shear=0.4, shift=3)
    theta = np.radians(30) * u[0]
    turn = np.array([[np.cos(theta), -np.sin(theta)], [np.sin(theta), np.cos(theta)]])
    A = turn @ np.array([[1.2 ** u[1], 0], [0.4 * u[3], 1.2 ** u[2]]])
    centre, pixel = np.array([6.5, 4.5]), np.array([11, 2])
    expected = centre + A @ (pixel - centre) + 3 * u[4:]
    np.testing.assert_allclose(at[:, 11, 2], expected, rtol=1e-5)


def test_elastic_displacements_have_the_strength_and_the_smoothness_asked_for():
    """Variance and correlation, pooled over two components, pixels and 3000 samples.

    The mean of a product of two standard Gaussians over 6000 independent pairs has a standard error
    of at most sqrt(2 / 6000) = 0.018: six of them are passed with probability below 1e-8.
    """
    limits = deformations._deformation(0, 0, 0, 0, (0.5, 2.0), jnp.zeros((1, 1, 20, 20)))
    noise = jr.normal(KEY, (3000, 2, 20, 20))
    where = jax.vmap(deformations._positions, in_axes=(None, None, 0))
    at = np.asarray(where(limits, jnp.zeros(6), noise))
    delta = (at - np.mgrid[:20, :20]) / 0.5
    for here, there, r2 in [
        ((9, 9), (9, 9), 0),
        ((0, 19), (0, 19), 0),
        ((8, 8), (10, 11), 13),
    ]:
        product = np.mean(delta[:, :, *here] * delta[:, :, *there])
        assert abs(product - np.exp(-r2 / 16)) < 6 * np.sqrt(2 / 6000)


def test_values_stay_in_the_range_of_the_image_and_mass_is_nearly_kept():
    u = np.linspace(-1, 1, 28)
    blob = np.exp(-10 * (u[:, None] ** 2 + (u[None, :] - 0.1) ** 2))[None].astype(np.float32)
    x, _ = deformed(blob, np.zeros(1), 50, originals=False, scale=0, key=KEY)
    assert x.min() >= blob.min() - 1e-6
    assert x.max() <= blob.max() + 1e-6
    # An elastic map changes areas by up to a few times strength / smoothness, 1.2 / 6.
    np.testing.assert_allclose(x.sum(axis=(1, 2)) / blob.sum(), 1, atol=0.4)
    assert abs(np.mean(x.sum(axis=(1, 2))) / blob.sum() - 1) < 0.1


def test_bytes_can_be_asked_for_in_another_dtype(images):
    bytes_, _ = deformed(images, LABELS, 30, key=KEY)
    floats, _ = deformed(images, LABELS, 30, dtype=jnp.float32, key=KEY)
    np.testing.assert_array_equal(bytes_, np.rint(floats).astype(np.uint8))
    narrow, _ = deformed(images, LABELS, 30, dtype=jnp.bfloat16, key=KEY)
    assert narrow.dtype == jnp.bfloat16
    small, _ = deformed(images // 2, LABELS, 9, dtype="int8", key=KEY)
    np.testing.assert_array_equal(small, images // 2)


@pytest.mark.usefixtures("no_shape_checker")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"images": np.zeros((3, 140))}, r"`images` must have shape \(k, h, w\).* Pass `shape`"),
        ({"images": np.zeros((9, 141)), "shape": (14, 10)}, "`images` must be rows of planes"),
        ({"images": np.full((9, 14, 10), 1e300)}, "`images` must be finite"),
        ({"shape": 14}, r"`shape` must be a pair \(height, width\), got shape=14"),
        ({"labels": np.zeros(8)}, r"`labels` must have shape \(9,\)"),
        ({"n": 0}, "`n` must be an integer >= 1"),
        ({"start": -1}, "`start` must be an integer >= 0"),
        ({"rotation": -3}, "`rotation` must be a number >= 0, got rotation=-3"),
        ({"shift": 1e9}, "`shift` must be at most 1000, got shift="),
        ({"elastic": 2.0}, r"`elastic` must be a pair \(strength, smoothness\), got elastic=2.0"),
        ({"elastic": (1.0, 0.0)}, r"`elastic\[1\]` must be a positive number"),
        (
            {"images": np.full((9, 14, 10), 200, np.uint8), "dtype": "int8"},
            "`dtype` must hold the values of the images, 200 to 200, got dtype=int8",
        ),
        ({"dtype": "text"}, "`dtype` must be a dtype of numbers, got dtype='text'"),
        ({"images": np.zeros((9, 14, 10)), "dtype": "uint8"}, "`dtype` must be floating for"),
    ],
)
def test_a_wrong_argument_is_named(images, wrong, message):
    with pytest.raises(ValueError, match=message):
        deformed(**{"images": images, "labels": LABELS, "n": 3, "key": KEY, **wrong})
