# SPDX-License-Identifier: Apache-2.0
"""What the paper says of Figure 3, and what was recorded of it, as numbers."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from unlazy.experiments import Claim, Results, with_record
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.config import PENALTIES, Config
from unlazy.papers.shared.grids.tuning import best_values, merge, shown

# One seed, 100 epochs, 4 to 6 lanes, no decay at all on the second layer under "norm".
_RECORDED = {
    ("decay", "test"): {32: 1.50, 64: 0.84, 128: 0.62},
    ("norm", "test"): {32: 1.75, 64: 0.91, 128: 0.64},
    ("decay", "spread"): {32: 2.06, 64: 3.16, 128: 3.94},
    ("norm", "spread"): {32: 1.46, 64: 1.93, 128: 2.92},
}
_SAID = {"test": "test errors", "spread": "spread ratios of W"}
_FACTOR = 1.5


class Curves:
    """The best lanes, by width and seed."""

    def __init__(self, config: Config, results: Results) -> None:
        self.config, self.widths = config, config.widths()
        self._found = {(cell.config, cell.seed): result for cell, result in results.items()}

    def of(
        self, penalty: str, column: str, *, by: str = "test"
    ) -> Float[np.ndarray, "widths seeds"]:
        """A column of the best lanes by the set `by`; inf where all diverged."""
        rows, seeds = [], range(self.config.seeds)
        for training in self.config.trainings:
            if training.penalty == penalty:
                cells = self.config.cells_of(training)
                table = merge([self._found[cell].table for cell in cells])
                rows.append(best_values(table, seeds, by=by, of=column))
        return np.array(rows)


def claims(config: Config, results: Results) -> list[Claim]:
    curves = Curves(config, results)
    with np.errstate(invalid="ignore"):  # nan where all lanes diverged, which refutes
        listed = [*_errors(curves), *_spreads(curves), *_recorded(curves)]
    return with_record(listed, config.refuted)


def _errors(curves: Curves) -> Iterator[Claim]:
    errors = {name: curves.of(name, "test").mean(axis=1) for name in PENALTIES}
    said = "Weight decay and the penalty on the (2,4) norm test alike: largest difference of mean "
    said += "errors over the former"
    measured = float(np.max(np.abs(errors["norm"] / errors["decay"] - 1)))
    note = f"decay {shown(errors['decay'])}; norm {shown(errors['norm'])}"
    yield Claim("LG-53/error", said, measured, "<", 0.25, note=note)
    honest = {name: curves.of(name, "test", by="validation").mean(axis=1) for name in errors}
    said = "Tuned on a validation set, neither is more than a tenth worse: largest ratio of errors"
    measured = float(max(np.max(honest[name] / errors[name]) for name in errors))
    yield Claim("LG-53/selection", said, measured, "<=", 1.1)


def _spreads(curves: Curves) -> Iterator[Claim]:
    spread = {name: curves.of(name, "spread") for name in PENALTIES}
    means = {name: values.mean(axis=1) for name, values in spread.items()}
    ratio, sizes = means["norm"] / means["decay"], np.array(curves.widths)
    yield Claim(
        "LG-53/far",
        "The norm of W is spread over the neurons: largest ratio, of all widths and seeds, over m",
        float(max(np.max(values / sizes[:, None]) for values in spread.values())),
        "<",
        0.125,
        note=f"decay {shown(means['decay'])}; norm {shown(means['norm'])}",
    )
    said = "The penalty leaves W no less spread than weight decay: geometric mean over widths of "
    said += "its ratio over that of decay"
    note = f"by width {shown(ratio)}; recorded .71, .61, .74, one seed"
    yield Claim("LG-53/smaller", said, float(np.exp(np.mean(np.log(ratio)))), "<=", 1.0, note=note)
    said = "The same, within a tenth, at every width: largest ratio"
    yield Claim("LG-53/smaller-widths", said, float(np.max(ratio)), "<=", 1.1)
    said = "Both ratios are of one order: largest of decay over norm"
    yield Claim("LG-53/order", said, float(np.max(means["decay"] / means["norm"])), "<=", 3.0)
    moved = {name: curves.of(name, "spread_moved").mean(axis=1) for name in spread}
    said = "The movement W - W0 is spread as well: largest ratio over m"
    measured = float(max(np.max(values / sizes) for values in moved.values()))
    note = f"decay {shown(moved['decay'])}; norm {shown(moved['norm'])}"
    yield Claim("LG-53/moved", said, measured, "<", 0.125, note=note)


def _recorded(curves: Curves) -> Iterator[Claim]:
    for (penalty, column), known in _RECORDED.items():
        places = [i for i, width in enumerate(curves.widths) if width in known]
        if not places or curves.config.trainings[0].n != 1000:
            continue
        ours = curves.of(penalty, column).mean(axis=1)[places]
        values = np.array([known[curves.widths[i]] for i in places])
        said = f"The {_SAID[column]} under '{penalty}' are on record, from one seed: largest factor"
        measured = float(np.max(np.maximum(ours / values, values / ours)))
        note = f"recorded {shown(values)}; ours {shown(ours)}"
        yield Claim(f"LG-53/recorded-{penalty}-{column}", said, measured, "<=", _FACTOR, note=note)
