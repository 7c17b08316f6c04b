# SPDX-License-Identifier: Apache-2.0
"""A probe beside the full report, in loops of JAX, and through a divergence."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unlazy as ul
from unlazy.core.errors import UnlazyWarning
from unlazy.laziness import diagnose
from unlazy.laziness.probe import Probe

from . import ladder
from .training import CLASSES, epochs, network, watched


@pytest.fixture(scope="module")
def run():
    return epochs()


@pytest.fixture(scope="module")
def probed():
    return watched()


@pytest.fixture
def as_users_have_it():
    """Flax promotes ranks and dtypes."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_a_record_is_what_the_report_says_of_the_same_rows_and_directions(run, probed):
    points, x, y = run
    snapshots = list(enumerate(points))[1:-1]
    report = diagnose(network, points[0], points[-1], x, y, order=2, snapshots=snapshots)
    assert report.flips is not None
    assert report.twins is not None
    record = probed.history.records[-1]
    close = functools.partial(pytest.approx, rel=1e-3, abs=1e-5)
    whole = report.drift.whole
    found = record.kernel.relative, record.kernel.turned, record.kernel.centred
    assert found == close((whole.relative, whole.turned, whole.centred))
    assert record.errors == close(report.taylor.errors[1:])
    assert record.movement == close(report.movement.relative)
    assert record.layer_movement == close({m.name: m.relative for m in report.movement.layers})
    assert record.layer_kernel == close({k: d.centred for k, d in report.drift.layers.items()})
    assert record.flips == close(report.flips.share)
    assert record.layer_flips == close(report.flips.layers)
    assert record.alignment == close(report.drift.alignment_end)
    assert probed.history.records[0].alignment == close(report.drift.alignment_start)
    assert tuple(probed.history["velocity"][1:]) == close(report.drift.velocity)
    scores = {score.model: (score.loss, score.accuracy) for score in report.twins.scores}
    assert (record.loss, record.accuracy) == close(scores["network"])
    assert (record.linear_loss, record.linear_accuracy) == close(scores["linear model"])


def test_nothing_has_moved_at_the_start(probed):
    start = probed.history.records[0]
    assert start.step == 0
    found = (start.movement, start.kernel.relative, start.velocity, start.flips)
    assert found == pytest.approx((0, 0, 0, 0), abs=1e-12)
    assert np.isnan(start.errors).all()


def test_the_kernel_is_no_further_from_the_start_than_the_sum_of_its_steps(probed):
    # Angles obey the triangle inequality, and their sums never fall.
    steps = np.arccos(1 - probed.history["velocity"])
    length = np.cumsum(steps)
    assert np.all(np.diff(length) >= 0)
    assert np.all(np.arccos(1 - probed.history["kernel_centred"]) <= length + 1e-6)


def test_many_calls_compile_once(run, compilations):
    points, x, y = run
    probe = Probe(network, points[0], x, y)
    probe(1, points[1])
    before = len(compilations)
    for epoch, params in enumerate(points[2:], start=2):
        probe(epoch, params)
    assert compilations[before:] == []


def test_the_network_is_not_traced_by_a_call(run):
    points, x, y = run
    traces = []

    def noted(params, x):
        traces.append(None)
        return network(params, x)

    probe = Probe(noted, points[0], x, y)
    probe(1, points[1])
    before = len(traces)
    probe(2, points[2])
    assert len(traces) == before


def test_rows_and_directions_are_drawn_once_and_again_the_same(run):
    points, x, y = run
    one, two = (Probe(network, points[0], x, y, rows=10, directions=1) for _ in range(2))
    np.testing.assert_array_equal(one.rows, two.rows)
    assert len(one.rows) == 10
    assert one(1, points[1]).kernel == two(1, points[1]).kernel


def test_a_loop_may_donate_the_memory_of_start_and_last_parameters(run):
    points, x, y = run
    start, after = (jax.tree.map(jnp.array, points[k]) for k in (0, 2))
    probe = Probe(network, start, x, y)
    probe(1, after)
    for leaf in jax.tree.leaves((start, after)):
        leaf.delete()
    assert probe(2, points[2]).movement == probe.history["movement"][1]
    assert probe.report(order=1).movement.relative == pytest.approx(probe.history["movement"][2])


@pytest.mark.usefixtures("as_users_have_it")
def test_flax_models_are_probed_through_their_adapter(run):
    nnx = pytest.importorskip("flax.nnx")
    _, x, y = run
    model = nnx.Sequential(
        nnx.Linear(ladder.INPUTS, 8, rngs=nnx.Rngs(0)),
        nnx.BatchNorm(8, rngs=nnx.Rngs(1)),
        nnx.relu,
        nnx.Linear(8, CLASSES, rngs=nnx.Rngs(2)),
    )
    adapted = ul.laziness.from_nnx(model)
    probe = Probe(adapted.f, adapted.params, x, y)
    model(x)  # in training mode: the running statistics move
    record = probe(1, adapted.params_of(model))
    assert record.movement == 0
    assert record.kernel.relative > 0


def test_the_table_and_the_figure_have_every_measurement(probed):
    text = str(probed)
    assert "on all 40 rows" in text
    assert len(text.splitlines()) == 2 + len(probed.history)
    history = probed.history
    assert set(history.to_dict()) == set(history.columns)
    assert history.to_rows()[2]["movement/first"] == history["movement/first"][2]
    titles = [ax.get_title() for ax in probed.plot().axes]
    assert len([title for title in titles if title]) == 6
    with pytest.raises(ValueError, match="`column` must be"):
        history["nothing"]


def test_a_training_that_diverges_goes_on_and_is_noted(run):
    points, x, y = run
    probe = Probe(network, points[0], x, y)
    probe(1, points[1])
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, points[1])
    with pytest.warns(UnlazyWarning, match="not finite at step 2: nan or inf at first/W"):
        record = probe(2, broken)
    assert np.isnan([record.movement, record.loss, record.kernel.centred, *record.errors]).all()
    assert str(record) == "step 2: nan or inf at first/W"
    huge = jax.tree.map(lambda leaf: leaf * 1e30, points[1])
    record = probe(3, huge)  # finite, its outputs are not; and no second warning
    assert record.note == "the outputs are not finite"
    assert np.isfinite(record.movement)
    assert probe(4, points[2]).velocity == pytest.approx(
        Probe(network, points[1], x, y)(1, points[2]).velocity, rel=1e-3
    )
    assert "nan or inf" in str(probe)
    probe.plot()


def test_parameters_of_another_structure_are_refused_with_the_path(run):
    points, x, y = run
    probe = Probe(network, points[0], x, y)
    with pytest.raises(ValueError, match=r"`params` must have the structure.*\['first'\]\['W'\]"):
        probe(1, {"first": {"b": points[0]["first"]["b"]}, "last": points[0]["last"]})
    with pytest.raises(ValueError, match=r"`params` must be like.*\['last'\]\['W'\]"):
        probe(1, points[1] | {"last": {"W": jnp.ones((16, 2))}})
    with pytest.raises(ValueError, match="`params` must be the parameters of `f`, got None"):
        probe(1)
    with pytest.raises(ValueError, match="`step` must be a finite number, got step=nan"):
        probe(float("nan"), points[1])
    assert len(probe.history) == 1


def test_wrong_arguments_are_named(run):
    points, x, y = run
    with pytest.raises(ValueError, match="`rows` must be an integer >= 2"):
        Probe(network, points[0], x, y, rows=1)
    with pytest.raises(ValueError, match="`order` must be an integer from 1 to 6, got order=7"):
        Probe(network, points[0], x, y, order=7)
    with pytest.raises(ValueError, match="`params_start` must be finite"):
        Probe(network, jax.tree.map(lambda leaf: leaf * jnp.inf, points[0]), x, y)
    with pytest.raises(ValueError, match="`params_start` must be the parameters of `f`, got None"):
        Probe(network, None, x, y)
    with pytest.raises(ValueError, match="`probe` must have been called"):
        Probe(network, points[0], x, y).report()
