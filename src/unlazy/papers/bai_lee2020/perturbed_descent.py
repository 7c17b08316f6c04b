# SPDX-License-Identifier: Apache-2.0
"""The constants of perturbed gradient descent for which escape from saddles is proved."""

import math

from unlazy.core.checks import check_count, check_positive
from unlazy.core.entries import entry
from unlazy.train import Perturbation


@entry
def theoretical_perturbation(
    parameters: int,
    smoothness: float,
    hessian_lipschitz: float,
    accuracy: float,
    *,
    gap: float,
    failure: float = 0.1,
    c: float = 1.0,
) -> tuple[float, Perturbation]:
    r"""The learning rate and the perturbation of the theorem; the ones in use are larger.

    With $\chi = 3 \max(\log(N \ell \Delta / (c \varepsilon^2 \delta)), 4)$,

    $$\eta = \frac c\ell, \quad r = \frac{\sqrt c\, \varepsilon}{\chi^2 \ell}, \quad
    g_{th} = \frac{\sqrt c\, \varepsilon}{\chi^2}, \quad
    f_{th} = \frac{c}{\chi^3} \sqrt{\frac{\varepsilon^3}{\rho}}, \quad
    t_{th} = \frac{\chi \ell}{c^2 \sqrt{\rho \varepsilon}}$$

    Source: BL-29, after Jin et al. 2017 (quoted from memory there). Without momentum.

    Args:
        parameters: $N$.
        smoothness: $\ell$, the Lipschitz constant of the gradient.
        hessian_lipschitz: $\rho$.
        accuracy: $\varepsilon$, the gradient norm to reach; curvature then above
            $-\sqrt{\rho\varepsilon}$.
        gap: $\Delta$, loss at the start less its infimum.
        failure: $\delta$, probability.
        c: the theorem's small constant.

    Example:
        >>> rate, rule = theoretical_perturbation(100, 2.0, 1.0, 0.01, gap=1.0)
        >>> print(rate, rule.patience)
        0.5 1009
    """
    check_count(parameters, "parameters", most=None)
    named = {"smoothness": smoothness, "hessian_lipschitz": hessian_lipschitz, "gap": gap}
    for name, value in {**named, "accuracy": accuracy, "failure": failure, "c": c}.items():
        check_positive(value, name)
    chi = 3 * max(math.log(parameters * smoothness * gap / (c * accuracy**2 * failure)), 4)
    threshold = math.sqrt(c) * accuracy / chi**2
    patience = chi * smoothness / (c**2 * math.sqrt(hessian_lipschitz * accuracy))
    decrease = c / chi**3 * math.sqrt(accuracy**3 / hessian_lipschitz)
    rule = Perturbation(threshold / smoothness, threshold, math.ceil(patience), decrease)
    return c / smoothness, rule
