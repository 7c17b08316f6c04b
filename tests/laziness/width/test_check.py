# SPDX-License-Identifier: Apache-2.0
import json
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy.data import sphere
from unlazy.laziness import WidthCheck, width_check
from unlazy.laziness.traced_features import find_features
from unlazy.laziness.width.exponents import Exponent, exponent, in_words
from unlazy.nets import TwoLayer

X = sphere(12, 4, key=jr.key(0))
Y = jnp.sign(X[:, 0])


def ntk(width, key):
    net = TwoLayer(inputs=4, width=width, activation="tanh")
    return net, net.init(key=key)


def mean_field(width, key):
    net, params = ntk(width, key)
    return (lambda params, x: net(params, x) / math.sqrt(width)), params


@pytest.fixture(scope="module")
def lazy():
    return width_check(ntk, [64, 1024], X, Y, learning_rate=0.5, seeds=3, key=jr.key(1))


def test_features_move_like_the_root_of_the_width_in_ntk_scaling(lazy):
    # The standard error is below 0.01: a failure is five of them away, below 1e-6.
    assert lazy.layers == ("W", "output")
    assert lazy.exponents[0] == pytest.approx(-0.5, abs=0.05)
    assert lazy.standard_errors[0] < 0.01
    assert lazy.verdicts == ("lazy in the limit", "moves at every width")
    assert lazy.verdict.startswith("Verdict: lazy in the limit. Features move like width^-0.5")


def test_features_move_at_every_width_in_mean_field_scaling():
    options = {"learning_rate": lambda m: 0.5 * m, "seeds": 3, "key": jr.key(1)}
    rich = width_check(mean_field, [64, 1024], X, Y, **options)
    assert rich.exponents[0] == pytest.approx(0.0, abs=0.05)  # standard error below 0.01
    assert rich.verdicts == ("moves at every width",) * 2
    assert rich.verdict.startswith("Verdict: features move at every width")


def test_numbers_are_those_of_a_loop_by_hand():
    result = width_check(ntk, [4, 8], X, Y, learning_rate=0.3, steps=3, seeds=1, key=jr.key(2))
    net, params = ntk(8, jr.fold_in(jr.fold_in(jr.key(2), 1), 0))
    start = params
    for _ in range(3):

        def loss(p):
            return jnp.mean((net(p, X) - net(start, X) - Y) ** 2) / 2

        gradient = jax.grad(loss)(params)
        params = jax.tree.map(lambda p, g: p - 0.3 * g, params, gradient)
    h0, h = (np.asarray(net.preactivations(p, X)) for p in (start, params))
    assert result.movement[0, 1, 0, 3] == pytest.approx(np.sqrt(np.mean((h - h0) ** 2)), rel=1e-4)
    assert result.start[0, 1, 0] == pytest.approx(np.sqrt(np.mean(h0**2)), rel=1e-5)
    assert result.spread[0, 1, 0, 3] == pytest.approx(np.mean(np.abs(h)), rel=1e-5)
    moved = net(params, X) - net(start, X)
    size = float(jnp.sqrt(jnp.mean(moved**2)))
    assert result.movement[1, 1, 0, 3] == pytest.approx(size, rel=1e-4)
    assert result.loss[1, 0, 0] == pytest.approx(0.5, rel=1e-5)
    assert np.all(result.movement[..., 0] == 0)


def torch_mlp(power):
    torch = pytest.importorskip("torch")

    class MLP(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.width = width
            self.first = torch.nn.Linear(4, width, bias=False)
            self.second = torch.nn.Linear(width, width, bias=False)
            self.last = torch.nn.Linear(width, 1, bias=False)
            for layer in (self.first, self.second, self.last):
                torch.nn.init.normal_(layer.weight)

        def forward(self, x):
            h = torch.tanh(self.second(torch.tanh(self.first(x))) / self.width**0.5)
            return self.last(h) / self.width**power

    return MLP


def check_of_mlp(power, widths, seeds):
    rate = lambda m: 0.5 * m ** (2 * power - 1)  # noqa: E731  # constant for NTK scaling
    options = {"learning_rate": rate, "seeds": seeds, "key": jr.key(5)}
    return width_check(torch_mlp(power), widths, X, Y[:, None], **options)


@pytest.mark.parametrize(("power", "expected"), [(0.5, -0.5), (1.0, 0.0)])
def test_a_pytorch_mlp_has_the_exponent_of_its_scaling(power, expected):
    result = check_of_mlp(power, [64, 256], 12)
    assert result.where == "PyTorch"
    assert result.layers == ("first", "second", "last", "output")
    assert result.hidden.tolist() == [True, True, False, False]
    # The standard errors are below 0.035, and the exponents are 0.02 too large at these widths: a
    # failure is four standard errors away, below 1e-4.
    np.testing.assert_array_less(result.standard_errors[:2], 0.035)
    np.testing.assert_allclose(result.relative_exponents[:2], expected, atol=0.16)
    assert any("second starts like width^0." in note for note in result.notes)  # a factor outside
    words = "moves at every width" if expected == 0 else "lazy in the limit"
    assert result.verdicts[:2] == (words, words)


@pytest.mark.slow
@pytest.mark.parametrize(("power", "expected"), [(0.5, -0.5), (1.0, 0.0)])
def test_a_pytorch_mlp_has_the_exponent_to_a_twentieth(power, expected):
    result = check_of_mlp(power, [64, 128, 256, 512, 1024], 20)
    # The standard errors are below 0.01, and the exponents are 0.02 too large: a failure is three
    # standard errors away, below 3e-3.
    np.testing.assert_array_less(result.standard_errors[:2], 0.01)
    np.testing.assert_allclose(result.relative_exponents[:2], expected, atol=0.05)


def test_pytorch_starts_are_drawn_from_the_key_alone():
    torch = pytest.importorskip("torch")
    state = torch.random.get_rng_state()
    options = {"steps": 1, "seeds": 2, "key": jr.key(6)}
    one, two = (width_check(torch_mlp(0.5), [4, 8], X, Y[:, None], **options) for _ in range(2))
    np.testing.assert_array_equal(one.movement, two.movement)
    assert np.all(one.movement[0, 0, 0, 1] != one.movement[0, 0, 1, 1])
    assert torch.equal(state, torch.random.get_rng_state())


def test_optimisers_of_both_libraries_are_taken():
    torch = pytest.importorskip("torch")
    adam = width_check(ntk, [4, 8], X, Y, optimizer=optax.adam(0.01), seeds=1, key=jr.key(0))
    # The first step of Adam moves every weight by the rate.
    assert adam.movement[0, 0, 0, 1] > 0.001
    by_width = lambda width: optax.sgd(1.0 / width)  # noqa: E731
    width_check(ntk, [4, 8], X, Y, optimizer=by_width, seeds=1, steps=1, key=jr.key(0))

    def factory(model, width):
        return torch.optim.Adam(model.parameters(), lr=0.1 / width)

    options = {"optimizer": factory, "loss": torch.nn.functional.mse_loss, "seeds": 1}
    result = width_check(torch_mlp(0.5), [4, 8], X, Y[:, None], **options, key=jr.key(0))
    assert np.all(result.movement[0, :, 0, -1] > 0)


def test_a_feature_has_the_factors_and_the_bias_beside_its_product():
    def f(p, x):
        h = x @ p["W"] / 3.0 + p["b"][None]
        return (jnp.tanh(h) @ p["a"]) * 0.25

    params = {"W": jnp.ones((4, 2)), "a": jnp.ones(2), "b": jnp.array([1.0, 2.0])}
    found = find_features(f, params, X)
    assert list(found.places) == ["W", "output"]
    h, out = found.at(params, X)
    np.testing.assert_allclose(h, X @ params["W"] / 3.0 + params["b"][None], rtol=1e-6)
    np.testing.assert_allclose(out[:, 0], f(params, X), rtol=1e-5)
    assert found.units == {"W": 2, "output": 1}


def test_a_weight_in_a_loop_is_named_as_not_seen():
    def make(width, key):
        params = {"W": jr.normal(key, (4, width)), "U": jnp.eye(width) / 2}

        def f(p, x):
            h, _ = jax.lax.scan(lambda h, _: (jnp.tanh(h @ p["U"]), None), x @ p["W"], length=2)
            return h.mean(axis=1)

        return f, params

    result = width_check(make, [4, 8], X, Y, seeds=1, steps=1, key=jr.key(0))
    assert result.layers == ("W", "output")
    assert any("not seen" in note and note.endswith("U.") for note in result.notes)


def test_diverged_runs_are_left_out_with_a_note():
    rate = lambda m: 0.5 if m < 512 else 1e12  # noqa: E731
    options = {"learning_rate": rate, "seeds": 2, "steps": 6, "key": jr.key(1)}

    def make(width, key):
        net = TwoLayer(inputs=4, width=width, activation="relu")
        return net, net.init(key=key)

    result = width_check(make, [64, 256, 512], X, Y, **options)
    assert result.diverged.tolist() == [[False] * 2, [False] * 2, [True] * 2]
    assert any("2 of 2 runs at width 512 diverged" in note for note in result.notes)
    assert result.exponents[0] == pytest.approx(-0.5, abs=0.15)
    assert "nan" in str(result)
    result = width_check(make, [4, 8], X, Y, **{**options, "learning_rate": 1e12})
    assert result.verdict.startswith("Verdict: diverged")


def test_a_rate_that_is_too_small_or_too_large_is_told_from_laziness():
    still = width_check(mean_field, [64, 512], X, Y, learning_rate=0.1, seeds=2, key=jr.key(1))
    assert "The function itself moves less and less" in still.verdict
    assert still.exponents[0] == pytest.approx(-1.0, abs=0.05)
    rate = lambda m: 0.01 * m  # noqa: E731
    wild = width_check(ntk, [16, 128], X, Y, learning_rate=rate, steps=1, seeds=2, key=jr.key(1))
    assert wild.verdict.startswith("Verdict: unstable")


def test_layers_that_are_not_trained_move_only_with_those_before_them():
    options = {"learning_rate": 0.5, "seeds": 1, "steps": 2, "key": jr.key(1)}
    result = width_check(ntk, [8, 16], X, Y, trained="last", **options)
    assert np.all(result.movement[0] == 0)
    assert result.verdicts[0] == "does not move"
    assert np.all(result.movement[1, ..., -1] > 0)


def test_exponents_and_their_errors_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    widths, noise = np.array([10, 20, 40, 80]), rng.standard_normal((4, 50))
    values = 3 * widths[:, None] ** -0.5 * np.exp(0.1 * noise)
    found = exponent(widths, values, np.ones((4, 50), bool))
    # By theory the error is 0.1 / (sqrt(200) std(log widths)), to a tenth at 198 degrees.
    error = 0.1 / math.sqrt(200) / np.std(np.log(widths))
    assert found.error == pytest.approx(error, rel=0.2)
    assert abs(found.value + 0.5) < 4 * error  # fails in one of 10,000 seeds
    exact = exponent(widths, 3.0 * widths[:, None] ** 0.25, np.ones((4, 1), bool))
    assert exact.value == pytest.approx(0.25)
    assert exact.error == pytest.approx(0, abs=1e-12)
    assert math.isnan(exponent(widths[:2], values[:2, :1], np.ones((2, 1), bool)).error)


def test_verdicts_need_an_error_that_does_not_span_two_of_them():
    assert in_words(Exponent(-0.5, math.nan)) == "lazy in the limit"
    assert in_words(Exponent(-1.5, 0.1)) == "lazy in the limit"
    assert in_words(Exponent(0.3, 0.05)) == "grows: unstable"
    assert in_words(Exponent(0.1, 0.1)) == "undecided"
    assert in_words(Exponent(-0.25, 0.02)) == "neither"


def test_the_result_prints_plots_and_turns_to_json(lazy):
    assert isinstance(lazy, WidthCheck)
    lines = str(lazy).splitlines()
    assert lines[1].split()[:3] == ["layer", "64", "1024"]
    assert lines[2].split()[0] == "W"
    assert lazy.spread_table().splitlines()[1].split()[:2] == ["W", "0"]
    assert json.loads(json.dumps(lazy.to_dict()))["exponents"][0] == lazy.exponents[0]
    legend = lazy.plot().get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["W: -0.50", "output: 0.00"]
    np.testing.assert_allclose(
        lazy.relative[0, 0, 0, 1] * lazy.start[0, 0, 0], lazy.movement[0, 0, 0, 1]
    )


def test_an_object_with_f_and_params_is_a_model_and_progress_is_told():
    calls = []
    make = lambda width, key: SimpleNamespace(f=ntk(width, key)[0], params=ntk(width, key)[1])  # noqa: E731
    options = {"steps": 1, "seeds": 2, "progress": lambda *c: calls.append(c), "key": jr.key(0)}
    width_check(make, [4, 8], X, Y, **options)
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.usefixtures("no_shape_checker")
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"widths": [64]},
            r"`widths` must be two or more increasing integers, .* got widths=\[64\]",
        ),
        ({"widths": [8, 4]}, "`widths` must be two or more increasing integers"),
        ({"widths": [4.0, 8.0]}, "`widths` must be an integer"),
        ({"make": lambda *_: 3}, r"`make` must give \(f, params\), an object with fields"),
        ({"make": lambda width: ntk(width, jr.key(0))}, "`make` must take a width and a key for"),
        ({"make": 3}, "`make` must be a function of a width and a key, got make=3"),
        ({"y": Y[:5]}, "`y` must have one row per sample, 12 in all"),
        ({"y": Y[:, None]}, "`y` must have the shape of the model's outputs"),
        ({"x": X * jnp.nan}, "`x` must be finite"),
        ({"steps": 0}, "`steps` must be an integer >= 1"),
        ({"learning_rate": -1.0}, "`learning_rate` must be a positive number"),
        ({"learning_rate": 1.0, "optimizer": optax.sgd(1.0)}, "`learning_rate` must be None where"),
        ({"optimizer": 3}, "`optimizer` must be an optax optimiser"),
        ({"loss": lambda z, _: z}, "`loss` must give a scalar"),
        ({"loss": "logistc"}, "`loss` must be a known name"),
        ({"trained": "hiden"}, "`trained` must be a known name"),
    ],
)
def test_a_wrong_argument_is_named(changed, words):
    right = {"make": ntk, "widths": [4, 8], "x": X, "y": Y, "seeds": 1, "key": jr.key(0)}
    with pytest.raises((ValueError, TypeError), match=words):
        width_check(**{**right, **changed})


def test_models_of_other_layers_or_of_batch_normalisation_are_refused():
    def deeper(width, key):
        if width < 8:
            return ntk(width, key)
        params = {"W": jr.normal(key, (4, width)), "V": jnp.eye(width), "a": jnp.ones(width)}
        return (lambda p, x: jnp.tanh(jnp.tanh(x @ p["W"]) @ p["V"]) @ p["a"]), params

    with pytest.raises(ValueError, match="`make` must give models of the same layers at every"):
        width_check(deeper, [4, 8], X, Y, seeds=1, key=jr.key(0))

    def normalised(width, key):
        net, params = ntk(width, key)
        return (lambda p, x: net(p, x - x.mean(axis=0, keepdims=True))), params

    with pytest.raises(ValueError, match="`f` must treat each row of `x` by itself"):
        width_check(normalised, [4, 8], X, Y, seeds=1, key=jr.key(0))
