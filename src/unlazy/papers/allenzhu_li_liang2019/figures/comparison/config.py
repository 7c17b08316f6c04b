# SPDX-License-Identifier: Apache-2.0
"""The configurations and cells of Figures 1 and 2."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unlazy.experiments import Cell
from unlazy.papers.allenzhu_li_liang2019.figures.learners import KERNELS, METHODS
from unlazy.papers.shared.grids.lattice import between, run_from
from unlazy.papers.shared.grids.tuning import Grid

VERSION = 2  # since 2layer is trained without products on a GPU, in float32 and not TF32
NAMES = {
    "composed-sines": "allenzhu_li_liang2019/figure1",
    "composed-tanhs": "allenzhu_li_liang2019/figure2",
}

# Where a grid of the recorded table begins, in units of 1/m but for (last), which needs no scale.
_REDUCED = {
    "3layer": 0.128,
    "2layer": 0.256,
    "3layer(NTK)": 0.256,
    "2layer(NTK)": 0.256,
    "3layer(last)": 0.5,
    "2layer(last)": 0.2,
}


def grid_of(kind: str, method: str, width: int) -> Grid:
    """The grid of a method, about its natural learning rates on the lattice {1, 2, 5} 10^k.

    - "full": all that LG-50 proposes, some 7 rates by 17 decays.
    - "natural": 4 rates about the best found for every large network, by no decay and 1e-5 to 1e-3
      by decades; a smaller decay has no effect.
    - "narrow": these rates by one decay, for the largest three-layer networks: at their best rates
      decays up to 1e-4 shrink weights by a percent or two in all of training.
    - "reduced": 6 rates by 2 decays, of the recorded table.
    - "pair": the two smallest of these rates, never extended.

    Source: LG-50 and LG-51, arXiv:1811.04918 section 7.
    """
    last = "last" in method
    scale = 1.0 if last else 1.0 / width
    if kind == "reduced":
        decays = (1e-7, 1e-5) if last else (1e-5, 1e-4)
        return Grid(run_from(_REDUCED[method] * scale, 6), decays, 1)
    if kind == "pair":
        return Grid(run_from(_REDUCED[method] * scale, 6)[:2], (1e-5,), 0)
    if kind == "narrow":
        return Grid(run_from(scale, 4), (1e-5,), 1)
    if kind == "natural":
        return Grid(run_from(scale, 4), (0.0, 1e-5, 1e-4, 1e-3), 1)
    low, high = (0.05, 5) if last else (0.2, 15) if "NTK" in method else (0.05, 8)
    rates = between(low * scale, high * scale)
    return Grid(rates, (0.0, *between(1e-7, 1e-2)), 2)


@dataclass(frozen=True)
class Size:
    """A place on the axes: width and samples, and the epochs to train for."""

    width: int
    n: int
    epochs: int


@dataclass(frozen=True)
class Point:
    """A cell: the grid of one method at one size, for `seeds` seeds from the cell's own on."""

    target: str
    method: str
    size: Size
    grid: Grid
    seeds: int
    batch_size: int = 50
    n_validation: int = 1000
    n_test: int = 2000


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    target: str
    widths: tuple[Size, ...]  # of the left panel
    samples: tuple[Size, ...]  # of the right panel
    seeds: int
    grid: str  # of all methods, except where `three_layer_grids` has another
    three_layer_grids: tuple[tuple[Size, str], ...] = ()
    n_validation: int = 1000
    n_test: int = 2000
    orders: bool = True  # whether it is large enough for claims that order the methods
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset

    def sizes(self) -> tuple[Size, ...]:
        return tuple(dict.fromkeys((*self.widths, *self.samples)))

    def point(self, method: str, size: Size) -> Point:
        """The cell of a method at a size."""
        kind = self.grid
        if method == "3layer":
            kind = dict(self.three_layer_grids).get(size, kind)
        sets = {"n_validation": self.n_validation, "n_test": self.n_test}
        grid = grid_of(kind, method, size.width)
        return Point(self.target, method, size, grid, self.seeds, **sets)


def cells(config: Config) -> list[Cell]:
    def of(methods: Sequence[str]) -> Iterator[Cell]:
        for size in config.sizes():
            for method in methods:
                label = f"{method}, m = {size.width}, N = {size.n}, {config.seeds} seeds"
                yield Cell(NAMES[config.target], VERSION, config.point(method, size), 0, label)

    networks = [method for method in METHODS if method not in KERNELS]
    # Ridge regression on the most samples takes longest, and beside it others can be trained.
    kernels = sorted(of(KERNELS), key=lambda cell: -cell.config.size.n)
    return [*of(networks), *kernels]


def notes(config: Config) -> list[str]:
    thin = sorted({(kind, size.width, size.n) for size, kind in config.three_layer_grids})
    if not thin:
        return []
    listed = "; ".join(f"{kind} at m = {width}, N = {n}" for kind, width, n in thin)
    return [f"the grid of 3layer is thinner where the network is large: {listed}."]
