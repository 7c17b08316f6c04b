# SPDX-License-Identifier: Apache-2.0
"""Figure 1: true labels train faster than random ones, as the spectrum of H-infinity predicts.

For each data set, left: the training loss of a two-layer ReLU network for true, random and worst
labels, beside the prediction from the eigenvalues of H-infinity and the label projections on its
eigenvectors; right: those eigenvalues and projections.

Source: AR-80, arXiv:1901.08584 Figure 1. "Worst" labels are the eigenvector of the smallest
eigenvalue, scaled to the norm of the other labels (the paper leaves it at norm one).
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from unlazy import data
from unlazy.dynamics import KernelDynamics
from unlazy.experiments import Cell, CellResult, Claim, Experiment, Preset, Progress, Results
from unlazy.experiments.figures import COLORS
from unlazy.kernels import relu_gram
from unlazy.linalg import Eigen, eigh
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.train import History, SquaredError, fit, gram_descent

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

NAME, VERSION = "arora2019/figure1", 1
LABELS = ("true", "random", "worst")
CENTERED = ("cifar10",)  # raw pixels would put the paper's step of 1e-3 above 2/lambda_max


@dataclass(frozen=True)
class Problem:
    """The first two classes of a data set, `n` samples, unit norm."""

    dataset: str
    n: int

    def load(self, *, seed: int) -> data.Task:
        center = self.dataset in CENTERED
        return data.load(
            self.dataset, classes=(0, 1), n_train=self.n, n_test=1, center=center, key=jr.key(seed)
        )


@dataclass(frozen=True)
class Network:
    """The network and how it is trained."""

    width: int
    init: str
    init_scale: float
    learning_rate: float | None  # None: 1/lambda_max
    steps: int


@dataclass(frozen=True)
class Spectrum:
    """The cell of a right panel."""

    problem: Problem


@dataclass(frozen=True)
class Training:
    """The cell of one curve in a left panel."""

    problem: Problem
    labels: str
    network: Network


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    datasets: tuple[str, ...]
    n: int
    network: Network
    fallback: str | None = None  # for data sets that are not on this machine
    overlay: str = "holds"  # the recorded verdict on the prediction at this size

    def problems(self) -> list[Problem]:
        return [Problem(name, self.n) for name in self.found()]

    def found(self) -> tuple[str, ...]:
        if self.fallback is None:
            return self.datasets
        return tuple(filter(data.available, self.datasets)) or (self.fallback,)


def cells(config: Config) -> list[Cell]:
    listed = []
    for problem in config.problems():
        listed.append(_cell(Spectrum(problem), f"{problem.dataset}: spectrum"))
        for labels in LABELS:
            training = Training(problem, labels, config.network)
            listed.append(_cell(training, f"{problem.dataset}: training, {labels} labels"))
    return listed


def _cell(config: Spectrum | Training, label: str) -> Cell:
    return Cell(experiment=NAME, version=VERSION, config=config, seed=0, label=label)


def notes(config: Config) -> list[str]:
    missing = [name for name in config.datasets if name not in config.found()]
    if not missing:
        return []
    used = " and ".join(config.found())
    return [
        f"{' and '.join(missing)} not found on this machine: using {used}. Point UNLAZY_DATA at a "
        "folder that holds the data, or run the paper preset, which downloads it."
    ]


# What a cell computes ------------------------------------------------------------------------


def run(config: Spectrum | Training, *, seed: int, progress: Progress) -> CellResult:
    if isinstance(config, Spectrum):
        return _spectrum(config, seed=seed)
    return _training(config, seed=seed, progress=progress)


@functools.lru_cache(maxsize=1)  # shared by the four cells of a data set
def _decompose(problem: Problem, seed: int) -> tuple[data.Task, Eigen]:
    task = problem.load(seed=seed)
    return task, eigh(relu_gram(task.x_train))


def _labels(kind: str, problem: Problem, *, seed: int) -> np.ndarray:
    task, eigen = _decompose(problem, seed)
    if kind == "true":
        return np.asarray(task.y_train)
    if kind == "random":
        return np.asarray(data.random_labels(problem.n, key=jr.fold_in(jr.key(seed), 2)))
    with jax.enable_x64(True):
        return math.sqrt(problem.n) * np.asarray(eigen.vectors[:, -1])


def _spectrum(config: Spectrum, *, seed: int) -> CellResult:
    _, eigen = _decompose(config.problem, seed)
    table = {"index": np.arange(1, config.problem.n + 1), "eigenvalue": eigen.values}
    measures = []
    for kind in LABELS:
        flow = KernelDynamics.from_eigen(eigen, _labels(kind, config.problem, seed=seed))
        table[f"projection_{kind}"] = flow.projections
        measures.append(math.sqrt(2 / config.problem.n) * flow.movement(math.inf))
    return CellResult(table, {"label_complexity": np.array(measures)})


def _training(config: Training, *, seed: int, progress: Progress) -> CellResult:
    task, eigen = _decompose(config.problem, seed)
    spec, x = config.network, task.x_train
    net = TwoLayer(x.shape[1], spec.width, init=spec.init, init_scale=spec.init_scale)
    start = net.init(key=jr.fold_in(jr.key(seed), 3))
    y = _labels(config.labels, config.problem, seed=seed)
    resid0 = y - np.asarray(net(start, x), np.float64)
    flow = KernelDynamics.from_eigen(eigen, resid0, learning_rate=spec.learning_rate)
    history = _train(
        net, start, x, jnp.asarray(y, x.dtype), flow.learning_rate, spec.steps, progress
    )
    moved = history.params.W - start.W
    flips = net.preactivations(history.params, x) >= 0
    flips ^= net.preactivations(start, x) >= 0
    table = {
        "step": history.steps,
        "residual": np.sqrt(2 * history.loss.astype(np.float64)),
        "predicted": flow.residual(history.steps),
    }
    summary = {
        "label_norm": np.linalg.norm(y),
        "learning_rate": np.float64(flow.learning_rate),
        "movement": np.float64(jnp.linalg.norm(moved)),
        "movement_predicted": np.float64(flow.movement(history.final_step)),
        "flips": np.float64(jnp.mean(flips, dtype=float)),
        # AR-14: how far a neuron must move, in units of its initial size; lazy if far below one.
        "rho": np.float64(flow.movement(math.inf) / (spec.init_scale * math.sqrt(spec.width))),
    }
    return CellResult(table, {name: np.asarray(value) for name, value in summary.items()})


def _train(
    net: TwoLayer,
    start: TwoLayerParams,
    x: jax.Array,
    y: jax.Array,
    learning_rate: float,
    steps: int,
    progress: Progress,
) -> History:
    n, d = x.shape
    if n < 2 * d:  # where the products in Gram space are the smaller ones
        return gram_descent(
            net, start, x, y, learning_rate=learning_rate, steps=steps, progress=progress
        )
    loss, optimizer = SquaredError(net), _sgd(learning_rate)
    return fit(
        loss, start, (x, y), optimizer=optimizer, steps=steps, trained="hidden", progress=progress
    )


@functools.cache  # one optimiser object for the three label sets, so that they compile once
def _sgd(learning_rate: float) -> optax.GradientTransformation:
    return optax.sgd(learning_rate)


# What the paper says of it -------------------------------------------------------------------


def claims(config: Config, results: Results) -> list[Claim]:
    panels = list(_panels(config, results))
    flat = math.sqrt(2 / math.pi)
    flat_error = 4 * math.sqrt((1 - 2 / math.pi) / config.n)  # passes with probability 1 - 6e-5
    return [
        Claim(
            "AR-80/order",
            "True labels train fastest, random ones slower, the worst slowest: "
            "smallest ratio of final residuals, next to previous",
            min(_order(panel) for panel in panels),
            ">",
            1.0,
        ),
        Claim(
            "AR-80/decay",
            "The eigenvalues of H-infinity decay fast: exponent over indices 10 to n/2",
            max(_decay(panel["spectrum"].table["eigenvalue"]) for panel in panels),
            "<=",
            -0.5,
        ),
        Claim(
            "AR-80/top",
            "True labels lie on the top eigenvectors: least share of their energy on the first "
            "tenth, where a flat one would have 0.1",
            min(_top_share(panel["spectrum"].table["projection_true"]) for panel in panels),
            ">=",
            0.3,
        ),
        Claim(
            "AR-80/flat",
            "Random labels project evenly on all eigenvectors: mean |projection|, furthest from "
            "sqrt(2/pi)",
            max(
                (np.abs(panel["spectrum"].table["projection_random"]).mean() for panel in panels),
                key=lambda mean: abs(mean - flat),
            ),
            "in",
            (flat - flat_error, flat + flat_error),
        ),
        Claim(
            "AR-9/overlay",
            "The loss of true labels follows the prediction: largest deviation of the residual "
            "over the label norm",
            max(deviation(panel["true"]) for panel in panels),
            "<=",
            0.02,
            expected=config.overlay,
            note="" if config.overlay == "holds" else f"not lazy: rho = {_rho(panels):.0f}",
        ),
    ]


def _panels(config: Config, results: Results) -> Iterator[dict[str, Any]]:
    """For each data set its problem and its four results."""
    found = {cell.config: result for cell, result in results.items()}
    for problem in config.problems():
        panel: dict[str, Any] = {"problem": problem, "spectrum": found[Spectrum(problem)]}
        for kind in LABELS:
            panel[kind] = found[Training(problem, kind, config.network)]
        yield panel


def deviation(result: CellResult) -> float:
    """Largest distance between the real and the predicted residual, over the label norm."""
    table = result.table
    gap = np.max(np.abs(table["residual"] - table["predicted"]))
    return float(gap / result.arrays["label_norm"])


def _order(panel: dict[str, Any]) -> float:
    curves = [panel[kind].table["residual"] for kind in LABELS]
    true, random, worst = (curve[-1] / curve[0] for curve in curves)
    return float(min(random / true, worst / random))


def _decay(eigenvalues: np.ndarray) -> float:
    index = np.arange(10, len(eigenvalues) // 2)
    return float(np.polyfit(np.log(index), np.log(eigenvalues[index - 1]), 1)[0])


def _top_share(projections: np.ndarray) -> float:
    energy = projections**2
    return float(energy[: len(energy) // 10].sum() / energy.sum())


def _rho(panels: list[dict[str, Any]]) -> float:
    return max(float(panel["true"].arrays["rho"]) for panel in panels)


# How it is drawn -----------------------------------------------------------------------------

_SHOWN = {"mnist": "MNIST 0/1", "cifar10": "CIFAR-10 planes/cars", "digits": "digits 0/1"}
_DARK = ("#00304d", "#662c00", "#003d2b")  # the prediction, over the curve of the same colour


def plot(config: Config, results: Results) -> "matplotlib.figure.Figure":
    from matplotlib.figure import Figure

    panels = list(_panels(config, results))
    fig = Figure(figsize=(7.2, 0.3 + 2.9 * len(panels)))
    axes = fig.subplots(len(panels), 2, squeeze=False)
    for row, panel in zip(axes, panels, strict=True):
        _plot_curves(row[0], panel, config)
        _plot_spectrum(row[1], panel)
    return fig


def _plot_curves(ax: "matplotlib.axes.Axes", panel: dict[str, Any], config: Config) -> None:
    for kind, color, dark in zip(LABELS, COLORS, _DARK, strict=False):
        table = panel[kind].table
        start = table["residual"][0] ** 2
        step = np.maximum(table["step"], 0.5)  # the start, on a logarithmic axis
        ax.plot(step, table["residual"] ** 2 / start, color=color, ls="-", label=f"{kind} labels")
        ax.plot(step, table["predicted"] ** 2 / start, color=dark, ls=":", lw=1.5)
    ax.plot([], [], color="black", ls=":", lw=1.5, label="predicted")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="step (the start at 1/2)",
        ylabel="training loss / initial loss",
    )
    ax.set_title(f"{_SHOWN[panel['problem'].dataset]}, n = {config.n}, m = {config.network.width}")
    ax.legend(loc="lower left")


def _plot_spectrum(ax: "matplotlib.axes.Axes", panel: dict[str, Any]) -> None:
    table = panel["spectrum"].table
    # About a thousand dots, evenly spread over the logarithmic axis; the last, the worst, is one.
    n = len(table["index"])
    shown = np.unique(np.geomspace(1, n, 1500).round().astype(int)) - 1
    for kind, color, marker in zip(LABELS, COLORS, "o^s", strict=False):
        size = np.abs(table[f"projection_{kind}"])[shown]
        ax.plot(
            table["index"][shown],
            np.maximum(size, 1e-6),
            color=color,
            marker=marker,
            ls="none",
            ms=2.5,
            alpha=0.6,
            markeredgewidth=0,
            rasterized=True,
            label=f"|projection|, {kind}",
        )
    ax.plot(table["index"], table["eigenvalue"], color="black", ls="-", label="eigenvalue")
    ax.set(xscale="log", yscale="log", xlabel="index", ylabel="eigenvalue, |projection|")
    ax.set_ylim(bottom=1e-5)
    ax.set_title("spectrum of H-infinity and labels on it")
    ax.legend(loc="lower left", markerscale=2)


EXPERIMENT = Experiment(
    name=NAME,
    title="Training speed of true, random and worst labels, with the curve theory predicts",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(("digits",), 60, Network(4096, "antisymmetric", 1.0, None, 30)),
            about="digits, n = 60, m = 4096, 30 steps",
            takes="seconds",
        ),
        "quick": Preset(
            Config(
                ("mnist", "cifar10"),
                200,
                Network(8000, "antisymmetric", 1.0, None, 1000),
                fallback="digits",
            ),
            about="what data is there, n = 200, m = 8000, lazy initialisation, 1000 steps",
            takes="under a minute on two cores",
        ),
        "lazy": Preset(
            Config(("mnist", "cifar10"), 10_000, Network(10_000, "antisymmetric", 1.0, 1e-3, 5000)),
            about="the paper's sizes, but a lazy initialisation: antisymmetric, kappa = 1",
            takes="about 3 minutes on one H200 GPU, days on two cores",
        ),
        "paper": Preset(
            Config(
                ("mnist", "cifar10"),
                10_000,
                Network(10_000, "gaussian", 1e-2, 1e-3, 5000),
                overlay="refuted",
            ),
            about="MNIST and CIFAR-10, n = m = 10000, the paper's initialisation, 5000 steps",
            takes="about 3 minutes on one H200 GPU, days on two cores",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
    notes=notes,
)
