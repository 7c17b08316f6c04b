# SPDX-License-Identifier: Apache-2.0
"""The tables that the cells of every figure give, without computing them.

What a column holds follows from the cell's configuration (its keys), or is measured. Tables made up
from these layouts let the claims and the plot of every preset be tried, the paper's own sizes too.
`test_presets.py` holds the layouts against the tables of the smoke presets.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from unlazy.experiments import Cell, CellResult
from unlazy.papers.allenzhu_li2019.figures.certificates import config as certificates
from unlazy.papers.allenzhu_li2019.figures.figure2 import config as resnet_figure2
from unlazy.papers.allenzhu_li2019.figures.figure3 import config as resnet_figure3
from unlazy.papers.allenzhu_li2019.figures.figure4 import config as figure4
from unlazy.papers.allenzhu_li2019.figures.linear_models import LIMITS
from unlazy.papers.allenzhu_li2019.figures.theorem1 import config as resnet_theorem1
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.config import Point
from unlazy.papers.allenzhu_li_liang2019.figures.figure3 import config as penalty_figure
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples import config as width_figure
from unlazy.papers.arora2019.figures.figure1 import config as speed_figure
from unlazy.papers.arora2019.figures.figure2 import config as label_figure
from unlazy.papers.bai_lee2020.figures.coupling import config as coupling
from unlazy.papers.bai_lee2020.figures.extraction import config as extraction
from unlazy.papers.bai_lee2020.figures.landscape import config as landscape
from unlazy.papers.bai_lee2020.figures.sample_complexity import config as sample_complexity
from unlazy.papers.nichani2022.figures.appendix_g import config as appendix_g
from unlazy.papers.nichani2022.figures.appendix_g.authors import config as authors_code
from unlazy.papers.nichani2022.figures.figure1 import config as penalties
from unlazy.papers.nichani2022.figures.figure2 import config as samples_figure
from unlazy.papers.nichani2022.figures.theorem1 import config as theorem1

Draw = Callable[[tuple[int, ...]], np.ndarray]


class Layout(NamedTuple):
    """The columns and arrays of one cell.

    Attributes:
        keys: columns whose values follow from the configuration.
        measured: columns of floats.
        counts: columns of whole numbers that are measured.
        flags: columns of booleans.
        arrays: shapes of the arrays of floats, and of the steps that they belong to.
        flag_arrays: names of the booleans among the arrays.
        open_ended: whether a run may add rows, such as a grid that is extended, or take fewer.
    """

    keys: dict[str, Any]
    measured: tuple[str, ...]
    counts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    arrays: dict[str, tuple[int, ...]] = {}  # noqa: RUF012  # never changed
    flag_arrays: tuple[str, ...] = ()
    open_ended: bool = False


def made_up(cell: Cell, draw: Draw, *, diverged: bool = False) -> CellResult:
    """A result of the cell's layout whose measured numbers are those of `draw(shape)`."""
    layout = layout_of(cell)
    keys = {name: np.asarray(column) for name, column in layout.keys.items()}
    rows = len(next(iter(keys.values())))
    table = keys | {name: draw((rows,)) for name in layout.measured}
    table |= {name: np.ones(rows, np.int64) for name in layout.counts}
    flags = {"diverged": diverged, "arrived": not diverged}
    table |= {name: np.full(rows, flags[name]) for name in layout.flags}
    arrays = {
        name: np.arange(*shape) if name.endswith("step") else draw(shape)
        for name, shape in layout.arrays.items()
    }
    arrays |= {name: np.asarray(flags[name]) for name in layout.flag_arrays}
    return CellResult(table, arrays)


def layout_of(cell: Cell) -> Layout:
    """The layout of a cell's table, by the class of its configuration."""
    return _LAYOUTS[type(cell.config)](cell.config, cell.seed)


def _product(**axes: Any) -> dict[str, np.ndarray]:
    """Columns that run through all combinations, the last axis fastest."""
    rows = list(itertools.product(*axes.values()))
    return {
        name: np.array(column) for name, column in zip(axes, zip(*rows, strict=True), strict=True)
    }


def _steps(last: int, every: int) -> np.ndarray:
    """The recorded steps of a training that ends where it was planned to."""
    return np.append(np.arange(0, last, every), last)


def _lanes(solvers: list[str], rates, decays, seeds, **further: Any) -> Layout:
    """A grid of trainings: a row per lane."""
    keys = _product(solver=solvers, learning_rate=rates, weight_decay=decays, seed=seeds, **further)
    keys["extension"] = np.zeros(len(keys["seed"]), int)
    return Layout(
        keys,
        ("train", "validation", "test", "diverged_epoch"),
        flags=("diverged",),
        open_ended=True,
    )


# --- Arora et al. 2019 -----------------------------------------------------------------------


def _spectrum(config, seed: int) -> Layout:
    projections = tuple(f"projection_{kind}" for kind in speed_figure.LABELS)
    keys = {"index": np.arange(1, config.problem.n + 1)}
    return Layout(keys, ("eigenvalue", *projections), arrays={"label_complexity": (3,)})


def _speed_training(config, seed: int) -> Layout:
    scalars = ("label_norm", "learning_rate", "movement", "movement_predicted", "flips", "rho")
    return Layout(
        {"step": np.arange(config.network.steps + 1)},
        ("residual", "predicted"),
        arrays=dict.fromkeys(scalars, ()),
        flag_arrays=("diverged",),
        open_ended=True,
    )


def _infinite_width(config, seed: int) -> Layout:
    keys = {"fraction": np.array(config.fractions)}
    return Layout(keys, ("measure", "l1", "error"), arrays={"label_complexity": ()})


def _label_training(config, seed: int) -> Layout:
    keys = {"fraction": np.array([config.fraction])}
    return Layout(keys, ("l1", "error", "train_mse"), flag_arrays=("diverged",))


# --- Bai & Lee 2020 --------------------------------------------------------------------------

_PARTS = (
    *("f_L_free", "f_L_plain", "f_L_signs", "f_Q", "f_Q_free", "gap_signs", "rest_plain"),
    *("rest_signs", "rest_signs_mean", "rest_signs_spread", "f_L_signs_expected"),
    *("f_L_over_bound", "rest_over_bound"),
)


def _parts(config, seed: int) -> Layout:
    return Layout({"width": np.array(config.widths)}, _PARTS)


def _signed(config, seed: int) -> Layout:
    sets = itertools.product(
        ("risk", "risk_Q", "f_Q", "gap", "error", "error_Q"), ("train", "test")
    )
    steps = (len(_steps(config.steps, 10)),)
    return Layout(
        {"width": np.array([config.width])},
        ("norm", *(f"{name}_{part}" for name, part in sets)),
        arrays={"step": steps, "loss": steps},
        flag_arrays=("diverged",),
    )


def _extraction(config, seed: int) -> Layout:
    k = config.order
    measured = [f"f{j}" for j in range(1, k + 2)]
    if config.form == "block":
        measured = [f"f{k}", "rest", "f", "lower"]
    return Layout({"width": np.array(config.widths)}, tuple(measured))


def _descents(config, seed: int) -> Layout:
    runs = config.kicked + config.random
    measured = ("loss", "norm", "gradient", "curvature", "curvature_error")
    scalars = (
        *("start_curvature", "radius", "by_hand", "by_hand_scale", "bound", "least_bound"),
        *("slack", "dense_curvature", "lanczos_curvature"),
    )
    curves = dict.fromkeys(("step", "loss", "plain_step", "plain_loss"), (7,))
    shapes: dict[str, tuple[int, ...]] = {**dict.fromkeys(scalars, ()), **curves}
    return Layout(
        {"random": np.arange(runs) >= config.kicked},
        measured,
        counts=("steps", "kicks"),
        flags=("arrived",),
        arrays=shapes,
        open_ended=True,
    )


def _task(config, seed: int) -> Layout:
    rows = [(method, n) for method in config.methods for n in config.sizes(method)]
    method, n = zip(*rows, strict=True)
    return Layout({"method": np.array(method), "n": np.array(n)}, ("score", "valid", "choice"))


# --- Nichani, Bai & Lee 2022 -----------------------------------------------------------------


def _strengths(config, seed: int) -> Layout:
    steps = _steps(config.steps, config.record_every)
    trials = range(seed, seed + config.trials)
    return Layout(_product(seed=trials, lam3=config.strengths, step=steps), ("train", "test", "r3"))


def _all_penalties(config, seed: int) -> Layout:
    steps = _steps(config.steps, config.record_every)
    keys = _product(seed=range(seed, seed + config.trials), penalised=(0, 1), step=steps)
    return Layout(keys, ("train", "test", "r1", "r2", "r3", "r4", "risk"))


def _sample_sizes(config, seed: int) -> Layout:
    rows = [("network", s, n) for s in range(config.seeds) for n in config.sizes]
    rows += [("kernel", s, n) for s in range(config.seeds) for n in config.kernel_sizes]
    columns = (np.array(column) for column in zip(*rows, strict=True))
    return Layout(dict(zip(("method", "seed", "n"), columns, strict=True)), ("train", "test"))


def _sample_sizes_until_reached(config, seed: int) -> Layout:
    keys = _product(seed=range(config.seeds), n=config.sizes)
    keys["method"] = np.full(len(keys["n"]), "network")
    return Layout(keys, ("train", "test"), open_ended=True)


def _fresh_penalties(config, seed: int) -> Layout:
    steps = _steps(config.steps, config.record_every)
    trials = range(seed, seed + config.trials)
    keys = _product(seed=trials, lam1=config.strengths, step=steps)
    return Layout(keys, ("train", "test", "r3"))


def _image_course(config, seed: int) -> Layout:
    epochs = _steps(config.epochs, config.record_every)
    keys = _product(epoch=epochs, evaluated=config.evaluated)
    return Layout(keys, ("train", "test", "accuracy"), open_ended=True)


def _baselines(config, seed: int) -> Layout:
    trials = range(seed, seed + config.trials)
    keys = _product(seed=trials, setting=list(appendix_g.SETTINGS))
    return Layout(keys, ("train", "test", "r1", "r3"))


def _courses(config, seed: int) -> Layout:
    steps = _steps(config.steps, config.record_every)
    keys = _product(order=(0, 1, 2), step=steps, seed=range(seed, seed + config.seeds))
    return Layout(keys, ("train", "test", "gap"))


# --- Allen-Zhu, Li & Liang 2019; Allen-Zhu & Li 2019 -----------------------------------------


def _point(config: Point, seed: int) -> Layout:
    seeds = range(seed, seed + config.seeds)
    layout = _lanes(["sgd"], config.grid.rates, config.grid.decays, seeds)
    return layout._replace(arrays={"energy": (config.seeds,)})


def _penalty(config, seed: int) -> Layout:
    axes = (config.rates, config.decays, range(seed, seed + config.seeds))
    layout = _lanes([""], *axes, strength=config.strengths)
    del layout.keys["solver"]
    spread = ("spread", "spread_moved", "norm", "moved")
    return layout._replace(measured=(*layout.measured, *spread))


def _resnet_training(config, seed: int) -> Layout:
    seeds = range(seed, seed + config.seeds)
    solvers = ["sgd"] if config.method not in resnet_figure2.KERNELS else ["sgd", "ridge"]
    if config.grid is None:
        return _lanes(["ridge"], (np.nan,), (0.1,), seeds)
    return _lanes(solvers, config.grid.rates, config.grid.decays, seeds)


def _coupled_outputs(config, seed: int) -> Layout:
    layout = _lanes(["coupled"], (np.nan,), (0.1,), range(seed, seed + config.seeds))
    return layout._replace(measured=(*layout.measured, "residual"))


def _limits(config, seed: int) -> Layout:
    layout = _lanes(list(LIMITS), (np.nan,), (0.1,), range(seed, seed + config.seeds))
    return layout._replace(arrays={"captured": (config.seeds,), "energy": (config.seeds,)})


def _betas(config, seed: int) -> Layout:
    seeds = range(seed, seed + config.seeds)
    layout = _lanes([""], config.grid.rates, config.grid.decays, seeds, beta=config.betas)
    del layout.keys["solver"]
    return layout._replace(arrays={"kernel": (len(config.betas), config.seeds)})


def _parity_training(config, seed: int) -> Layout:
    rates = config.rates if isinstance(config, figure4.Training) else (config.rate,)
    layout = _lanes([""], rates, config.decays, (0,))
    for name in ("solver", "extension"):
        del layout.keys[name]
    return layout._replace(measured=("train", "test", "norm", "diverged_epoch"))


def _width_sweep(config, seed: int) -> Layout:
    return Layout({"n": np.array(config.sizes)}, ("train", "test"), arrays={"zero": ()})


def _certified(config, seed: int) -> Layout:
    measured = ("fraction_bad", "min_ratio", "good", "captured", "gap", "excess")
    return Layout({"n": np.array(config.sizes)}, measured)


def _one_pass(config, seed: int) -> Layout:
    return Layout({"step": np.arange(config.rows + 1) * (config.steps // config.rows)}, ("risk",))


def _remark(config, seed: int) -> Layout:
    return Layout({"n": np.array(config.sizes)}, ("exact", "averaged", "difference"))


_LAYOUTS: dict[type, Callable[[Any, int], Layout]] = {
    speed_figure.Spectrum: _spectrum,
    speed_figure.Training: _speed_training,
    label_figure.InfiniteWidth: _infinite_width,
    label_figure.Trained: _label_training,
    coupling.Parts: _parts,
    coupling.Trained: _signed,
    extraction.Extraction: _extraction,
    landscape.Descents: _descents,
    sample_complexity.Task: _task,
    penalties.Descents: _strengths,
    samples_figure.Sweep: _sample_sizes,
    samples_figure.AuthorsSweep: _sample_sizes_until_reached,
    theorem1.Descents: _all_penalties,
    appendix_g.Baselines: _baselines,
    authors_code.FreshPenalties: _fresh_penalties,
    authors_code.ImageCourse: _image_course,
    appendix_g.Courses: _courses,
    Point: _point,
    penalty_figure.Training: _penalty,
    width_figure.Sweep: _width_sweep,
    resnet_figure2.Training: _resnet_training,
    resnet_figure2.Coupled: _coupled_outputs,
    resnet_figure2.FanInTraining: _resnet_training,
    resnet_figure2.FanInCoupled: _coupled_outputs,
    resnet_figure2.Limits: _limits,
    resnet_figure3.Sweep: _betas,
    figure4.Training: _parity_training,
    figure4.HandBuilt: _parity_training,
    certificates.Sweep: _certified,
    resnet_theorem1.Training: _one_pass,
    certificates.Remark: _remark,
}
