# SPDX-License-Identifier: Apache-2.0
"""Theorem 4: where the test loss of a network kept in good directions comes from, by term."""

import functools
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.activations import Activation
from unlazy.core.checks import check_count, check_finite, check_inputs, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.checking import check_owner
from unlazy.papers.bai_lee2020.quadratic_class import rademacher_quadratic
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.conditions import check_delta
from unlazy.papers.shared.expansions import movement_terms
from unlazy.papers.shared.rademacher import RademacherEstimate

_REACH, _STEP = 40.0, 1e-3  # of the grid on which a derivative is maximised


class GeneralizationDiagnostic(eqx.Module):
    r"""The terms of a decomposition of the test loss; print it for a table.

    A diagnostic that tells which term is large, not a proof: the norms are those of the movement
    itself, chosen after seeing the data, with no union bound over their scales.
    """

    train_loss: float
    unseen_harmful: float  # sqrt(R1), the harmful directions at new points
    seen_harmful: float  # sqrt(R3), the same at the training points
    low_degree: float  # 2 sqrt(R2 n_k / n), of learning in the good directions
    quadratic: float  # ||W||_{2,4}^2 E max ||M_r||, of learning by the quadratic term
    coupling_population: float  # a bound on E |f - f_L - f_Q|
    coupling_sample: float  # the same at the training points, exactly
    deviation: float  # of the loss's mean over the sample
    operator_norm: RademacherEstimate  # E max_r ||M_r|| alone
    samples: int
    inputs: int

    @property
    def terms(self) -> dict[str, float]:
        """All terms by name."""
        names = ("train_loss", "unseen_harmful", "seen_harmful", "low_degree", "quadratic",
                 "coupling_population", "coupling_sample", "deviation")  # fmt: skip
        return {name: getattr(self, name) for name in names}

    @property
    def total(self) -> float:
        """Their sum."""
        return sum(self.terms.values())

    @property
    def quadratic_rate(self) -> float:
        r"""$\mathbb E \max_r \|M_r\|$ over $\sqrt{d/n}$: of order one whatever d and n."""
        return self.operator_norm.value / math.sqrt(self.inputs / self.samples)

    def __str__(self) -> str:
        rows = [*self.terms.items(), ("total", self.total)]
        return "\n".join(f"{name:20} {value:10.4g}" for name, value in rows)


@entry
def generalization_diagnostic(
    net: TwoLayer,
    params0: TwoLayerParams,
    W: Float[Array | np.ndarray, "m d"],
    x: Inputs,
    *,
    train_loss: int | float,
    r1: int | float,
    r2: int | float,
    r3: int | float,
    rank: int,
    draws: int = 10,
    delta: int | float = 0.05,
    loss_range: int | float = 1.0,
    key: PRNGKeyArray,
) -> GeneralizationDiagnostic:
    r"""A decomposition of the test loss after training in good directions: what could be large.

    For a loss that is 1-Lipschitz,

    $$L \lesssim \hat L + \sqrt{R_1} + \sqrt{R_3} + 2 \sqrt{R_2 \frac{n_k}{n}}
    + \|W\|_{2,4}^2\, \mathbb E_\varepsilon \max_r \|M_r\|_{\mathrm{op}} + C_\mu + C_n + D, \qquad
    M_r = \frac1n \sum_i \varepsilon_i \sigma''(w_{0,r}^\top x_i)\, x_i x_i^\top$$

    with the couplings $C_n = \frac1n \sum_i |f - f_L - f_Q|(x_i)$ and, on the sphere of radius
    $\sqrt d$, $C_\mu = \frac{\sup |\sigma'''|}{6 \sqrt m} \big(\frac{3d}{d+2}\big)^{3/4}
    \|W\|_{2,3}^3$ (inputs of norm $\rho$ put $\rho^3 d^{-3/2}$ in front), and the deviation
    $D = B \sqrt{\log(1/\delta) / 2n}$ of losses between 0 and B. The paper's own statement is the
    rate $L \lesssim \varepsilon + \sqrt{d^k/n}$, without constants.

    Source: NB-18 and NB-37, arXiv:2206.03688 Theorem 4, reconstructed.

    Args:
        net: the network.
        params0: its start, with output weights $\pm 1$; other ones weigh $\|w_r\|^3$.
        W: the movement.
        x: training inputs.
        train_loss: $\hat L$ of the network.
        r1: $R_1$ at `W`, from `escape.Directions` with covariance="unlabelled" or "exact".
        r2: $R_2$ at `W`.
        r3: $R_3$ at `W`.
        rank: $n_k$, the number of good directions.
        draws: number of sign draws; each costs m/2 eigenvalue problems of size d.
        delta: failure probability in the deviation.
        loss_range: B.
        key: for the signs.

    Example:
        >>> import jax, unlazy as ul
        >>> net = ul.nets.TwoLayer(4, 20, ul.activation("sigmoid", shift=1.5), init="sphere")
        >>> params = net.init(key=jax.random.key(0))
        >>> x = ul.data.sphere(30, 4, radius=2.0, key=jax.random.key(1))
        >>> kept = {"train_loss": 0.1, "r1": 0.01, "r2": 1.0, "r3": 0.04, "rank": 5}
        >>> W = jnp.zeros((20, 4))
        >>> terms = generalization_diagnostic(net, params, W, x, **kept, key=jax.random.key(2))
        >>> print(terms.seen_harmful, terms.coupling_sample)
        0.2 0.0
    """
    check_inputs(x)
    check_owner(params0, {"W": (net.width, net.inputs), "a": (net.width,)})
    check_count(rank, "rank", most=None)
    check_delta(delta)
    check_positive(loss_range, "loss_range")
    check_key(key)
    for name, value in {"train_loss": train_loss, "r1": r1, "r2": r2, "r3": r3}.items():
        check_finite(value, name)
        if value < 0:
            raise ValueError(f"`{name}` must be a number >= 0, got {name}={value}.")
    n, d = np.shape(x)
    rows = _row_norms(net, W)
    # The complexity scales with the norm's square, and the norm may be zero: taken at norm 1.
    chain = rademacher_quadratic(
        params0, x, norm=1.0, draws=draws, activation=net.activation, key=key
    )
    return GeneralizationDiagnostic(
        train_loss=float(train_loss),
        unseen_harmful=math.sqrt(r1),
        seen_harmful=math.sqrt(r3),
        low_degree=2 * math.sqrt(r2 * rank / n),
        quadratic=math.sqrt(float(np.sum(rows**4))) * chain.operator_norm.value,
        coupling_population=_population_coupling(net, params0, rows, x),
        coupling_sample=float(np.mean(np.abs(movement_terms(net, params0, W, x).remainder))),
        deviation=float(loss_range) * math.sqrt(math.log(1 / delta) / (2 * n)),
        operator_norm=chain.operator_norm,
        samples=n,
        inputs=d,
    )


def _row_norms(net: TwoLayer, W) -> Float[np.ndarray, " m"]:
    if np.shape(W) != (net.width, net.inputs):
        raise ValueError(
            f"`W` must have shape ({net.width}, {net.inputs}), got W.shape={np.shape(W)}."
        )
    check_finite(W, "W")
    return np.linalg.norm(np.asarray(W, np.float64), axis=1)


def _population_coupling(
    net: TwoLayer, params0: TwoLayerParams, rows: Float[np.ndarray, " m"], x: Inputs
) -> float:
    d = net.inputs
    radius = float(np.max(np.linalg.norm(np.asarray(x, np.float64), axis=1)))
    weights = np.abs(np.asarray(params0.a, np.float64))
    cubes = float(np.sum(weights * rows**3)) * (radius / math.sqrt(d)) ** 3
    moment = (3 * d / (d + 2)) ** 0.75  # on (E z^4)^(3/4) of a coordinate
    return derivative_supremum(net.activation, 3) / (6 * math.sqrt(net.width)) * moment * cubes


@functools.lru_cache(maxsize=32)
def derivative_supremum(sigma: Activation, order: int) -> float:
    r"""The largest $|\sigma^{(j)}|$, on a fine grid; raises where it grows without bound.

    Activations other than polynomials are constant beyond the grid or repeat inside it.
    """
    derivative = sigma.derivative(order)
    with float64():
        z = sigma.shift + jnp.arange(-_REACH, _REACH, _STEP, jnp.float64)
        values = np.abs(np.asarray(derivative(z)))
    inner = values[len(values) // 4 : -len(values) // 4].max()
    if not np.isfinite(values).all() or values.max() > inner * (1 + 1e-9):
        raise ValueError(
            f"`net` must have an activation with a bounded derivative of order {order}, got "
            f"{sigma.name!r}."
        )
    return float(values.max())
