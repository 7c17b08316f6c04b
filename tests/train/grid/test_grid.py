# SPDX-License-Identifier: Apache-2.0
"""The grid as a whole: chunks, divergence, selection, progress, compilation and bad input."""

import itertools
import threading
import time
from typing import Any, cast

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy.core.errors import UnknownNameError
from unlazy.train import TimeLeft, fit_grid
from unlazy.train.grid import grid as program
from unlazy.train.grid.memory import tile, training_bytes
from unlazy.train.grid.problem import Problem
from unlazy.train.grid.rules import TorchSGD

KEY = jr.key(3)
DATA = (jr.normal(jr.key(0), (20, 4)), jr.normal(jr.key(1), (20,)))
START = 0.1 * jnp.ones(4)


def loss(w, batch):
    x, y = batch
    return jnp.mean((x @ w - y) ** 2)


def grid(**options):
    defaults = {"learning_rates": [0.01, 0.03, 0.1], "epochs": 5, "batch_size": 5, "key": KEY}
    return fit_grid(loss, START, DATA, **(defaults | options))


def lane_bytes():
    problem = Problem(loss, loss, TorchSGD(0.9), START, DATA, {}, None, None, None)
    one = np.ones(1)
    plan, shared = problem.set_up(one, one, np.ones(5), np.zeros(1, np.int64), key=KEY)
    return sum(training_bytes(plan._replace(batch_size=5), shared))


@pytest.mark.parametrize("lanes", [1, 2, 5, 100])
def test_chunks_of_any_size_give_the_same_result(lanes):
    options = {"weight_decays": [0.0, 0.1], "seeds": range(3), "keep": "all"}
    options |= {"evaluate": {"test": (DATA[0][:7], DATA[1][:7])}, "evaluate_every": 2}
    whole = grid(workers=1, **options)
    room = 2 * sum(leaf.nbytes for leaf in DATA) + lanes * lane_bytes()
    parts = grid(workers=1, memory=room, **options)
    np.testing.assert_allclose(parts.loss, whole.loss, rtol=1e-5)
    for name in ("train", "test"):
        np.testing.assert_allclose(parts.curves[name], whole.curves[name], rtol=1e-5)
    for lane in range(18):
        np.testing.assert_allclose(parts.kept[lane], whole.kept[lane], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seeds", [1, 2, 3, 7])
@pytest.mark.parametrize("settings", [1, 5, 12, 156])
@pytest.mark.parametrize("most", [1, 4, 40, 1000])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_chunks_of_a_tiling_cover_each_lane_once(seeds, settings, most, workers):
    seen = np.zeros((seeds, settings), int)
    tiling = tile(seeds, settings, most=most, workers=workers)
    for chunk in tiling:
        assert chunk.rows.size * chunk.columns.size <= most
        assert chunk.rows.shape == (tiling.rows,)
        assert chunk.columns.shape == (tiling.columns,)
        seen[np.ix_(chunk.rows[: chunk.seeds], chunk.columns[: chunk.settings])] += 1
    assert (seen == 1).all()


def test_two_workers_share_the_paper_grid_evenly():
    assert [chunk.lanes for chunk in tile(1, 156, most=10**6, workers=2)] == [78, 78]
    assert [chunk.lanes for chunk in tile(3, 12, most=10**6, workers=2)] == [6] * 6


def test_a_diverged_lane_is_marked_and_leaves_the_others_alone():
    calm = grid(learning_rates=[0.01, 0.02, 0.1], weight_decays=[0.0, 0.1], epochs=60)
    wild = grid(learning_rates=[0.01, 1e4, 0.1], weight_decays=[0.0, 0.1], epochs=60)
    assert not calm.diverged.any()
    assert wild.diverged[1].all()
    assert not wild.diverged[[0, 2]].any()
    np.testing.assert_array_equal(wild.loss[[0, 2]], calm.loss[[0, 2]])
    assert np.isnan(wild.diverged_epoch[[0, 2]]).all()  # 0 would be an epoch
    first = int(wild.diverged_epoch[1, 0, 0])
    assert np.isfinite(wild.loss[1, 0, 0, : first - 1]).all()
    assert not np.isfinite(wild.loss[1, 0, 0, first - 1])
    assert wild.best().learning_rate != 1e4
    table = wild.table()
    assert np.isinf(table["train"][2:4]).all()
    assert table["diverged"].tolist() == [False, False, True, True, False, False]


def test_a_grid_that_diverges_everywhere_says_so():
    results = grid(learning_rates=[1e5, 1e4], epochs=80, evaluate_every=10)
    assert results.table()["diverged"].all()
    assert np.isinf(results.final("train")).all()
    assert results.kept == {}
    with pytest.raises(ValueError, match=r"2 lanes that all diverged.*learning rate being 10000"):
        results.best()
    with pytest.raises(ValueError, match="all diverged"):
        results.edge()
    assert repr(results).startswith("GridResult(2 lanes of 80 epochs, all diverged: 2 learning")


def test_a_result_shows_in_one_line_how_many_lanes_diverged():
    wild = grid(learning_rates=[0.01, 1e5], epochs=60, seeds=[0], evaluate={"test": DATA})
    expected = "GridResult(2 lanes of 60 epochs, 1 diverged: 2 learning rates x 1 weight decay x "
    assert repr(wild) == expected + "1 seed; evaluated on train, test)"
    assert "none diverged" in repr(grid())


def closeness(w, data):
    """A metric to maximise: 1 for a perfect fit."""
    return 1 / (1 + loss(w, data))


def test_a_metric_to_maximise_chooses_the_lane_that_its_inverse_to_minimise_does():
    x = jr.normal(jr.key(5), (6, 4))
    options = {
        "learning_rates": [1e-4, 1e-2, 1e4],  # the last diverges
        "weight_decays": [0.0, 0.3],
        "epochs": 40,
        "seeds": [0, 1],
        "evaluate": {"far": (x, x @ START), "near": (x, x @ jnp.linalg.lstsq(*DATA)[0])},
    }
    smallest = grid(**options)
    largest = grid(**options, metric=closeness, best="largest")
    assert np.isneginf(largest.final("near")[2]).all()
    assert set(largest.kept) == set(smallest.kept)
    for by in ("train", "far", "near"):
        assert largest.edge(by) == smallest.edge(by)
        for replicate in (None, 0, 1):
            ours, theirs = (one.best(by, replicate=replicate) for one in (largest, smallest))
            assert ours.lane == theirs.lane
            assert ours.values[by] == pytest.approx(1 / (1 + theirs.values[by]), rel=1e-5)
            assert ours.params is not None
    assert largest.best("near").rule.startswith("largest near after 40 epochs")
    assert largest.best("near").lane != grid(**options, metric=closeness).best("near").lane


def test_a_loss_is_not_maximised():
    with pytest.raises(ValueError, match=r"`metric` must be given where best='largest'"):
        grid(best="largest")
    with pytest.raises((UnknownNameError, TypeError), match="`best` must be one of 'smallest'"):
        grid(metric=closeness, best="max")


def test_the_best_lane_prints_in_three_lines_whatever_the_model():
    results = grid(learning_rates=[1e-2], evaluate={"test": DATA})
    lines = repr(results.best()).splitlines()
    assert len(lines) == 3
    assert "learning rate 0.01, weight decay 0, seed 0" in lines[1]
    assert lines[2].endswith(f"params {len(START)} parameters in 1 array)")


def test_the_best_lane_is_chosen_by_the_named_set():
    x = jr.normal(jr.key(5), (6, 4))
    # One set that any training fits worse, one that it fits better.
    far, near = (x, x @ START), (x, x @ jnp.linalg.lstsq(*DATA)[0])
    results = grid(
        learning_rates=[1e-4, 1e-2],
        epochs=40,
        seeds=[0, 1],
        evaluate={"validation": far, "test": near},
    )
    by_validation, by_test = results.best("validation"), results.best("test")
    assert by_validation.learning_rate == 1e-4
    assert by_test.learning_rate == 1e-2
    assert results.best() == by_validation or results.best().lane == by_validation.lane
    assert "smallest validation after 40 epochs, among 4 lanes" in by_validation.rule
    assert by_test.values["test"] == results.table()["test"].min()
    assert by_test.values["validation"] > by_validation.values["validation"]
    assert float(loss(by_test.params, near)) == pytest.approx(by_test.values["test"], rel=1e-4)
    for place in (0, 1):
        of_seed = results.best("test", replicate=place)
        assert of_seed.seed == place
        assert of_seed.values["test"] == results.final("test")[..., place].min()
        assert of_seed.params is not None


def test_an_optimum_on_the_edge_of_the_grid_is_seen():
    rates = [1e-4, 1e-3, 1e-2]
    assert grid(learning_rates=rates).edge() == {"learning_rate": "high"}
    assert grid(learning_rates=rates[::-1]).edge() == {"learning_rate": "high"}
    inside = grid(learning_rates=[1e-3, 1e-1, 10.0], momentum=0, batch_size=None, epochs=20)
    assert inside.edge() == {}
    assert grid(learning_rates=[0.01]).edge() == {}
    decays = grid(weight_decays=[0.1, 1.0], epochs=60, learning_rates=[0.03])
    assert decays.edge() == {"weight_decay": "low"}
    assert grid(weight_decays=[0.0, 1.0], epochs=60, learning_rates=[0.03]).edge() == {}


def test_the_table_has_a_row_a_lane():
    table = grid(weight_decays=[0.0, 0.5], seeds=[3, 4], evaluate={"test": DATA}).table()
    assert table["learning_rate"].tolist() == np.repeat([0.01, 0.03, 0.1], 4).tolist()
    assert table["weight_decay"].tolist() == np.tile(np.repeat([0.0, 0.5], 2), 3).tolist()
    assert table["seed"].tolist() == [3, 4] * 6
    np.testing.assert_array_equal(table["test"], table["train"])
    assert {len(column) for column in table.values()} == {12}


def test_curves_are_taken_on_the_way():
    def mistakes(w, data):
        x, y = data
        return jnp.mean((jnp.sign(x @ w) != jnp.sign(y)).astype(float))

    often = grid(evaluate_every=2, metric=mistakes)
    assert often.times.tolist() == [2, 4, 5]
    short = grid(epochs=4, metric=mistakes)
    np.testing.assert_allclose(often.curves["train"][..., 1], short.curves["train"][..., 0])
    assert set(np.unique(often.final("train") * 20 % 1).round(4)) <= {0.0, 1.0}


def test_progress_counts_the_epochs_of_all_lanes():
    calls, lines = [], []
    grid(epochs=40, seeds=[0, 1], progress=lambda done, total: calls.append((done, total)))
    assert calls[0] == (0, 240)
    assert calls[-1] == (240, 240)
    assert len(calls) > 20
    assert all(a[0] <= b[0] for a, b in itertools.pairwise(calls))
    grid(progress=TimeLeft(lines.append))
    assert lines[0] == "0% done"
    assert lines[-1].startswith("100% done, 0 s left")


def test_a_failing_progress_ends_the_run():
    def fails(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        grid(progress=fails)

    def fails_later(done, total):
        if done:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        grid(progress=fails_later, workers=2)


def test_the_error_of_a_later_chunk_is_the_one_that_is_seen(monkeypatch):
    # The first chunk, told to stop, ends in an error too; that is not the one to show.
    began = threading.Event()

    class Failing(program.Meter):
        def add(self, amount):
            if amount and not began.is_set():
                began.set()
                time.sleep(0.2)
            elif amount:
                raise RuntimeError("out of memory")

    monkeypatch.setattr(program, "Meter", Failing)
    with pytest.raises(RuntimeError, match="out of memory"):
        grid(workers=2, seeds=[0, 1])


def test_a_second_grid_of_equal_size_compiles_nothing(caplog):
    def run(rates, seed):
        options = {"learning_rates": rates, "weight_decays": [0.0, seed / 10], "seeds": [seed]}
        with jax.log_compiles():
            grid(epochs=6, drops={3: 1 / (seed + 1)}, **options)
        texts = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return [text for text in texts if "Compiling jit(_advance)" in text]

    assert len(run([0.01, 0.1, 0.05, 0.02], 1)) == 1
    assert run([0.02, 0.3, 0.04, 0.03], 2) == []


def test_a_changed_closure_changes_loss_metric_and_optimizer():
    scale, weight, factor = 1.0, 1.0, 1.0

    def loss(w):
        return scale * jnp.sum(w**2) / 2

    def optimizer(lr, wd):
        return optax.sgd(factor * lr)

    def metric(w):
        return weight * jnp.sum(w)

    def run():
        options = {"learning_rates": [0.1, 0.2], "optimizer": optimizer, "metric": metric}
        return fit_grid(loss, jnp.ones(2), None, epochs=1, **options).best("train")

    np.testing.assert_allclose(run().params, 0.8, rtol=1e-6)
    scale = 2.0
    np.testing.assert_allclose(run().params, 0.6, rtol=1e-6)
    factor = 2.0
    np.testing.assert_allclose(run().params, 0.2, rtol=1e-6)
    weight = -1.0  # the least is now the largest
    np.testing.assert_allclose(run().params, 0.6, rtol=1e-6)


def test_training_happens_in_the_dtype_of_the_parameters(x64):
    start, data = START.astype(jnp.float32), jax.tree.map(lambda a: a.astype(jnp.float32), DATA)
    results = fit_grid(loss, start, data, learning_rates=[0.01], epochs=2)
    assert results.best().params.dtype == jnp.float32


def test_precision_is_passed_to_the_products():
    seen = []

    def looks(w, batch):
        product = jax.make_jaxpr(lambda a, b: a @ b)(batch[0], w)
        seen.append(str(product))
        return loss(w, batch)

    fit_grid(looks, START, DATA, learning_rates=[0.01], epochs=1, precision="highest")
    assert any("precision" in text and "HIGHEST" in text.upper() for text in seen)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rates": []}, "`learning_rates` must have at least one value"),
        ({"weight_decays": []}, "`weight_decays` must have at least one value"),
        ({"seeds": []}, "`seeds` must be at least one integer"),
        ({"seeds": [-1]}, "`seeds` must be an integer >= 0"),
        ({"learning_rates": [0.1, 0.0]}, "`learning_rates` must be finite and positive"),
        ({"learning_rates": [0.1, np.nan]}, "`learning_rates` must be finite"),
        ({"learning_rates": [0.1, 0.1]}, "`learning_rates` must be distinct"),
        ({"weight_decays": [-1.0]}, "`weight_decays` must be finite and not negative"),
        ({"batch_size": 21}, "`batch_size` must be at most the number of samples, 20"),
        ({"batch_size": 0}, "`batch_size` must be an integer >= 1"),
        ({"epochs": 0}, "`epochs` must be an integer >= 1"),
        ({"key": None}, "`key` must be given when `batch_size` is"),
        ({"momentum": 1.0}, "`momentum` must be at least 0 and below 1"),
        ({"memory": 100}, "`memory` must be at least .* bytes, what one lane takes"),
        ({"memory": -1}, "`memory` must be a positive number"),
        ({"workers": 0}, "`workers` must be an integer >= 1"),
        ({"drops": {-1: 0.1}}, "`drops` must be an integer >= 0"),
        ({"drops": {1: 0.0}}, "`drops` must be a positive number"),
        ({"drops": {1: 0.1, 5: 0.1}}, "`drops` must be at epochs below epochs=5, .* got 5"),
        ({"learning_rates": "0.1"}, "`learning_rates` must be numbers, got learning_rates='0.1'"),
        ({"weight_decays": ["0.1"]}, "`weight_decays` must be numbers"),
        ({"seeds": 3}, r"`seeds` must be a sequence of integers, got seeds=3. Give range\(3\)"),
        ({"key": 3}, "`key` must be one random key, got key=3"),
        ({"key": 3, "batch_size": None}, "`key` must be one random key, got key=3"),
        ({"momentum": "0.9"}, "`momentum` must be at least 0 and below 1, got momentum='0.9'"),
        ({"metric": lambda w, batch: batch[0] @ w}, r"`metric` must give a scalar.* shape \(20,\)"),
        ({"evaluate": {"test": {"x": DATA[0]}}}, r"`evaluate\['test'\]` must have the structure"),
        ({"evaluate": {"train": DATA}}, "`evaluate` must name its sets by other words"),
        ({"evaluate": {"test": (DATA[0], DATA[1][:3])}}, "evaluate.*same number of rows"),
        ({"data_axes": "batch"}, '`data_axes` must hold None or "seed"'),
        ({"data_axes": (None, None, None)}, "`data_axes` must be None"),
        ({"data_axes": (None, "seed"), "seeds": [0, 1]}, "leading axis of 2 entries"),
        ({"params_axes": "seed"}, "`params` must have a leading axis of 1 entries"),
        ({"trained": lambda path: path == "no"}, "`trained` must choose at least one"),
        ({"learning_rates": [[0.1, 0.2]]}, "`learning_rates` must be one list of numbers"),
        ({"learning_rates": [1e-50]}, "`learning_rates` must be within the range of float32"),
        ({"learning_rates": [1e39]}, "`learning_rates` must be within the range of float32"),
        ({"weight_decays": [1, 1 + 1e-12]}, "`weight_decays` must be .* distinct in it"),
        ({"drops": [(1, 0.1)]}, "`drops` must be a dict of epochs and factors"),
        ({"precision": "hihest"}, "`precision` must be one that .* got precision='hihest'"),
        ({"evaluate": DATA}, "`evaluate` must be a dict of named sets.* got a tuple"),
        ({"evaluate": {"test": None}}, r"`evaluate\['test'\]` must hold at least one array"),
        ({"evaluate": {"test": (DATA[0][:, 1:], DATA[1])}}, r"`evaluate\['test'\]`.*\(20, 3\)"),
        (
            {"evaluate": {"test": DATA}, "data_axes": (None, "seed")},
            "`data` must have a leading axis of 1 entries",
        ),
    ],
)
def test_bad_input_is_named(options, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        grid(**options)


def test_an_optimizer_that_is_made_already_is_refused(no_shape_checker):
    made: Any = optax.adam(1e-3)
    with pytest.raises(TypeError, match=r"`optimizer` must be a function .* `lambda lr, wd: optax"):
        grid(optimizer=made)


def test_an_optimizer_of_other_arguments_or_without_a_result_is_named(no_shape_checker):
    with pytest.raises(TypeError, match=r"`optimizer` must be a function .* got one of \(lr\)"):
        grid(optimizer=lambda lr: optax.sgd(lr))
    with pytest.raises(TypeError, match=r"`optimizer` must give an optax optimiser.* NoneType"):
        grid(optimizer=lambda *_: None)


def test_a_set_without_its_axis_of_seeds_is_named():
    per_seed = (DATA[0], jnp.stack([DATA[1]] * 2))
    options = {"learning_rates": [0.1], "epochs": 1, "seeds": [0, 1], "data_axes": (None, "seed")}
    with pytest.raises(ValueError, match=r"`evaluate\['test'\]` must have a leading axis of 2"):
        fit_grid(loss, START, per_seed, evaluate={"test": DATA}, **options)


@pytest.mark.parametrize(
    ("data", "message"),
    [(None, "`data` must hold at least one array"), (([[1.0] * 4], [1.0]), "make it an array")],
)
def test_data_that_are_no_arrays_are_named(data, message):
    with pytest.raises(ValueError, match=message):
        fit_grid(loss, START, data, learning_rates=[0.1], epochs=1)


def test_seeds_may_be_an_array_of_any_kind():
    for seeds in (jnp.arange(2), np.arange(2), range(2)):
        assert grid(seeds=seeds).seeds.tolist() == [0, 1]


@pytest.mark.parametrize("factory", [optax.adam, optax.sgd, optax.adamw])
def test_an_optimiser_that_would_take_the_decay_for_something_else_is_refused(factory):
    with pytest.raises(
        TypeError, match=rf"optax\.{factory.__name__}, whose arguments are learning"
    ):
        grid(optimizer=factory)


def test_a_loss_that_is_no_scalar_is_named(no_shape_checker):
    def of_samples(w, batch):
        return (batch[0] @ w - batch[1]) ** 2

    def with_more(w, batch):
        return loss(w, batch), w

    options: dict[str, Any] = {"learning_rates": [0.1], "epochs": 1}
    with pytest.raises(
        ValueError, match=r"`loss` must give a scalar, got an array of shape \(20,\)"
    ):
        fit_grid(of_samples, START, DATA, **options)
    with pytest.raises(ValueError, match="`loss` must give a scalar, got tuple"):
        fit_grid(cast(Any, with_more), START, DATA, **options)


def test_a_set_of_another_structure_needs_a_loss_that_takes_it():
    results = grid(evaluate={"test": list(DATA)})  # which unpacks as a tuple does
    np.testing.assert_array_equal(results.final("test"), results.final("train"))
    with pytest.raises(ValueError, match=r"`evaluate\['test'\]`.*one that `metric` takes"):
        grid(evaluate={"test": (*DATA, DATA[1])})


@pytest.mark.parametrize("batch_size", [5, None])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_memory_that_an_error_names_is_enough(batch_size, workers):
    with pytest.raises(ValueError, match="`memory` must be at least") as caught:
        grid(memory=100, batch_size=batch_size, workers=workers)
    text = str(caught.value)
    assert "got memory=100" in text
    assert ("copies of the data" in text) == (batch_size is not None)
    least = int(text.partition("at least ")[2].partition(" bytes")[0])
    with pytest.raises(ValueError, match=f"at least {least} bytes"):
        grid(memory=least - 1, batch_size=batch_size, workers=workers)
    found = grid(memory=least, batch_size=batch_size, workers=workers)
    np.testing.assert_allclose(found.loss, grid(batch_size=batch_size).loss, rtol=1e-5)


def test_an_unknown_word_is_named(no_shape_checker):
    with pytest.raises(UnknownNameError, match="Did you mean 'best'"):
        grid(keep="bets")
    with pytest.raises(UnknownNameError, match="Did you mean 'test'"):
        grid(evaluate={"test": DATA}).best("tset")
    with pytest.raises(ValueError, match="`replicate` must be the place of one of the 1 seeds"):
        grid().best(replicate=1)


def test_data_that_are_not_finite_are_named():
    bad = (DATA[0].at[3, 0].set(jnp.nan), DATA[1])
    with pytest.raises(ValueError, match="`data` must be finite, got nan or inf in row 3"):
        fit_grid(loss, START, bad, learning_rates=[0.1], epochs=1)
    with pytest.raises(ValueError, match="`params` must be finite"):
        fit_grid(loss, START * jnp.inf, DATA, learning_rates=[0.1], epochs=1)
