# SPDX-License-Identifier: Apache-2.0
import pytest

from unlazy.experiments.report.mathtext import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no formula, 3 < 4", "no formula, 3 < 4"),
        ("costs 3$", "costs 3$"),  # one dollar sign is no formula
        (r"$\beta = \alpha$", "β= α"),
        (r"$\|W\|_{2,4}^4$", "‖W‖_(2,4)⁴"),
        (r"$\lambda_{\min} \sqrt{m}$", "λ_min √m"),
        (r"$E\|H - \mathrm{out}\|^2$", "E‖H - out‖²"),
        (r"$\{\pm1/\sqrt{d}\}^d$", "{±1/√d}^d"),
        (r"$f^{(2)}$", "f^(2)"),
        (r"$\sin 3x_1$ and $f_L$", "sin 3x₁ and f_L"),
    ],
)
def test_formulas_become_plain_text(text, shown):
    assert plain(text) == shown
