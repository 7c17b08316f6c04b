# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import unlazy as ul
from unlazy.laziness import diagnose

from . import ladder


def judged(run: ladder.Run, **options):
    return diagnose(*run, loss="squared", **options)


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (ladder.wide, "lazy"),
        (ladder.mean_field, "rich"),
        (ladder.random_signs, "order 2"),
        (ladder.at_start, "nothing moved"),
        (ladder.linear, "exactly lazy"),
    ],
)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 5))]
)
def test_every_rung_of_the_ladder_is_judged_right(case, kind, seed):
    assert judged(case(seed)).verdict.kind == kind


def test_the_linear_model_misses_more_with_every_output_scale():
    gammas = [0.01, 0.1, 1.0, 10.0, 100.0]
    reports = [judged(ladder.scaled(0, gamma), order=1) for gamma in gammas]
    errors = [report.taylor.errors[1] for report in reports]
    assert errors == sorted(errors)
    drifts = [report.drift.whole.centred for report in reports]
    assert drifts == sorted(drifts)
    assert reports[0].verdict.kind == "lazy"
    assert reports[-1].verdict.kind == "rich"


@pytest.fixture(scope="module")
def relu_report():
    """A ReLU network with all that a report can have."""
    x, y = ladder.data(0)
    f, start = ladder.two_layer(32, 0, 1 / np.sqrt(32), jax.nn.relu)
    middle = ladder.trained(f, start, x, y, 0.5, 50)
    end = ladder.trained(f, start, x, y, 0.5, 300)
    other, labels = ladder.data(1)
    losses = [float(np.mean((f(start, x) - y) ** 2) / 2)]
    report = diagnose(
        f,
        start,
        end,
        x,
        y,
        test=(other, labels),
        optimizer="adam",
        loss="squared",
        learning_rate=0.5,
        history=([0], losses),
        snapshots=[(50, middle)],
    )
    return f, start, end, x, y, report


def test_every_measurement_agrees_with_a_plain_route(relu_report):
    f, start, end, x, y, report = relu_report
    J = [
        np.concatenate([np.asarray(g).reshape(len(x), -1) for g in jax.tree.leaves(jac)], axis=1)
        for jac in (jax.jacrev(f)(p, x) for p in (start, end))
    ]
    K0, K1 = (j @ j.T for j in J)
    np.testing.assert_allclose(report.kernel_start, K0, rtol=1e-4, atol=1e-5)
    gap = np.linalg.norm(K1 - K0) / np.linalg.norm(K0)
    assert report.drift.whole.relative == pytest.approx(gap, rel=1e-3)
    H = np.eye(len(x)) - 1 / len(x)
    inner = lambda A, B: np.trace(A @ B) / np.linalg.norm(A) / np.linalg.norm(B)  # noqa: E731
    assert report.drift.whole.turned == pytest.approx(1 - inner(K0, K1), abs=1e-4)
    turned = 1 - inner(H @ K0 @ H, H @ K1 @ H)
    assert report.drift.whole.centred == pytest.approx(turned, abs=1e-4)
    aligned = inner(H @ K0 @ H, H @ np.outer(y, y) @ H)
    assert report.drift.alignment_start == pytest.approx(aligned, abs=1e-4)
    on = [np.asarray(x @ p["W"].T > 0) for p in (start, end)]
    assert report.flips.share == pytest.approx(np.mean(on[0] != on[1]))
    flat = [np.concatenate([np.ravel(v) for v in p.values()]) for p in (start, end)]
    moved = np.linalg.norm(flat[1] - flat[0]) / np.linalg.norm(flat[0])
    assert report.movement.relative == pytest.approx(moved, rel=1e-5)


def test_the_linear_twin_is_the_linearised_network(relu_report):
    f, start, end, x, y, report = relu_report
    delta = jax.tree.map(jnp.subtract, end, start)
    f0, moved = jax.jvp(lambda p: f(p, x), (start,), (delta,))
    expected = np.mean((np.asarray(f0 + moved) - y) ** 2) / 2
    (found,) = [s for s in report.twins.scores if s.model == "linear model" and s.rows == len(x)][
        :1
    ]
    assert found.loss == pytest.approx(expected, rel=1e-4)


def test_shares_and_remainder_add_up(relu_report):
    *_, report = relu_report
    assert sum(report.taylor.shares) + report.taylor.remainder == pytest.approx(1.0)
    assert report.taylor.errors[0] == 1.0


def test_printed_report_names_every_measurement_with_formula_sample_and_time(relu_report):
    *_, report = relu_report
    text = str(report)
    titles = "Taylor shares", "Kernel drift", "Flipped activations", "Movement", "Twins"
    for title in (*titles, "Feature quality", "Prediction"):
        assert f"{title}:" in text
    assert len(re.findall(r"\n  on .*; \d+\.\d s", text)) == 7
    assert "about the training with adam" in text
    assert "signs of the gradients" in text
    assert len(repr(report)) < 100


def test_report_is_json_and_a_page_without_links(relu_report, tmp_path):
    *_, report = relu_report
    found = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert found["verdict"]["kind"] == report.verdict.kind
    assert set(found["measurements"]) == set(report.sections())
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert not re.search(r"(?:src|href)=[\"']?http", page)
    assert page.count("<section>") == 7
    assert "<svg" in page


def test_figure_has_a_panel_per_measurement(relu_report):
    *_, report = relu_report
    assert sum(ax.axison for ax in report.plot().axes) == 5  # Adam has no prediction


def test_the_same_call_gives_the_same_numbers(relu_report):
    f, start, end, x, y, report = relu_report
    again = diagnose(f, start, end, x, y, loss="squared")
    # To the rounding of float32: in the whole suite the two calls may find programs that were
    # compiled with unlike options, and differ by 4e-7. Another sub-sample would give other entries.
    np.testing.assert_allclose(again.kernel_end, report.kernel_end, rtol=0, atol=4e-6)
    assert again.taylor.errors == pytest.approx(report.taylor.errors, rel=1e-3, abs=1e-5)


def test_masked_parameters_neither_move_nor_count():
    x, _ = ladder.data(0)
    f, start = ladder.two_layer(16, 0, 0.25)
    end = jax.tree.map(lambda p: p + 0.1, start)
    report = diagnose(f, start, end, x, trained=lambda path: path == "a")
    assert list(report.drift.layers) == ["a"]
    assert report.drift.whole.relative == pytest.approx(0.0, abs=1.0)
    assert report.parameters == 16


def test_prediction_of_a_wide_network_follows_its_training():
    x, y = ladder.data(0)
    f, start = ladder.two_layer(8192, 0, 1 / np.sqrt(8192))
    losses, params = [], start
    for _ in range(20):
        params = ladder.descended(f, params, x, y, 0.5)
        losses.append(float(np.mean((f(params, x) - y) ** 2) / 2))
    report = diagnose(f, start, params, x, y, loss="squared", learning_rate=0.5, history=losses)
    assert report.prediction is not None
    assert report.prediction.gap < 0.05
    assert report.prediction.edge_start < 2


def recorded_on_a_sum():
    x, y = ladder.data(0)
    f, start = ladder.two_layer(64, 0, 1 / 8)
    n, rate = len(x), 0.5
    loss, step = ul.train.SquaredError(f), optax.sgd(rate / n)
    return f, start, x, y, rate, ul.train.fit(loss, start, (x, y), optimizer=step, steps=20)


def test_losses_of_a_sum_over_samples_are_told_how_to_become_means():
    f, start, x, y, rate, h = recorded_on_a_sum()
    n = len(x)
    for history in (h, (h.steps, h.loss)):
        with pytest.raises(ValueError, match=r"about 40 times .* Divide the losses by 40 and mult"):
            diagnose(f, start, h.params, x, y, loss="squared", learning_rate=1.0, history=history)
    means = (h.steps, h.loss / n)
    report = diagnose(
        f, start, h.params, x, y, loss="squared", learning_rate=rate, history=means, order=1
    )
    assert report.prediction is not None
    assert report.prediction.gap < 0.1
    assert report.prediction.remark == ""


def test_the_history_of_a_training_on_the_mean_is_taken_as_it_is():
    x, y = ladder.data(0)
    f, start = ladder.two_layer(1024, 0, 1 / 32)

    def loss(params, data):
        return jnp.mean((f(params, data[0]) - data[1]) ** 2) / 2

    h = ul.train.fit(loss, start, (x, y), optimizer=optax.sgd(0.5), steps=20)
    report = diagnose(
        f, start, h.params, x, y, loss="squared", learning_rate=0.5, history=h, order=1
    )
    assert report.prediction is not None
    assert report.prediction.steps[0] == 0
    assert report.prediction.gap < 0.05
    assert report.prediction.remark == ""
    twice = h.steps, 2 * h.loss
    report = diagnose(
        f, start, h.params, x, y, loss="squared", learning_rate=0.5, history=twice, order=1
    )
    assert report.prediction is not None
    assert "begins at" in str(report)
    assert ", 2 times the" in report.prediction.remark


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"params_end": {"W": jnp.ones((3, 2))}}, r"`params_end` must have the structure of"),
        ({"params_end": {"W": jnp.ones((3, 3)), "a": jnp.ones(3)}}, r"float32\[3, 2\] at \['W'\]"),
        ({"params_end": {"W": jnp.full((3, 2), jnp.nan), "a": jnp.ones(3)}}, "nan or inf at W"),
        ({"x": np.ones((1, 2), np.float32)}, "`x` must hold two samples at least"),
        ({"y": np.ones(3)}, r"`y` must have one label per row of `x`, 4 in all"),
        ({"y": np.ones((4, 7)) / 2}, r"`y` must be quantities like the outputs of `f`, \(4, 1\)"),
        ({"f": lambda p, x: (x @ p["W"].T @ p["a"], 1)}, "`f` must return an array of shape"),
        ({"f": lambda p, x: x @ p["W"].T @ p["a"] - jnp.mean(x)}, "`f` must treat each row"),
        ({"f": 3}, "`f` must be a function `f"),
        ({"order": 0}, "`order`"),
        ({"history": [1.0, float("nan")]}, "`history` must have finite losses"),
        ({"history": ([1, 1], [1.0, 2.0])}, "`history` must have whole steps"),
        ({"history": "losses.csv"}, "`history` must be losses, a pair .* got str"),
        ({"history": (1.0, 2.0, 3.0)}, "`history` must be losses, a pair .* got 3 parts"),
        ({"optimizer": "lion"}, "`optimizer`"),
        ({"seconds": -1.0}, "`seconds`"),
    ],
)
def test_bad_input_is_one_clear_error(change, message):
    params = {"W": jnp.ones((3, 2)), "a": jnp.ones(3)}
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    given = {
        "f": lambda p, x: jnp.tanh(x @ p["W"].T) @ p["a"],
        "params_start": params,
        "params_end": jax.tree.map(lambda p: p + 0.1, params),
        "x": x,
        "y": np.array([1.0, -1.0, 1.0, -1.0]),
    }
    with pytest.raises((ValueError, TypeError), match=message):
        diagnose(**(given | change))


_TWO_DEVICES = """
import jax, jax.numpy as jnp, unlazy as ul
one, two = jax.devices()
params = jax.device_put(jnp.ones(3), two)
x = jax.device_put(jnp.eye(3), one)
try:
    ul.diagnose(lambda w, x: x @ w, params, params, x)
except ValueError as error:
    print(error)
report = ul.diagnose(lambda w, x: x @ w, params, 2 * params, jax.device_put(x, two))
print(report.verdict.kind)
"""


def test_samples_on_another_device_are_one_clear_error():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    run = subprocess.run(
        [sys.executable, "-c", _TWO_DEVICES],
        env=os.environ | flags,
        capture_output=True,
        text=True,
        check=True,
    )
    error, kind = run.stdout.splitlines()
    assert error.startswith("`x` must be on the device of the parameters, ")
    assert error.endswith("Move it with jax.device_put.")
    assert kind == "exactly lazy"
