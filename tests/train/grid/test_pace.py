# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.train import fit_grid
from unlazy.train.grid import pace


@pytest.fixture
def accelerator(monkeypatch):
    monkeypatch.setattr(pace, "jax", SimpleNamespace(default_backend=lambda: "gpu"))


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still but where it is told to go on."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(pace.time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(pace, "_latest_end", -np.inf)
    return clock


def lengths(ends, clock, seconds_of_epoch):
    found = []
    training = pace.Pace()
    for first, last in training.spans(ends):
        assert first == sum(found)
        found.append(last - first)
        with training.timed(last - first):
            clock.now += seconds_of_epoch * (last - first)
        clock.now += 100.0  # spent on what is not training
    return found


def test_on_a_processor_only_the_ends_count(clock):
    assert lengths([3, 7], clock, 100.0) == [3, 4]


@pytest.mark.usefixtures("accelerator")
def test_a_slow_network_is_trained_for_a_short_time_in_a_call(clock):
    found = lengths([50, 100], clock, 0.02)
    assert sum(found) == 100
    assert max(found) == 2  # 0.05 s are two epochs and a half


@pytest.mark.usefixtures("accelerator")
def test_calls_of_threads_that_share_the_device_last_equally_long(clock):
    # The device does in order what it is given; every thread waits for its own, then gives more.
    an_epoch, latest = {"wide": 0.04, "thin": 0.006, "narrow": 0.0011}, {}

    def calls(name):
        training = pace.Pace()
        for first, last in training.spans([10**4]):
            with training.timed(last - first):
                yield
                clock.now += an_epoch[name] * (last - first)
            latest[name] = last - first

    threads = [calls(name) for name in an_epoch]
    for _ in range(20):
        for thread in threads:  # goes on with the call that it has waited in, and begins another
            next(thread)
    assert latest == {"wide": 1, "thin": 8, "narrow": 45}


@pytest.mark.usefixtures("accelerator")
def test_an_end_cuts_one_call_and_none_after_it(clock):
    found = lengths([101, 1000], clock, 0.0011)
    cut = found.index(101 - sum([1, 2, 4, 8, 16, 32]))
    assert found[:cut] == [1, 2, 4, 8, 16, 32]
    assert set(found[cut + 1 : -1]) == {45}


@pytest.mark.usefixtures("accelerator")
def test_an_epoch_is_never_cut(clock):
    assert lengths([4], clock, 10.0) == [1] * 4


@pytest.mark.usefixtures("accelerator")
def test_a_fast_network_has_few_calls(clock):
    found = lengths([400, 800], clock, 1e-4)
    assert sum(found) == 800
    assert len(found) <= 12  # doubling from one epoch to the first end, then on to the second


@pytest.mark.usefixtures("accelerator")
def test_results_do_not_depend_on_the_clock(monkeypatch):
    def result(turn):
        monkeypatch.setattr(pace, "_TURN", turn)
        return fit_grid(
            lambda w, batch: jnp.mean((batch[0] @ w - batch[1]) ** 2),
            jnp.zeros(2),
            (jnp.eye(2), jnp.array([1.0, -2.0])),
            learning_rates=[0.1, 1e6, 1e7],  # the last two diverge
            epochs=60,
            evaluate_every=7,
        )

    slow, fast = result(1e-9), result(1e9)
    np.testing.assert_array_equal(slow.loss, fast.loss)
    for name, column in slow.table().items():
        np.testing.assert_array_equal(column, fast.table()[name])
    for name, curve in slow.curves.items():
        np.testing.assert_array_equal(curve, fast.curves[name])
    assert list(slow.diverged_epoch[:, 0, 0] > 0) == [False, True, True]


@pytest.mark.usefixtures("accelerator")
def test_where_all_lanes_diverge_training_ends_and_says_when():
    result = fit_grid(
        lambda w, batch: jnp.sum(batch * w**2),
        jnp.ones(()),
        jnp.ones(4),
        learning_rates=[1e8],
        epochs=500,
    )
    epoch = int(result.diverged_epoch[0, 0, 0])
    assert 0 < epoch < 20
    assert np.isnan(result.loss[0, 0, 0, epoch:]).all()
