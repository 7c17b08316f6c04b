# SPDX-License-Identifier: Apache-2.0
"""What a grid of training runs returns."""

from typing import Any, Literal

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from unlazy.core.checks import check_count, check_name
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.summaries import counted, parameters_in_words

Side = Literal["low", "high"]
Preferred = Literal["smallest", "largest"]
"""Which value of a metric is the best."""


class BestLane(eqx.Module):
    """The lane that a rule chose."""

    rule: str  # in words
    lane: int  # its row in the table
    learning_rate: float
    weight_decay: float
    seed: int
    values: dict[str, float]  # at the end, on every set
    params: Any  # None where they were not kept

    def __repr__(self) -> str:
        """In three lines: the rule, the lane and its values, the model's size."""
        values = ", ".join(f"{name} {value:.4g}" for name, value in self.values.items())
        kept = "not kept" if self.params is None else parameters_in_words(self.params)
        return (
            f"BestLane({self.rule}:\n  learning rate {self.learning_rate:g}, weight decay "
            f"{self.weight_decay:g}, seed {self.seed}, lane {self.lane}\n  {values}; params "
            f"{kept})"
        )


class GridResult(eqx.Module):
    """A grid of training runs: learning rates by weight decays by seeds.

    Arrays over lanes have these three axes in this order; lanes are numbered along them, the last
    axis fastest. A lane whose loss or parameters are no longer finite has diverged: its values are
    infinite from there on (minus infinity where the largest metric is the best), and other lanes
    are not affected. A metric that is not finite by itself is no divergence.
    """

    learning_rates: Float[np.ndarray, " l"]
    weight_decays: Float[np.ndarray, " w"]
    seeds: Int[np.ndarray, " s"]
    epochs: int
    times: Int[np.ndarray, " t"]  # epochs after which the sets were evaluated
    loss: Float[np.ndarray, "l w s epochs"]  # mean of the batches' losses, on the way
    curves: dict[str, Float[np.ndarray, "l w s t"]]  # the metric on every set, "train" among them
    diverged_epoch: Float[np.ndarray, "l w s"]  # from 1 on; nan where it did not diverge
    kept: dict[int, Any]  # parameters at the end, by lane
    preferred: Preferred = "smallest"  # which metric is the best

    def __repr__(self) -> str:
        """In one line: how many lanes, and how many of them diverged."""
        names = ("learning rate", "weight decay", "seed")
        grid = " x ".join(map(counted, self.diverged_epoch.shape, names))
        bad = int(np.sum(self.diverged))
        told = "all" if bad == self.lanes else bad or "none"
        return (
            f"GridResult({counted(self.lanes, 'lane')} of {counted(self.epochs, 'epoch')}, "
            f"{told} diverged: {grid}; evaluated on {', '.join(self.curves)})"
        )

    @property
    def lanes(self) -> int:
        """How many runs."""
        return self.diverged_epoch.size

    @property
    def diverged(self) -> Bool[np.ndarray, "l w s"]:
        """Which lanes diverged."""
        return ~np.isnan(self.diverged_epoch)

    @entry
    def final(self, name: str) -> Float[np.ndarray, "l w s"]:
        """The metric on a set at the end; infinite where the lane diverged.

        For a choice by the mean over seeds, take the mean over the last axis.
        """
        check_name(name, self.curves, "name")
        return self.curves[name][..., -1]

    def table(self) -> dict[str, np.ndarray]:
        """One row per lane: settings, the metric at the end on every set, and if it diverged."""
        lr, wd, seed = np.meshgrid(
            self.learning_rates, self.weight_decays, self.seeds, indexing="ij"
        )
        columns = {"learning_rate": lr, "weight_decay": wd, "seed": seed}
        columns |= {name: self.final(name) for name in self.curves}
        columns |= {"diverged": self.diverged, "diverged_epoch": self.diverged_epoch}
        return {name: values.ravel() for name, values in columns.items()}

    @entry
    def best(self, by: str | None = None, *, replicate: int | None = None) -> BestLane:
        """The lane with the best metric at the end on the set `by`: the smallest, or the largest.

        A choice by the test set reports the best test error of the grid, as many papers do, which
        is smaller than the error on an unseen set; a choice by a validation set has no such bias.
        `values` has both.

        Args:
            by: name of an evaluation set or "train"; the first evaluation set if None.
            replicate: choose among the lanes of the seed at this index; among all if None.

        Raises:
            ValueError: all lanes diverged, or none has a finite metric on that set.
        """
        by = self._rule(by)
        scores = self._scores(by, replicate)
        if not np.isfinite(scores).any():
            chosen = slice(None) if replicate is None else [replicate]
            raise ValueError(self._no_choice(by, self.diverged[..., chosen]))
        place = 0 if replicate is None else replicate
        i, j, k = np.unravel_index(int(np.argmin(costs(scores, self.preferred))), scores.shape)
        k = int(k) + place
        lane = int(np.ravel_multi_index((i, j, k), self.diverged_epoch.shape))
        among = "all seeds" if replicate is None else f"seed {self.seeds[k]}"
        return BestLane(
            rule=(
                f"{self.preferred} {by} after {self.epochs} epochs, among {scores.size} lanes of "
                f"{among}"
            ),
            lane=lane,
            learning_rate=float(self.learning_rates[i]),
            weight_decay=float(self.weight_decays[j]),
            seed=int(self.seeds[k]),
            values={name: float(self.final(name)[i, j, k]) for name in self.curves},
            params=self.kept.get(lane),
        )

    @entry
    def edge(self, by: str | None = None, *, replicate: int | None = None) -> dict[str, Side]:
        """The sides of the grid on which the best lane lies, where the grid should be extended.

        They are "low" or "high" under "learning_rate" and "weight_decay", each left out where the
        best lane lies inside. An axis with one value has no sides, and a weight decay of 0 is the
        natural end of its axis, not a side.

        Raises:
            ValueError: all lanes diverged, or none has a finite metric on that set.
        """
        best = self.best(by, replicate=replicate)
        sides: dict[str, Side] = {}
        axes = {"learning_rate": self.learning_rates, "weight_decay": self.weight_decays}
        for name, values in axes.items():
            value = getattr(best, name)
            if len(values) > 1 and value == values.max():
                sides[name] = "high"
            elif len(values) > 1 and value == values.min() and value > 0:
                sides[name] = "low"
        return sides

    @entry
    def plot(
        self, ax: Axes | None = None, *, by: str | None = None, label: str | None = None
    ) -> Axes:
        """Draw the metric at the end: a map over learning rates and weight decays, or a curve.

        With one weight decay it is a curve over the learning rates: the mean over seeds, in the
        band from the smallest to the largest; crosses on top mark learning rates at which a lane
        diverged. Otherwise the map has a cell for each pair, with the mean over seeds that did not
        diverge and how many did; the cell of the best lane has a frame.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            by: name of an evaluation set or "train"; the first evaluation set if None.
            label: of a curve in the legend; None for the name of the set.

        Example:
            >>> rates, final = np.array([0.1, 1.0]), np.array([[[[3.0]]], [[[2.0]]]])
            >>> once = (np.zeros(1), np.arange(1), 1, np.array([1]))
            >>> alive = np.full((2, 1, 1), np.nan)
            >>> grid = GridResult(rates, *once, final, {"train": final}, alive, {})
            >>> print(grid.plot().get_lines()[0].get_ydata())
            [3. 2.]
        """
        from unlazy.train.grid.map import draw_grid

        return draw_grid(self, ax, self._rule(by), label)

    def _rule(self, by: str | None) -> str:
        if by is None:
            return next((name for name in self.curves if name != "train"), "train")
        check_name(by, self.curves, "by")
        return by

    def _no_choice(self, by: str, diverged: Bool[np.ndarray, "l w k"]) -> str:
        got = f"`best` must have a lane to choose, got {diverged.size} lanes"
        if not diverged.all():
            return (
                f"{got} without a finite metric on {by!r}, though some of them did not diverge. "
                "Choose by another set, or look for huge values in this one."
            )
        return (
            f"{got} that all diverged, the smallest learning rate being "
            f"{self.learning_rates.min():g}. Try smaller ones, and look for huge values in the "
            "data."
        )

    def _scores(self, by: str, replicate: int | None) -> Float[np.ndarray, "l w k"]:
        scores = self.final(by)
        if replicate is None:
            return scores
        check_count(replicate, "replicate", least=0)
        if replicate >= len(self.seeds):
            raise ValueError(
                f"`replicate` must be the place of one of the {len(self.seeds)} seeds, counted "
                f"from 0, got replicate={replicate}."
            )
        return scores[..., replicate : replicate + 1]


def costs(metric: Float[np.ndarray, "..."], preferred: Preferred) -> Float[np.ndarray, "..."]:
    """The metric with its sign turned so that the smallest is the best; what is not finite last."""
    turned = metric if preferred == "smallest" else -metric
    return np.where(np.isfinite(metric), turned, np.inf)
