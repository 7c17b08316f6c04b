# SPDX-License-Identifier: Apache-2.0
"""The risk of the linear plus the quadratic term, with penalties on harmful directions."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from unlazy.core.checks import check_count, check_finite, check_labels, check_positive
from unlazy.core.entries import entry
from unlazy.escape import Directions
from unlazy.escape.good_directions.linear_term import LinearTerm
from unlazy.escape.penalty import regularizer
from unlazy.linalg.full_precision import full_product
from unlazy.losses import PointwiseLoss, check_targets, pointwise
from unlazy.nets.expansion import coefficients, linear_term, quadratic_term

Strengths = tuple[float, float, float, float]


class RegularizedRisk(eqx.Module):
    r"""The risk of a two-layer network's expansion around its start, with four penalties.

    $$L_\lambda(W) = \frac1n \sum_i \ell(f_L(x_i; W) + f_Q(x_i; W), y_i)
    + \lambda_1 R_1(W) + \lambda_2 R_2(W) + \lambda_3 R_3(W) + \lambda_4 R_4(W)$$

    A function of the movement `W` alone, in its dtype. $R_1$ to $R_4$ are those of
    `escape.Directions`. With `network` true the network itself, $f(x; W) - f(x; 0)$, takes the
    place of $f_L + f_Q$.

    Source: NB-16 and NB-14, arXiv:2206.03688 Lemma 3 and Theorem 4. $L_\lambda$ there is the
    network's risk, $L^Q_\lambda$ the expansion's.

    Example:
        >>> import unlazy as ul
        >>> net = ul.nets.TwoLayer(4, 20, ul.activation("sigmoid", shift=1.5), init="sphere")
        >>> params = net.init(key=jax.random.key(0))
        >>> x = ul.data.sphere(30, 4, radius=2.0, key=jax.random.key(1))
        >>> geometry = ul.escape.directions(net, params, x, degree=1)
        >>> risk = RegularizedRisk.of(geometry, x[:, 0], loss="squared", strengths=(0, 0, 10, 0))
        >>> W = jnp.zeros((20, 4))
        >>> bool(risk(W) == jnp.mean(x[:, 0] ** 2))
        True
    """

    geometry: Directions
    y: Float[Array, " n"]
    T: Float[Array, "n m"]  # a_r sigma''(w_0r . x_i)
    loss: PointwiseLoss = eqx.field(static=True)
    strengths: Strengths = eqx.field(static=True)
    network: bool = eqx.field(static=True)

    @classmethod
    @entry
    def of(
        cls,
        geometry: Directions,
        y: Float[Array | np.ndarray, " n"],
        *,
        loss: str | PointwiseLoss = "log-cosh",
        strengths: tuple[int | float, int | float, int | float, int | float] = (0, 0, 0, 0),
        network: bool = False,
    ) -> "RegularizedRisk":
        r"""The risk at the training inputs of the geometry.

        Args:
            geometry: of `escape.directions`, with the network, its start and the inputs.
            y: labels of these inputs.
            loss: a name for `losses.pointwise`, or a loss. "squared" has no factor 1/2, as in
                `papers.nichani2022.fit_expansion`.
            strengths: $\lambda_1$ to $\lambda_4$, none negative; see `theory_strengths`.
            network: whether to take the network itself in place of its expansion.
        """
        x = geometry.term.x
        check_labels(y, len(x), single=True)
        check_targets(loss, y)
        for lam in strengths:
            check_finite(lam, "strengths")
        if len(strengths) != 4 or min(strengths) < 0:
            raise ValueError(f"`strengths` must be four numbers >= 0, got strengths={strengths}.")
        lam1, lam2, lam3, lam4 = map(float, strengths)
        T = _second_coefficients(geometry.net.activation, geometry.params, x)
        lams = (lam1, lam2, lam3, lam4)
        return cls(geometry, jnp.asarray(y, x.dtype), T, pointwise(loss), lams, bool(network))

    @property
    def width(self) -> int:
        """Number of neurons."""
        return self.T.shape[1]

    @entry
    def outputs(self, W: Float[Array, "m d"]) -> Float[Array, " n"]:
        """The outputs that are compared with the labels: $f_L + f_Q$, or the network's change."""
        W = self.geometry.term.as_movement(W)
        if self.network:
            net, start = self.geometry.net, self.geometry.params
            W0 = start.W.astype(W.dtype)
            x, a = self.geometry.term.x.astype(W.dtype), start.a.astype(W.dtype)
            f = [net.activation(full_product(x, V.T)) for V in (W0 + W, W0)]
            return full_product(f[0] - f[1], a) / math.sqrt(self.width)
        return self.geometry.term(W) + self.quadratic(W)

    @entry
    def quadratic(self, W: Float[Array, "m d"]) -> Float[Array, " n"]:
        """The quadratic term at the inputs."""
        Z = self.movements(W)
        return quadratic_term(self.T.astype(Z.dtype), Z)

    @entry
    def movements(self, W: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """The changes `Z` of the pre-activations."""
        W = self.geometry.term.as_movement(W)
        return full_product(self.geometry.term.x.astype(W.dtype), W.T)

    @entry
    def penalties(self, W: Float[Array, "m d"]) -> list[Float[Array, ""]]:
        """The four penalties times their strengths; one of strength 0 is not computed."""
        W = self.geometry.term.as_movement(W)
        terms = (self.geometry.r1, self.geometry.r2, self.geometry.r3, self.geometry.r4)
        zero = jnp.zeros((), W.dtype)
        return [
            lam * term(W) if lam else zero for lam, term in zip(self.strengths, terms, strict=True)
        ]

    @entry
    def data_term(self, W: Float[Array, "m d"]) -> Float[Array, ""]:
        """The risk without its penalties."""
        f = self.outputs(W)
        return jnp.mean(self.loss(f, self.y.astype(f.dtype)))

    @entry
    def __call__(self, W: Float[Array, "m d"]) -> Float[Array, ""]:
        """The risk."""
        return self.data_term(W) + sum(self.penalties(W))

    @entry
    def gradient(self, W: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The gradient."""
        return jax.grad(self)(W)

    @entry
    def hessian_form(self, W: Float[Array, "m d"], V: Float[Array, "m d"]) -> Float[Array, ""]:
        r"""The second derivative at `W` along `V` in closed form.

        $$\frac1n \sum_i \Big[ \ell'' \Big( \frac{1}{\sqrt m} \sum_r b_{ir}\, v_r^\top x_i
        \Big)^2 + \ell' \frac{1}{\sqrt m} \sum_r c_{ir} (v_r^\top x_i)^2 \Big]
        + 2 \lambda_1 R_1(V) + 2 \lambda_2 R_2(V) + 2 \lambda_3 R_3(V)
        + \lambda_4 D^2 R_4(W)[V, V]$$

        with the slopes of the neurons: for the expansion $b_{ir} = a_r \sigma'(w_{0,r}^\top x_i) +
        T_{ir} w_r^\top x_i$ and $c_{ir} = T_{ir} = a_r \sigma''(w_{0,r}^\top x_i)$, for the network
        $a_r \sigma'$ and $a_r \sigma''$ at $(w_{0,r} + w_r)^\top x_i$.

        Source: NB-17, arXiv:2206.03688; for the network derived here.
        """
        W, V = self.geometry.term.as_movement(W), self.geometry.term.as_movement(V)
        slope, curvature = self.slopes(W)
        first, second = neuron_slopes(self, W, jnp.arange(self.width))
        Z = self.movements(V)
        data = jnp.mean(
            curvature * linear_term(first, Z) ** 2 + 2 * slope * quadratic_term(second, Z)
        )
        *quadratic, _ = self.penalties(V)
        if not self.strengths[3]:
            return data + 2 * sum(quadratic)
        return data + 2 * sum(quadratic) + self.strengths[3] * regularizer.hessian_form(W, V)

    @entry
    def slopes(self, W: Float[Array, "m d"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """First and second derivative of the loss at each output."""
        f = self.outputs(W)
        y = self.y.astype(f.dtype)
        return self.loss.derivative(1)(f, y), self.loss.derivative(2)(f, y)


def neuron_slopes(
    risk: RegularizedRisk, W: Float[Array, "m d"], rows: Int[Array, " b"]
) -> tuple[Float[Array, "n b"], Float[Array, "n b"]]:
    """First and second derivative of these neurons' outputs, times their output weights."""
    term, start = risk.geometry.term, risk.geometry.params
    x = term.x.astype(W.dtype)
    Z = full_product(x, W[rows].T)
    if risk.network:
        sigma, a = risk.geometry.net.activation, start.a[rows].astype(W.dtype)
        H = Z + full_product(x, start.W[rows].astype(W.dtype).T)
        return a[None, :] * sigma.derivative(1)(H), a[None, :] * sigma.derivative(2)(H)
    T = risk.T[:, rows].astype(W.dtype)
    return columns(term, rows).astype(W.dtype) + T * Z, T


def columns(term: LinearTerm, rows: Int[Array, " b"]) -> Float[Array, "n b"]:
    """The slopes of these neurons; the second half are twins of the opposite sign."""
    half = term.slopes.shape[1]
    sign = jnp.where(rows < half, 1.0, -1.0).astype(term.slopes.dtype)
    return term.slopes[:, rows % half] * sign[None, :]


@entry
def theory_strengths(
    width: int, inputs: int, degree: int, *, accuracy: int | float, r4: int | float | None = None
) -> Strengths:
    r"""The strengths of the penalties in the paper's theorems.

    $$\lambda_1 = \lambda_3 = m^{1/2} d^{-(k-1)/2} \varepsilon, \qquad \lambda_2 = \varepsilon,
    \qquad \lambda_4 = d^{-2(k-1)} \varepsilon$$

    with `width` m, `inputs` d, `degree` k and `accuracy` $\varepsilon$. At practical widths the
    last is far too large ($\lambda_4 R_4(W^*)$ is about $10^5$ for a sigmoid): with `r4`, $R_4$ at
    a good solution, it is $\varepsilon / R_4(W^*)$ instead.

    Source: NB-16 and section 8, item 12, arXiv:2206.03688 Theorem 4.

    Example:
        >>> theory_strengths(100, 5, 1, accuracy=0.5)
        (5.0, 0.5, 5.0, 0.5)
    """
    check_count(width, "width", most=None)
    check_count(inputs, "inputs", most=None)
    check_count(degree, "degree", most=None)
    check_positive(accuracy, "accuracy")
    epsilon, d = float(accuracy), float(inputs)
    lam = math.sqrt(width) * d ** (-(degree - 1) / 2) * epsilon
    if r4 is None:
        return lam, epsilon, lam, d ** (-2 * (degree - 1)) * epsilon
    check_positive(r4, "r4")
    return lam, epsilon, lam, epsilon / float(r4)


@eqx.filter_jit
def _second_coefficients(sigma, params, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
    return coefficients(sigma, params, x, 2)
