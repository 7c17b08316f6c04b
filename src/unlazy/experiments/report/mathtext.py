# SPDX-License-Identifier: Apache-2.0
"""Formulas in the labels of a figure as plain text, for pages that have no TeX."""

import re

_NAMES = {
    **{"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η"},
    **{"kappa": "κ", "lambda": "λ", "mu": "μ", "rho": "ρ", "sigma": "σ", "theta": "θ", "tau": "τ"},
    **{"infty": "∞", "pm": "±", "cdot": "·", "times": "×", "leq": "≤", "geq": "≥", "approx": "≈"},
    **{"sqrt": "√", "sum": "Σ", "top": "ᵀ"},
}
_SIGNS = {r"\|": "‖", r"\,": " ", r"\ ": " ", r"\;": " ", r"\{": "{", r"\}": "}", r"\!": ""}
_RAISED = str.maketrans("0123456789+-n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ")
_LOWERED = str.maketrans("0123456789+-", "₀₁₂₃₄₅₆₇₈₉₊₋")


def plain(text: str) -> str:
    r"""The text, with each formula between dollar signs as people would type it.

    Example:
        >>> plain(r"risk / $\alpha^2$"), plain(r"$m^{3/2}$ and $W - W_0$")
        ('risk / α²', 'm^(3/2) and W - W₀')
    """
    parts = text.split("$")
    if len(parts) % 2 == 0:  # an odd number of dollar signs: no formula
        return text
    parts[1::2] = (_formula(part) for part in parts[1::2])
    return "".join(parts)


def _formula(text: str) -> str:
    text = re.sub(r"\\(?:mathrm|mathbf|text|operatorname)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\^(?:\{([^{}]*)\}|(\w))", lambda m: _script(m, "^", _RAISED), text)
    text = re.sub(r"_(?:\{([^{}]*)\}|(\w))", lambda m: _script(m, "_", _LOWERED), text)
    # Names such as sin stand for themselves.
    text = re.sub(r"\\([A-Za-z]+)( ?)", lambda m: _NAMES.get(m[1], m[1] + m[2]), text)
    text = re.sub(r"√\{([^{}]*)\}", r"√\1", text)
    for sign, shown in _SIGNS.items():
        text = text.replace(sign, shown)
    return re.sub(r"  +", " ", text)


def _script(match: re.Match[str], mark: str, small: dict[int, int]) -> str:
    """A raised or lowered part: in small characters if all of it has some."""
    inside = match[1] if match[1] is not None else match[2]
    if inside and all(ord(character) in small for character in inside):
        return inside.translate(small)
    plain_already = re.fullmatch(r"\\?\w+|\([^()]*\)", inside)
    return f"{mark}{inside}" if plain_already else f"{mark}({inside})"
