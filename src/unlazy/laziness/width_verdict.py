# SPDX-License-Identifier: Apache-2.0
"""The result of the width check from its runs: what was fitted, and what it means in words."""

import numpy as np
from jaxtyping import Bool, Float, Int

from unlazy.laziness.width_exponents import (
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
)
from unlazy.laziness.width_result import WidthCheck
from unlazy.laziness.width_runs import Run

_FUNCTION_STANDS = "trains ever less"


def width_result(runs: list[list[Run]], widths: Int[np.ndarray, " widths"], where: str):
    """The result of the runs, one list of seeds per width."""
    first = runs[0][0]
    movement, start, spread = (
        np.moveaxis(np.array([[getattr(run, name) for run in row] for row in runs]), 2, 0)
        for name in ("movement", "start", "spread")
    )
    loss = np.array([[run.loss for run in row] for row in runs])
    finite = np.isfinite(loss).all(axis=-1) & np.isfinite(movement).all(axis=(0, -1))
    units = np.array([row[0].units for row in runs]).T
    hidden = (units[:, 0] < units[:, -1]) & (np.arange(len(first.layers)) < len(first.layers) - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = movement[..., -1]
        fits = [
            [exponent(widths, values, finite) for values in (moved[k], moved[k] / start[k])]
            for k in range(len(first.layers))
        ]
    starts = [exponent(widths, values, finite) for values in start]
    judged = [_judged(*pair, size) for pair, size in zip(fits, starts, strict=True)]
    verdicts = [
        _verdict(finite, judged[k], is_output=k == len(first.layers) - 1)
        for k in range(len(first.layers))
    ]
    return WidthCheck(
        layers=first.layers,
        hidden=hidden,
        widths=widths,
        movement=movement,
        start=start,
        spread=spread,
        loss=loss,
        diverged=~finite,
        exponents=np.array([pair[0].value for pair in fits]),
        standard_errors=np.array([pair[0].error for pair in fits]),
        relative_exponents=np.array([pair[1].value for pair in fits]),
        start_exponents=np.array([one.value for one in starts]),
        verdicts=tuple(verdicts),
        verdict=_overall(first.layers, hidden, verdicts, judged),
        notes=tuple(_notes(first, hidden, widths, ~finite, loss, starts)),
        where=where,
    )


def _judged(absolute: Exponent, relative: Exponent, start: Exponent) -> Exponent:
    """The exponent that the verdict is about: the relative one where features start to grow.

    A factor 1/sqrt(m) that a module applies to a layer's output, outside of that layer, is not
    seen. Its features then start as large as sqrt(m), and only the ratio says how they move.
    """
    return relative if start.value > FLAT else absolute


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
    judged: list[Exponent],
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
    values = [judged[k].value for k in range(len(layers)) if hidden[k]]
    span = f"width^{min(values):.2f}" + (f" to width^{max(values):.2f}" if count > 1 else "")
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
    starts: list[Exponent],
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
    for name, is_hidden, one in zip(first.layers, hidden, starts, strict=True):
        if is_hidden and one.value > FLAT:
            notes.append(
                f"{name} starts like width^{one.value:.2f}, perhaps for a factor after it that "
                "was not seen: its verdict is on the relative exponent."
            )
    if first.missing:
        notes.append(f"not seen, as used in other ways than products: {', '.join(first.missing)}.")
    return notes
