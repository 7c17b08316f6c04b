# SPDX-License-Identifier: Apache-2.0
"""What people bring to a report: masks, lists, float64, rows of signs, modules of all kinds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import data, laziness
from unlazy.core.machine import cores
from unlazy.laziness import diagnose
from unlazy.laziness.budgets import Budget, sampled
from unlazy.laziness.measurements.targets import as_targets
from unlazy.laziness.subjects.choice import subject_of


def two_layers(dtype: Any = np.float32):
    """A ReLU network, two points of it and samples."""
    rng = np.random.default_rng(0)
    start = {
        "body": {"W": rng.standard_normal((5, 16)).astype(dtype)},
        "head": {"W": rng.standard_normal((16, 3)).astype(dtype)},
    }
    end = jax.tree.map(lambda leaf: leaf + dtype(0.1) * leaf[::-1], start)

    def f(params, x):
        return jax.nn.relu(x @ params["body"]["W"]) @ params["head"]["W"]

    return f, start, end, rng.standard_normal((30, 5)).astype(dtype)


def test_a_head_is_exactly_lazy_though_its_network_moved_too():
    report = diagnose(*two_layers(), trained=lambda path: path.startswith("head"))
    assert report.verdict.kind == "exactly lazy"
    assert "`trained` leaves out moved too" in report.verdict.lazy
    assert report.drift.whole.relative == 0


def test_parameters_that_are_left_out_and_rest_are_not_mentioned():
    f, start, end, x = two_layers()
    end = {"body": start["body"], "head": end["head"]}
    report = diagnose(f, start, end, x, trained=lambda path: path.startswith("head"))
    assert "moved too" not in report.verdict.lazy
    assert report.features is not None
    assert report.features.width == 16  # those of the head, which the body makes


def test_float64_parameters_are_measured_in_float64_with_x64_off():
    f, start, end, x = two_layers(np.float64)
    report = diagnose(f, start, end, x)
    narrow = diagnose(*two_layers())
    assert report.taylor.errors == pytest.approx(narrow.taylor.errors, rel=1e-4)
    assert report.movement.relative == pytest.approx(narrow.movement.relative, rel=1e-6)


def test_lists_are_samples():
    f, start, end, x = two_layers()
    report = diagnose(f, start, end, x.tolist(), test=None)
    np.testing.assert_array_equal(report.kernel_end, diagnose(f, start, end, x).kernel_end)


def test_rows_of_signs_are_classes_that_a_kernel_learns_as_they_are():
    task = data.load("digits", n_train=40, n_test=10, key=jax.random.key(0))
    found = as_targets(task.y_train, 40, 10)
    np.testing.assert_array_equal(found.classes, np.argmax(task.y_train, axis=1))
    np.testing.assert_array_equal(found.columns, task.y_train)
    assert found.squared
    named = as_targets(task.y_train, 40, 10, loss="cross-entropy")
    assert not named.squared
    np.testing.assert_array_equal(named.columns, (np.asarray(task.y_train) + 1) / 2)


def test_losses_without_a_rate_are_said_to_be_left_out():
    f, start, end, x = two_layers()
    report = diagnose(f, start, end, x, np.arange(30) % 3, history=[2.0, 1.0])
    assert "give `y` and `learning_rate`" in str(report)


def test_the_verdict_says_how_many_rows_the_kernel_has_seen():
    f, start, end, x = two_layers()
    many = np.concatenate([x + shift for shift in np.linspace(0, 1, 20, dtype=np.float32)])
    y = np.arange(600) % 3
    report = diagnose(f, start, end, many, y, test=(x, y[:30]))
    assert "from 500 of 600 rows" in report.verdict.good
    assert "A kernel that is fitted to 500 of 600 rows alone would" in report.verdict.good


def test_tables_and_figures_leave_out_what_all_names_of_layers_share():
    f, start, end, x = two_layers()
    wrapped = [{"params": {"net": params}} for params in (start, end)]
    report = diagnose(lambda params, x: f(params["params"]["net"], x), wrapped[0], wrapped[1], x)
    assert report.prefix == "params/net/"
    assert list(report.drift.layers) == ["params/net/body", "params/net/head"]
    assert "params" not in str(report)
    labels = [text.get_text() for ax in report.plot().axes for text in ax.get_yticklabels()]
    assert "body" in labels
    assert "relu 1 after body" in labels


def test_a_long_table_keeps_its_first_and_last_rows_in_a_terminal():
    layers = [{"W": np.eye(2, dtype=np.float32)} for _ in range(60)]
    moved = [{"W": layer["W"] * np.float32(1.001)} for layer in layers]

    def f(params, x):
        for layer in params:
            x = x @ layer["W"]
        return x

    x = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    report = diagnose(f, layers, moved, x, order=1)
    movement = report.sections()["movement"].as_text()
    assert "... 31 more" in movement
    assert "\n    59 " in movement
    assert len(report.to_dict()["measurements"]["movement"]["rows"]) == 61
    report.plot()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": {"a": np.ones((4, 2))}}, "`x` must be an array with samples .* got dict"),
        ({"test": (np.ones((4, 5)), np.ones(4))}, "`y` must be the labels of `x` where `test`"),
        (
            {"test": np.ones((2, 8, 8))},
            r"`test` must be a pair \(x, y\), got ndarray of shape",
        ),
        ({"test": (np.ones((4, 5)),)}, r"`test` must be a pair \(x, y\), got tuple of length 1"),
        ({"f": lambda x, params: params["body"] @ x}, "`f` must accept these `params` and a batch"),
    ],
)
def test_a_likely_mistake_is_one_clear_error(change, message):
    f, start, end, x = two_layers()
    given = {"f": f, "params_start": start, "params_end": end, "x": x}
    with pytest.raises((ValueError, TypeError), match=message):
        diagnose(**(given | change))


def test_a_module_of_flax_is_told_how_to_come_in():
    import flax.linen as nn

    dense, x = nn.Dense(2), np.ones((5, 3), np.float32)
    variables = dense.init(jax.random.key(0), x)
    with pytest.raises(TypeError, match=r"got Dense. Take laziness.from_linen or from_nnx"):
        diagnose(dense, variables, variables, x)


def test_batch_normalisation_that_has_seen_no_data_is_mentioned():
    import flax.linen as nn

    norm, x = nn.BatchNorm(use_running_average=True), np.ones((5, 3), np.float32)
    f, start = laziness.from_linen(norm, norm.init(jax.random.key(0), x))
    seen = {**start, "batch_stats": {"mean": jnp.full(3, 0.5), "var": jnp.full(3, 2.0)}}
    later = {**seen, "params": jax.tree.map(lambda leaf: leaf + 1, seen["params"])}
    assert "Mind the batch normalisation" in diagnose(f, start, later, x).verdict.lazy
    assert "Mind" not in diagnose(f, seen, later, x).verdict.lazy


def test_statistics_stay_with_the_parameters_that_are_left_out():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    ).eval()
    start, x = laziness.snapshot(module), torch.randn(6, 3)
    end = {name: value + 1 for name, value in start.items()}
    report = diagnose(module, start, end, x, trained=lambda path: path.startswith("2/"))
    assert report.verdict.kind == "exactly lazy"
    rest = {name: value for name, value in start.items() if name.startswith("0.")}
    alone = diagnose(
        module, start, {**end, **rest}, x, trained=lambda path: not path.startswith("0/")
    )
    assert "moved too" not in alone.verdict.lazy
    assert alone.verdict.kind != "exactly lazy"  # the statistics of the end, and both its layers


def test_a_start_that_moved_along_with_its_pytorch_module_is_an_error():
    torch = pytest.importorskip("torch")
    module, x = torch.nn.Linear(3, 1), torch.ones(4, 3)
    start = module.state_dict()
    with torch.no_grad():
        module.weight += 1
    with pytest.raises(ValueError, match="must be a copy from before the training"):
        diagnose(module, start, laziness.snapshot(module), x)
    copied = laziness.snapshot(module)
    assert diagnose(module, copied, copied, x).verdict.kind == "nothing moved"


def test_test_samples_count_in_the_budget():
    f, start, _, x = two_layers()
    many = np.tile(x, (20, 1))
    subject = subject_of(f, start, many)
    budget = Budget(seconds=500**2 * 128 * 3 / 1.5e10 / cores(), memory=1e9)

    def rows(tests):
        options = {"kernels": 2, "tests": tests, "order": 1, "seed": 0}
        sample = sampled(subject, start, many, budget, **options)
        return len(sample.rows) * sample.directions.shape[1]

    assert rows(600) < rows(0)
