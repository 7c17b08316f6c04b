# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG005  # every entry of the table takes the object and the axes
"""Every `plot` draws the numbers of its object, on the caller's axes, and leaves no trace."""

import importlib
import inspect
import pkgutil

import jax.numpy as jnp
import jax.random as jr
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import optax
import pytest
from matplotlib.figure import Figure

import unlazy as ul
from unlazy.laziness.measurements.flips import Flips
from unlazy.laziness.measurements.kernel_drift import Distance, KernelDrift
from unlazy.laziness.measurements.movement import LayerMovement, Movement
from unlazy.laziness.measurements.prediction import Prediction
from unlazy.laziness.measurements.taylor_shares import taylor_shares
from unlazy.laziness.measurements.twins import Score, Twins
from unlazy.train import History

mpl.use("agg")

X = np.random.default_rng(0).standard_normal((12, 4))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = np.sign(X[:, 0] * X[:, 1])
H = np.asarray(ul.kernels.relu_gram(X))
NOTHING = Distance(0.1, 0.2, 0.3)


def mean_square(w, batch):
    return jnp.mean((batch[0] @ w - batch[1]) ** 2)


def linear_model(w, x):
    return x @ w


def dynamics():
    return ul.dynamics.KernelDynamics.from_gram(H, Y)


def loss_dynamics():
    return ul.dynamics.LossDynamics.from_gram(H, Y, "logistic")


def gaussian():
    return ul.kernels.posterior(H[:8, :8], Y[:8], H[8:, :8], H[8:, 8:])


DATA = (jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.float32))
START = jnp.zeros(4)


def history():
    record = {"norm": jnp.linalg.norm, "weights": lambda w: w}
    return ul.train.fit(mean_square, START, DATA, optimizer=optax.sgd(0.1), steps=5, record=record)


def perturbed():
    return ul.train.perturbed_gradient_descent(
        lambda w: w[0] ** 2 - w[1] ** 2 + w[1] ** 4, jnp.zeros(2), None, steps=20,
        learning_rate=0.1, key=jr.key(0),
    )  # fmt: skip


def grid(decays=(0.0,)):
    return ul.train.fit_grid(
        mean_square, START, DATA, learning_rates=[1.0, 0.1, 1e30], weight_decays=decays,
        seeds=range(2), epochs=4,
    )  # fmt: skip


def drift():
    return KernelDrift(NOTHING, {"a": NOTHING, "b": NOTHING}, 0.1, 0.2, (), (), None)


def movement():
    return Movement(0.5, (LayerMovement("net/a", 0.25, (0.1, 0.2, 0.3), 1.0, 1.0),))


def width_check():
    def make(width, key):
        net = ul.nets.TwoLayer(inputs=4, width=width, activation="tanh")
        return net, net.init(key=key)

    return ul.laziness.width_check(make, [8, 16, 32], *DATA, steps=1, seeds=2, key=jr.key(0))


def shares():
    terms = np.stack([np.zeros((3, 1)), np.ones((3, 1)), np.full((3, 1), 0.5)])
    return taylor_shares(terms, np.full((3, 1), 2.0))


def twins():
    scores = tuple(Score(name, "the rows given", 0.5, 0.1, 9) for name in ("network", "kernel"))
    return Twins(scores, "9 rows", {})


def probe():
    probe = ul.Probe(linear_model, START + 1, DATA[0], DATA[1])
    probe(1, 1.5 * START + 2)
    return probe


def label_report():
    return ul.laziness.measure(X, Y)


def certificate():
    return ul.curvature.certify(lambda w: w[0] ** 2 - w[1] ** 2, jnp.zeros(2), key=jr.key(0))


def cube_certificate():
    cube = ul.data.cube(6, 5, key=jr.key(0))
    return ul.certificates.kernel(ul.kernels.ntk, cube, degree=2, alpha=0.5)


def xs(line):
    return np.asarray(line.get_xdata(), float)


def ys(line):
    return np.asarray(line.get_ydata(), float)


def lines(ax):
    return [ys(line) for line in ax.get_lines()]


def saved(ax):
    """Draw the figure, where something may warn."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.savefig("/dev/null", format="png")


def named_in_legend(ax):
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def bars(ax, horizontally=False):
    return [p.get_width() if horizontally else p.get_height() for p in ax.patches]


def ranked(values):
    return np.sort(values)[::-1]


# The object, the method, and what is drawn against the numbers of the object, by a second route.
SINGLE = {
    "KernelDynamics.plot": (
        dynamics,
        lambda o, ax: (
            ax.get_lines()[0].get_ydata()[0],
            0.5 * np.sum((Y - H @ Y * o.learning_rate) ** 2),
        ),
    ),
    "KernelDynamics.plot_spectrum": (
        dynamics,
        lambda o, ax: (lines(ax)[0], ranked(np.linalg.eigvalsh(H)) / np.linalg.eigvalsh(H)[-1]),
    ),
    "LossDynamics.plot": (
        loss_dynamics,
        lambda o, ax: (
            lines(ax)[0][0],
            np.sum(np.log1p(np.exp(-Y * (H @ Y) * o.learning_rate / 2))),
        ),
    ),
    "Gaussian.plot": (
        gaussian,
        lambda o, ax: (lines(ax)[0], H[8:, :8] @ np.linalg.solve(H[:8, :8], Y[:8])),
    ),
    "History.plot": (history, lambda o, ax: (lines(ax), [o.loss, o.records["norm"]])),
    "PerturbedHistory.plot": (
        perturbed,
        lambda o, ax: (ax.get_lines()[-1].get_xdata(), o.perturbed_at),
    ),
    "GridResult.plot": (
        grid,
        lambda o, ax: (lines(ax)[0][:2], o.final("train")[[1, 0], 0].mean(1)),
    ),
    "Eigen.plot": (
        lambda: ul.linalg.eigh(H),
        lambda o, ax: (lines(ax)[0], ranked(np.linalg.eigvalsh(H))),
    ),
    "PartialEigen.plot": (
        lambda: ul.kernels.operator(ul.kernels.relu_gram, X).top_eigen(3, key=jr.key(0)),
        lambda o, ax: (lines(ax)[0], ranked(np.linalg.eigvalsh(H))[:3]),
    ),
    "RidgePath.plot": (
        lambda: ul.kernels.ridge_path(H, Y, [0.1, 1.0]),
        lambda o, ax: (lines(ax)[0], ul.labels.leave_one_out_path(H, Y, [0.1, 1.0]).errors),
    ),
    "LeftOutPath.plot": (
        lambda: ul.labels.leave_one_out_path(H, Y, [0.1, 1.0]),
        lambda o, ax: (lines(ax)[0], ul.kernels.ridge_path(H, Y, [0.1, 1.0]).leave_one_out()),
    ),
    "LeaveOneOut.plot": (
        lambda: ul.labels.leave_one_out(H, Y),
        lambda o, ax: (
            lines(ax)[0],
            ranked(np.linalg.solve(H, Y) ** 2 / np.diag(np.linalg.inv(H))),
        ),
    ),
    "DegreeSpectrum.plot": (
        lambda: ul.labels.degree_spectrum(X, Y, degree=2),
        lambda o, ax: (bars(ax), [*o.shares, *o.dimensions / len(Y)]),
    ),
    "EnergyBounds.plot": (
        lambda: ul.labels.energy_bounds(ul.kernels.relu_gram, X, Y),
        lambda o, ax: (
            ax.get_lines()[0].get_xdata(),
            np.sqrt(2 * np.array([o.lower, o.upper]) / len(Y)),
        ),
    ),
    "ExtremeEigenvalues.plot": (
        lambda: certificate().curvature,
        lambda o, ax: (ax.get_lines()[0].get_xdata(), [-2.0, 2.0]),
    ),
    "Certificate.plot": (certificate, lambda o, ax: (bars(ax, True), [0.0, 2 / 1e-3])),
    "ParityCertificate.plot": (
        cube_certificate,
        lambda o, ax: (lines(ax)[0], np.sort(np.min(o.risks, axis=1)) / 0.25),
    ),
    "TaylorShares.plot": (shares, lambda o, ax: (bars(ax), [0.5, 0.25, 0.25])),
    "TaylorShares.plot_errors": (shares, lambda o, ax: (lines(ax)[-1], [1.0, 0.5, 0.25])),
    "KernelDrift.plot": (drift, lambda o, ax: (bars(ax, True), [0.2] * 3 + [0.3] * 3)),
    "Movement.plot": (movement, lambda o, ax: (bars(ax, True), [0.5, 0.25])),
    "Flips.plot": (
        lambda: Flips(0.3, {"relu 1 after a": 0.1}, {"relu 1 after a": (0.5, 0.5)}),
        lambda o, ax: (bars(ax, True), [0.3, 0.1]),
    ),
    "Twins.plot": (twins, lambda o, ax: (bars(ax, True), [0.5, 0.5])),
    "Prediction.plot": (
        lambda: Prediction(np.arange(1.0, 4), np.ones(3), np.full(3, 0.5), 1.0, 1.0),
        lambda o, ax: (lines(ax), [np.ones(3), np.full(3, 0.5)]),
    ),
    "ProbeHistory.plot": (
        lambda: probe().history,
        lambda o, ax: (
            lines(ax)[0],
            [0.0, np.linalg.norm(np.ones(4)) / np.linalg.norm(np.ones(4))],
        ),
    ),
    "WidthCheck.plot": (width_check, lambda o, ax: (lines(ax)[0], o.movement[0, :, 0, -1])),
    "LabelReport.plot_complexity": (
        label_report,
        lambda o, ax: (bars(ax), [o.label_complexity, o.random_level]),
    ),
    "LabelReport.plot_spectrum": (
        label_report,
        lambda o, ax: (lines(ax)[0], o.eigenvalues / o.eigenvalues[0]),
    ),
    "LabelReport.plot_scores": (label_report, lambda o, ax: (lines(ax)[0], ranked(o.scores))),
}


def output_scales():
    net = ul.nets.TwoLayer(inputs=4, width=16)
    params = net.init(key=jr.key(0))
    return ul.laziness.output_scale_sweep(net, params, DATA, gammas=[0.1, 1.0], epochs=2)


def report():
    return ul.diagnose(linear_model, START + 1, START + 2, DATA[0], DATA[1])


SINGLE |= {
    "OutputScaleSweep.plot_laziness": (
        output_scales,
        lambda o, ax: (lines(ax)[0], o.linearisation_error),
    ),
    "OutputScaleSweep.plot_quality": (output_scales, lambda o, ax: (lines(ax)[0], o.train_loss)),
}
FIGURES = {
    "Report.plot": (report, 4),
    "LabelReport.plot": (label_report, 3),
    "OutputScaleSweep.plot": (output_scales, 2),
    "Probe.plot": (probe, 4),
}


@pytest.fixture(scope="module")
def made():
    """Every object, made once."""
    kept = {}

    def get(build):
        if build not in kept:
            kept[build] = build()
        return kept[build]

    return get


def bound(made, name, table=SINGLE):
    thing = made(table[name][0])
    return thing, getattr(thing, name.partition(".")[2])


@pytest.mark.parametrize("name", SINGLE)
def test_a_plot_draws_the_numbers_of_its_object_on_the_axes_given(name, made):
    thing, plot = bound(made, name)
    before = dict(mpl.rcParams)
    with mpl.rc_context({"figure.figsize": (3, 2)}):
        ax = Figure().subplots()
        assert plot(ax) is ax
    drawn, expected = SINGLE[name][1](thing, ax)
    np.testing.assert_allclose(drawn, expected, rtol=1e-5, atol=1e-6)  # float32 trainings
    assert dict(mpl.rcParams) == before
    assert ax.get_xlabel() or ax.get_ylabel()
    named = ax.get_legend_handles_labels()[1]
    assert len(named) < 2 or ax.get_legend() is not None
    saved(ax)


@pytest.mark.parametrize("name", SINGLE)
def test_without_axes_a_plot_has_a_figure_of_its_own_in_our_style(name, made):
    _, plot = bound(made, name)
    ax = plot()
    assert not plt.get_fignums()
    assert not ax.spines["top"].get_visible()
    assert ax.figure._repr_png_()[0].startswith(b"\x89PNG")


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize(
    "wrong", ["ax", Figure(), np.array([1, 2])], ids=["text", "figure", "array"]
)
def test_wrong_axes_are_refused_by_name(name, wrong, made):
    _, plot = bound(made, name)
    with pytest.raises(TypeError, match="`ax` must be a matplotlib Axes or None, got ax="):
        plot(wrong)


def test_other_projections_are_refused():
    polar = Figure().add_subplot(projection="polar")
    with pytest.raises(TypeError, match="`ax` must have two straight axes"):
        shares().plot(polar)


@pytest.mark.parametrize("name", FIGURES)
def test_a_report_draws_on_a_figure_or_a_part_of_one(name, made):
    _, plot = bound(made, name, FIGURES)
    whole = Figure(figsize=(12, 6), layout="constrained")
    left = whole.subfigures(1, 2, squeeze=False)[0, 0]
    assert plot(left) is left
    assert sum(ax.axison for ax in left.axes) >= FIGURES[name][1]
    assert len(plot().axes) == len(left.axes)
    assert not plt.get_fignums()
    with pytest.raises(ValueError, match="`figure` must be empty"):
        plot(left)
    with pytest.raises(TypeError, match="`figure` must be a matplotlib Figure"):
        plot("figure")
    whole.savefig("/dev/null", format="png")


def test_every_class_with_a_plot_is_in_this_file():
    found = set()
    for info in pkgutil.walk_packages(ul.__path__, "unlazy."):
        if info.name.startswith(("unlazy.papers", "unlazy.__main__", "unlazy.experiments")):
            continue
        for _, kind in inspect.getmembers(importlib.import_module(info.name), inspect.isclass):
            if kind.__module__.startswith("unlazy."):
                names = (name for name in vars(kind) if name.startswith("plot"))
                found |= {f"{kind.__name__}.{name}" for name in names}
    assert found == {*SINGLE, *FIGURES} | {"Experiment.plot"} & found


def test_two_results_on_the_same_axes_can_be_told_apart():
    ax = dynamics().plot(label="one")
    dynamics().plot(ax, label="two")
    first, second = ax.get_lines()
    assert first.get_color() != second.get_color()
    assert named_in_legend(ax) == ["one", "two"]


def test_measured_losses_lie_over_the_prediction():
    run, flow = history(), dynamics()
    ax = flow.plot(measured=run, relative=True)
    predicted, measured = ax.get_lines()
    np.testing.assert_allclose(ys(measured), run.loss / run.loss[0])
    np.testing.assert_allclose(ys(predicted), flow.loss(xs(predicted)) / flow.loss(0))
    pair = flow.plot(measured=(run.steps, run.loss)).get_lines()[1]
    np.testing.assert_array_equal(ys(pair), run.loss)
    with pytest.raises(TypeError, match="`measured` must be a history"):
        flow.plot(measured=3)
    with pytest.raises(ValueError, match="`measured` must have a loss for each step"):
        flow.plot(measured=([0, 1], [1.0]))


def test_a_map_of_a_grid_shows_means_and_marks_what_diverged():
    found = grid((0.0, 0.1))
    ax = found.plot(by="train")
    mesh = ax.collections[0]
    expected = found.final("train")[[1, 0, 2]].mean(axis=2).T
    drawn = np.ma.filled(np.ma.asarray(mesh.get_array()), np.inf).reshape(2, 3)
    np.testing.assert_allclose(drawn, expected)
    assert sum("diverged" in text.get_text() for text in ax.texts) == 2
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.1", "1", "1e+30"]


def test_lanes_that_diverged_are_crosses_and_do_not_stretch_the_axis():
    ax = grid().plot()
    assert list(xs(ax.get_lines()[1])) == [1e30]
    assert np.isnan(lines(ax)[0][-1])
    assert ax.get_ylim()[1] < 10


def test_rows_in_conflict_are_crosses():
    with pytest.warns(ul.core.UnlazyWarning, match="duplicates with different labels"):
        found = ul.labels.leave_one_out(
            np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]), np.array([1.0, -1, 1])
        )
    ax = found.plot()
    assert list(lines(ax)[0]) == [1.0]
    assert named_in_legend(ax)[1] == "infinite: labels in conflict"


def test_a_loss_that_is_zero_or_diverges_can_be_drawn():
    done = ul.dynamics.KernelDynamics.from_gram(np.eye(2), np.ones(2)).plot()
    assert not lines(done)[0].any()
    with pytest.warns(ul.core.UnlazyWarning, match="diverge"):
        flow = ul.dynamics.KernelDynamics.from_gram(np.eye(2), np.ones(2), learning_rate=3.0)
    assert lines(flow.plot())[0][-1] > 1e50
    broken = History(None, 1, "diverged", np.arange(2), np.array([1.0, np.inf]), {})
    saved(broken.plot())


def test_names_of_curves_are_checked():
    with pytest.raises(ul.core.UnknownNameError, match="`names` must be a known name"):
        history().plot(names=["weights"])  # more than one number a row
    with pytest.raises(TypeError, match="`names` must be a list"):
        history().plot(names="loss")
    with pytest.raises(ul.core.UnknownNameError, match="`columns` must be a known name"):
        probe().history.plot(columns=["nothing"])
    with pytest.raises(ValueError, match="`x` must have one number for each of 4 points"):
        gaussian().plot(x=np.zeros(3))


@pytest.mark.parametrize("kind", ["kernel", "loss"])
def test_measured_losses_that_start_late_are_drawn_on_the_prediction(kind):
    gram = np.diag([4.0, 3.0, 2.0, 1.0])
    steps = np.array([10, 20, 40])
    flow = ul.dynamics.KernelDynamics.from_gram(gram, np.ones(4))
    losses, start = flow.loss(steps), flow.loss(0)
    if kind == "loss":
        flow = ul.dynamics.LossDynamics.from_gram(gram, np.ones(4), "logistic")
        losses, start = flow.at_step(steps).loss, flow.at_step(0).loss
    # In another unit, as a mean is.
    line = flow.plot(measured=(steps, 7 * np.asarray(losses)), relative=True).get_lines()[1]
    np.testing.assert_allclose(np.asarray(line.get_ydata()), np.asarray(losses) / start, rtol=1e-6)


def test_a_bar_has_a_row_of_its_own_on_axes_that_hold_other_bars():
    ax = Figure().subplots()
    ax.bar([1, 2], [3, 4])
    bounds = ul.labels.energy_bounds(ul.kernels.relu_gram, X, Y)
    for name in ("a", "b"):
        bounds.plot(ax, label=name)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b"]
    assert ax.get_legend_handles_labels()[1] == []


def test_a_spectrum_leaves_out_what_is_too_small_to_draw():
    flow = ul.dynamics.KernelDynamics.from_gram(
        np.diag([1.0, 0.5, 1e-14]), np.array([1.0, 1.0, 0.0])
    )
    share, beyond = (np.asarray(line.get_ydata()) for line in flow.plot_spectrum().get_lines()[:2])
    np.testing.assert_allclose(share[:2], [1, 0.5])
    np.testing.assert_allclose(beyond[:1], [0.5])
    assert np.all(np.isnan(share[2:]))
    assert np.all(np.isnan(beyond[1:]))
