# SPDX-License-Identifier: Apache-2.0
"""The result of the width check from its runs: what was fitted, and what it means in words."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from unlazy.laziness.width.exponents import (
    DIVERGED,
    FLAT,
    GROWS,
    LAZY,
    MOVES,
    STANDS,
    STILL,
    Exponent,
    exponent,
    in_words,
    rounded,
)
from unlazy.laziness.width.result import WidthCheck
from unlazy.laziness.width.runs import Run

_FUNCTION_STANDS = "trains ever less"


class _Fit(NamedTuple):
    """The exponents of one layer."""

    absolute: Exponent
    relative: Exponent
    start: Exponent

    @property
    def judged(self) -> Exponent:
        """The exponent that the verdict is about: the relative one where features start to grow.

        A factor 1/sqrt(m) that a module applies to a layer's output, outside of that layer, is not
        seen. Its features then start as large as sqrt(m), and only the ratio says how they move.
        """
        return self.relative if self.start.value > FLAT else self.absolute


def width_result(
    runs: list[list[Run]], widths: Int[np.ndarray, " widths"], where: str
) -> WidthCheck:
    """The result of the runs, one list of seeds per width."""
    first, last = runs[0][0], len(runs[0][0].layers) - 1
    movement, start, spread = (
        np.moveaxis(np.array([[getattr(run, name) for run in row] for row in runs]), 2, 0)
        for name in ("movement", "start", "spread")
    )
    loss = np.array([[run.loss for run in row] for row in runs])
    seen = np.concatenate([loss[None], movement])
    finite = np.asarray(np.isfinite(seen).all(axis=(0, -1)))
    hidden = np.array([a < b for a, b in zip(first.units, runs[-1][0].units, strict=True)])
    hidden[last] = False
    fits = [_fitted(widths, movement[k, ..., -1], start[k], finite) for k in range(last + 1)]
    verdicts = [_verdict(finite, fit.judged, is_output=k == last) for k, fit in enumerate(fits)]
    return WidthCheck(
        layers=first.layers,
        hidden=hidden,
        widths=widths,
        movement=movement,
        start=start,
        spread=spread,
        loss=loss,
        diverged=~finite,
        exponents=np.array([fit.absolute.value for fit in fits]),
        standard_errors=np.array([fit.absolute.error for fit in fits]),
        relative_exponents=np.array([fit.relative.value for fit in fits]),
        start_exponents=np.array([fit.start.value for fit in fits]),
        verdicts=tuple(verdicts),
        verdict=_overall(first.layers, hidden, verdicts, fits),
        notes=tuple(_notes(first, hidden, widths, ~finite, loss, fits)),
        where=where,
    )


def _fitted(
    widths: Int[np.ndarray, " w"],
    moved: Float[np.ndarray, "w s"],
    start: Float[np.ndarray, "w s"],
    finite: Bool[np.ndarray, "w s"],
) -> _Fit:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = moved / start  # not finite where a layer starts at 0: left out
    return _Fit(*(exponent(widths, values, finite) for values in (moved, ratio, start)))


def _verdict(
    finite: Bool[np.ndarray, "w s"],
    judged: Exponent,
    *,
    is_output: bool,
) -> str:
    if finite.any(axis=1).sum() < 2:
        return DIVERGED
    if np.isnan(judged.value):
        return STILL
    words = in_words(judged)
    return _FUNCTION_STANDS if is_output and words == STANDS else words


def _overall(
    layers: tuple[str, ...],
    hidden: Bool[np.ndarray, " layers"],
    verdicts: list[str],
    fits: list[_Fit],
) -> str:
    of = {
        word: [layers[k] for k in range(len(layers)) if hidden[k] and verdicts[k] == word]
        for word in {*verdicts}
    }
    count = int(hidden.sum())
    if DIVERGED in verdicts:
        return "Verdict: diverged. Fewer than two widths trained; take a smaller learning rate."
    growing = [*of.get(GROWS, []), *(layers[-1:] if verdicts[-1] == GROWS else ())]
    if growing:
        return f"Verdict: unstable. With the width grows the movement of {', '.join(growing)}."
    if count == 0:
        return "Verdict: none. No layer was found whose number of units grows with the width."
    if verdicts[-1] in (_FUNCTION_STANDS, STILL):
        return (
            "Verdict: none. The function itself moves less and less with the width: let the "
            "learning rate grow with the width, then look at the features."
        )
    values = [fits[k].judged.value for k in range(len(layers)) if hidden[k]]
    ends = sorted({rounded(min(values)), rounded(max(values))}, key=float)
    span = " to ".join(f"width^{end}" for end in ends)
    if len(of.get(STANDS, [])) == count:
        return f"Verdict: lazy in the limit. Features move like {span}: not at all when very wide."
    if len(of.get(MOVES, [])) == count:
        return f"Verdict: features move at every width, like {span}. It does not become lazy."
    parts = [f"{', '.join(names)}: {word}" for word, names in sorted(of.items()) if names]
    return f"Verdict: mixed. {'; '.join(parts)}."


def _notes(
    first: Run,
    hidden: Bool[np.ndarray, " layers"],
    widths: Int[np.ndarray, " widths"],
    diverged: Bool[np.ndarray, "w s"],
    loss: Float[np.ndarray, "w s t"],
    fits: list[_Fit],
) -> list[str]:
    notes = [f"{LAZY} and below counts as lazy, {-FLAT} to {FLAT} as moving, between as neither."]
    for width, bad in zip(widths, diverged.sum(axis=1), strict=True):
        if bad:
            notes.append(f"{bad} of {diverged.shape[1]} runs at width {width} diverged: left out.")
    rose = [
        str(w) for w, row in zip(widths, loss[..., -1] > loss[..., 0], strict=True) if row.any()
    ]
    if rose:
        notes.append(f"the loss rose at width {', '.join(rose)}: take a smaller learning rate.")
    for name, is_hidden, fit in zip(first.layers, hidden, fits, strict=True):
        if is_hidden and fit.start.value > FLAT:
            notes.append(
                f"{name} starts like width^{fit.start.value:.2f}, perhaps for a factor after it "
                "that was not seen: its verdict is on the relative exponent."
            )
    if first.missing:
        notes.append(f"not seen, as used in other ways than products: {', '.join(first.missing)}.")
    return notes
