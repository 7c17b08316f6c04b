# SPDX-License-Identifier: Apache-2.0
"""What a kernel predicts for training on the squared loss, in closed form."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import as_array, check_labels, short
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.core.panels import panel
from unlazy.dynamics import curves, rules
from unlazy.dynamics.components import Components
from unlazy.dynamics.decays import Rule, Share, Steps, as_times, as_whole_steps, first_step
from unlazy.dynamics.krylov_spaces import krylov_space
from unlazy.dynamics.printing import Dynamics
from unlazy.dynamics.trajectories import Trajectory
from unlazy.kernels.layouts import CrossGram, Gram, Layout, layout_of, total_ridge
from unlazy.linalg.eigen import Eigen, eigh, gram_eigenvalues

if TYPE_CHECKING:
    from unlazy.kernels import KernelOperator


class KernelDynamics(Dynamics):
    r"""Full-batch gradient descent under a fixed kernel, solved by its eigendecomposition.

    The outputs on the training set start at zero and follow

    $$u(k+1) = u(k) - \eta H (u(k) - y), \qquad
    \|y - u(k)\|^2 = \sum_i (1 - \eta\lambda_i)^{2k} (v_i^\top y)^2,$$

    gradient descent with learning rate $\eta$ on the loss $\frac12 \sum_i (u_i - y_i)^2$, a sum and
    not a mean. With labels of shape (n, c) every squared quantity is summed over the columns.

    `at_time` gives gradient flow, $\dot u = -H (u - y)$, in place of descent: $k$ steps take the
    time $\eta k$. The options of the constructors change both:

    - `start`: the initial outputs $u(0)$ of a network at which they are not small; $y$ is then
      $y - u(0)$ in every formula.
    - `momentum`: $m$ of heavy-ball descent from rest,
      $\theta_{k+1} = \theta_k + m (\theta_k - \theta_{k-1}) - \eta \nabla L$, and of
      $\eta \ddot\theta + (1 - m) \dot\theta = -\nabla L$.
    - `ridge`: $\rho$ of the penalty $\frac\rho2 \|\theta - \theta_0\|^2$, which is added to the
      loss. Each eigenvalue then decays as $\lambda_i + \rho$ would, and the outputs tend to
      $u(0) + H (H + \rho I)^{-1} (y - u(0))$. `loss` does not count the penalty.

    A kernel of shape (n, n, c, c), as `kernels.empirical_ntk` gives it, couples the outputs.

    Source: AR-8 to AR-10, AR-12 and AR-13, arXiv:1901.08584 sections 4 and 5; for the flow
    arXiv:1806.07572 section 5; for initial outputs arXiv:1902.06720 section 2.2.

    Example:
        >>> flow = KernelDynamics.from_gram(jnp.diag(jnp.array([2.0, 1.0])), jnp.ones(2))
        >>> print(flow.learning_rate, flow.loss([0, 1, 2]))
        0.5 [1.      0.125   0.03125]
    """

    eigenvalues: Float64[np.ndarray, " r"]  # of H, largest first; Ritz values from an operator
    eigenvectors: Float64[Array, "m r"]  # in the columns; m is n, or n * c for coupled outputs
    projections: Float64[np.ndarray, "r *c"]  # v_i . (y - start)
    learning_rate: float
    momentum: float
    ridge: float
    start: Float64[np.ndarray, "n *k"] | None  # initial outputs on the training set; None: zeros
    layout: Layout = eqx.field(static=True)  # the form of the kernel
    tail: tuple[int, ...] = eqx.field(static=True)  # of the labels: (), or (c,)
    error: float = 0.0  # estimate, relative to the initial loss and to the final movement

    @classmethod
    @entry
    def from_gram(
        cls,
        H: Gram,
        y: Float[Array | np.ndarray, "n *c"],
        *,
        learning_rate: float | None = None,
        momentum: float = 0.0,
        ridge: float = 0.0,
        relative_ridge: float = 0.0,
        start: Float[Array | np.ndarray, "n *c"] | None = None,
    ) -> "KernelDynamics":
        """Decompose a symmetric positive semi-definite `H`, in about 9 n^3 operations.

        Args:
            H: kernel of the training samples, (n, n), or (n, n, c, c) with coupled outputs.
            y: labels.
            learning_rate: None means 1/(lambda_max + ridge): above it a component overshoots.
            momentum: from 0 to less than 1.
            ridge: strength of the penalty on the movement of the weights.
            relative_ridge: added to it, in units of the mean of the diagonal of `H`.
            start: initial outputs, of the shape of `y`; None means zeros.

        Warns:
            UnlazyWarning: `learning_rate` is above `max_learning_rate`, where the dynamics diverge.
        """
        layout = layout_of(H)
        layout.check_outputs(y, "y")
        matrix = layout.gram(H, "H")
        with float64():
            ridge = total_ridge(ridge, relative_ridge, float(jnp.mean(jnp.diagonal(matrix))))
        rule = learning_rate, momentum, ridge
        return cls._from_pairs(eigh(matrix), as_array(y, "y"), start, rule, layout)

    @classmethod
    @entry
    def from_eigen(
        cls,
        eigen: Eigen,
        y: Float[Array | np.ndarray, "n *c"],
        *,
        learning_rate: float | None = None,
        momentum: float = 0.0,
        ridge: float = 0.0,
        start: Float[Array | np.ndarray, "n *c"] | None = None,
    ) -> "KernelDynamics":
        """Use an eigendecomposition that is at hand; otherwise as `from_gram`."""
        y, layout = as_array(y, "y"), Layout(len(eigen.values), None)
        check_labels(y, layout.n)
        return cls._from_pairs(eigen, y, start, (learning_rate, momentum, ridge), layout)

    @classmethod
    @entry
    def from_operator(
        cls,
        H: "KernelOperator",
        y: Float[Array | np.ndarray, "n *c"],
        *,
        learning_rate: float | None = None,
        momentum: float = 0.0,
        ridge: float = 0.0,
        start: Float[Array | np.ndarray, "n *c"] | None = None,
        tolerance: float = 1e-8,
        max_basis: int = 1000,
    ) -> "KernelDynamics":
        r"""Predict without the matrix, by Lanczos quadrature started at the labels.

        The eigenpairs are then Ritz pairs of the Krylov space of `y`, which represent the whole
        spectrum as Gauss nodes represent an integral. The loss, `movement` and `outputs` are exact
        for as many steps as there were Lanczos steps and converge fast beyond, while only the
        extreme eigenvalues are those of $H$. The space belongs to these labels: `with_labels` needs
        `from_gram`.

        Args:
            H: operator of a positive semi-definite Gram matrix.
            y: labels.
            learning_rate: None means 1/(lambda_max + ridge).
            momentum: as for `from_gram`.
            ridge: as for `from_gram`.
            start: as for `from_gram`.
            tolerance: of loss and movement, relative to the initial loss and the final movement.
            max_basis: dimension of the Krylov space at most; each takes a vector of memory.

        Warns:
            UnlazyWarning: `learning_rate` is above `max_learning_rate`; the tolerance was not
                reached.
        """
        n = H.shape[0]
        check_labels(y, n)
        wanted = rules.initial_error(np.asarray(y, np.float64), start)
        rule = krylov_space(H, wanted.reshape(n, -1), tolerance=tolerance, max_basis=max_basis)
        with float64():
            vectors = jnp.asarray(rule.vectors)
        return cls(
            gram_eigenvalues(rule.nodes, n, eps=H.tiles.eps),
            vectors,
            rule.projections.reshape(-1, *np.shape(y)[1:]),
            *rules.checked_rule((learning_rate, momentum, ridge), float(rule.nodes[0])),
            rules.as_start(start),
            Layout(n, None),
            np.shape(y)[1:],
            rule.change,
        )

    @classmethod
    def _from_pairs(
        cls,
        eigen: Eigen,
        y: Float[Array | np.ndarray, "n *c"],
        start: Float[Array | np.ndarray, "n *c"] | None,
        rule: tuple[float | None, float, float],
        layout: Layout,
    ) -> "KernelDynamics":
        values = gram_eigenvalues(eigen.values)
        wanted = layout.flat_outputs(rules.initial_error(np.asarray(y, np.float64), start))
        with float64():
            projections = np.asarray(eigen.vectors.T @ jnp.asarray(wanted))
        checked = rules.checked_rule(rule, float(values[0]))
        pairs = values, eigen.vectors, projections
        return cls(*pairs, *checked, rules.as_start(start), layout, np.shape(y)[1:])

    @entry
    def with_labels(self, y: Float[Array | np.ndarray, "n *c"]) -> "KernelDynamics":
        """The same kernel, start and rule for other labels, with no new decomposition.

        Not for dynamics from an operator, whose space is for their own labels only.
        """
        rules.check_complete(self.eigenvectors.shape, "with_labels")
        self.layout.check_outputs(y, "y")
        eigen = Eigen(self.eigenvalues, self.eigenvectors)
        rule = self.learning_rate, self.momentum, self.ridge
        return self._from_pairs(eigen, as_array(y, "y"), self.start, rule, self.layout)

    @property
    def max_learning_rate(self) -> float:
        r"""The largest stable learning rate, $2 (1 + m) / (\lambda_{\max} + \rho)$.

        Descent on the sum of squares diverges above it; it is twice the default without momentum.
        """
        return 2 * (1 + self.momentum) / float(self.curvatures[0])

    @property
    def curvatures(self) -> Float64[np.ndarray, " r"]:
        r"""The eigenvalues of the loss with its penalty, $\lambda_i + \rho$."""
        return self.components.curvatures

    @property
    def energies(self) -> Float64[np.ndarray, " r"]:
        r"""Share of the labels on each eigenvector, $(v_i^\top y)^2 / \|y\|^2$; sums to one."""
        squares = self.components.squares
        total = squares.sum()
        return squares / total if total > 0 else squares

    @entry
    def residual(self, steps: Steps) -> Float64[np.ndarray, "*shape"]:
        r"""$\|y - u(k)\|$ at each of `steps`."""
        return np.asarray(np.sqrt(self.components.squared_residual(self.rule, steps)))

    @entry
    def loss(self, steps: Steps) -> Float64[np.ndarray, "*shape"]:
        r"""$\frac12 \|y - u(k)\|^2$ at each of `steps`: a sum over the samples."""
        return np.asarray(self.components.squared_residual(self.rule, steps) / 2)

    @entry
    def outputs(
        self,
        step: Steps,
        cross_gram: CrossGram | None = None,
        *,
        start: Float[Array | np.ndarray, "t *c"] | None = None,
    ) -> Float64[np.ndarray, "..."]:
        r"""Outputs after `step` steps, on the training set or on the points of `cross_gram`.

        $$f_k(x) = f_0(x) + h(x)^\top V \operatorname{diag}\Big(\frac{1 - (1-\eta\lambda)^k}
        {\lambda}\Big) V^\top (y - u(0))$$

        The rows of `cross_gram` are $h(x)$, the kernel between a point and the training set;
        `start` are the initial outputs $f_0(x)$ there. With `math.inf` steps this is the
        interpolating predictor $f_0(x) + h(x)^T H^{-1} (y - u(0))$. Several steps come along the
        first axis.
        """
        found = self._trajectory(self._by_steps(step), np.shape(step))
        return found.outputs(cross_gram, start=start)

    @entry
    def at_step(self, steps: Steps) -> Trajectory:
        """Loss, movement and outputs after so many steps of descent, one number or many.

        Example:
            >>> flow = KernelDynamics.from_gram(jnp.eye(2), jnp.ones(2), learning_rate=0.5)
            >>> print(flow.at_step([0, 1, 2]).train[:, 0])
            [0.   0.5  0.75]
        """
        return self._trajectory(self._by_steps(steps, "steps"), np.shape(steps))

    @entry
    def at_time(self, times: Steps) -> Trajectory:
        """Loss, movement and outputs at these times of gradient flow, one number or many.

        The flow is what descent tends to for small learning rates, with k steps in the time
        learning_rate * k. Without momentum the learning rate has no part in it.

        Example:
            >>> flow = KernelDynamics.from_gram(jnp.eye(2), jnp.ones(2))
            >>> at = flow.at_time([0.0, np.log(2), np.inf])
            >>> print(at.loss, at.outputs(jnp.array([[0.5, 0.0]]))[:, 0])
            [1.   0.25 0.  ] [0.   0.25 0.5 ]
        """
        share = self.rule.by_times(self.curvatures, as_times(times, "times"))
        return self._trajectory(share, np.shape(times))

    @entry
    def movement(self, step: int | float) -> float:
        r"""Distance $\|W(k) - W(0)\|_F$ that the linearised network has moved after `step` steps.

        $$\|W(k) - W(0)\|_F^2
        = \sum_i \frac{(1 - (1-\eta\lambda_i)^k)^2}{\lambda_i} (v_i^\top y)^2$$

        It never decreases for learning rates up to 1/lambda_max. `movement(math.inf)` is
        $\sqrt{y^\top H^{-1} y}$ when the labels can be interpolated. Otherwise `labels.energy` is
        infinite, while parts of the labels where the kernel vanishes move nothing.
        """
        if np.ndim(step):
            raise TypeError(
                f"`step` must be a number, got step={short(step)}. Use at_step(steps).movement for "
                "several."
            )
        return float(self.components.movement(self._by_steps(step))[0])

    @entry
    def steps_to(self, relative_loss: float) -> int | float:
        """Number of steps until the loss is at most `relative_loss`, in (0, 1], of the initial one.

        It is `math.inf` if the loss never is, because labels lie where the kernel vanishes or the
        ridge holds them back. Raises where the loss need not fall with every step: for learning
        rates of 2/lambda_max or more, above 1/(lambda_max + ridge) with a ridge, and with momentum.
        """
        if not 0 < relative_loss <= 1:
            raise ValueError(
                f"`relative_loss` must be in (0, 1], got relative_loss={relative_loss}."
            )
        top = float(self.eigenvalues[0])
        rules.check_falling(self.learning_rate, self.momentum, top, self.ridge)
        goal = relative_loss * float(self.loss(0))
        return first_step(lambda step: float(self.loss(step)) <= goal)

    @entry
    def plot(
        self,
        ax: Axes | None = None,
        *,
        steps: Steps | None = None,
        measured: Any = None,
        relative: bool = False,
        label: str | None = None,
    ) -> Axes:
        """Draw the predicted loss against the steps, on logarithmic axes.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            steps: None for 1 to the last measured one, or until a thousandth of the fall is left.
            measured: losses to draw as points: what `train.fit` returns, or steps and losses. They
                stay as they are: the prediction is half the sum of squares.
            relative: divide the prediction by its loss at step 0, and the measured losses so that
                the first of them is as predicted: sums and means are comparable.
            label: of the prediction in the legend.

        Example:
            >>> flow = KernelDynamics.from_gram(jnp.diag(jnp.array([2.0, 1.0])), jnp.ones(2))
            >>> ax = flow.plot(measured=([0, 1, 2], [1.0, 0.13, 0.03]))
            >>> print(ax.get_xlabel(), ax.get_yscale(), len(ax.get_lines()))
            step log 2
        """
        found, stable = curves.recorded(measured), self.learning_rate < self.max_learning_rate
        at = curves.drawn_steps(steps, found, lambda: curves.horizon(self.loss, is_stable=stable))
        starts = float(self.loss(0)), float(self.loss(curves.first_measured(found)))
        predicted = curves.Losses(at, self.loss(at))
        return curves.draw_losses(ax, predicted, starts, found, relative=relative, label=label)

    @entry
    def plot_spectrum(self, ax: Axes | None = None) -> Axes:
        """Draw the eigenvalues, and which share of the labels lies on each eigenvector.

        Labels on eigenvectors far to the right are learnt late: the part beyond the k-th is what
        is left of the squared error when the first k are learnt. Eigenvalues below 1e-12 of the
        largest, shares below 1e-6 and sums of shares below 1e-4 are left out.

        Args:
            ax: where to draw; None for a new figure, which is `plot_spectrum().figure`.
        """
        with panel(ax) as ax:
            return curves.draw_spectrum(ax, self.eigenvalues, self.energies)

    @property
    def rule(self) -> Rule:
        """Learning rate and momentum, and the decays that follow from them."""
        return Rule(self.learning_rate, self.momentum)

    @property
    def components(self) -> Components:
        """What there is along each eigenvector, apart from the eigenvectors themselves."""
        return Components(self.eigenvalues, self.projections, self.ridge)

    def _by_steps(self, steps: Steps, name: str = "step") -> Share:
        with np.errstate(over="ignore"):  # above the largest rate the prediction does diverge
            return self.rule.by_steps(self.curvatures, as_whole_steps(steps, name))

    def _trajectory(self, share: Share, times: tuple[int, ...]) -> Trajectory:
        weights = self.components.weights(share)
        by_column = weights.T.reshape(*weights.T.shape, *[1] * (self.projections.ndim - 1))
        scaled = by_column * self.projections[:, None]  # (r, T, *c)
        with float64():
            found = jnp.tensordot(self.eigenvectors, jnp.asarray(scaled), 1)
            moved = self.eigenvalues.reshape(-1, *[1] * (scaled.ndim - 1)) * scaled
            outputs = jnp.tensordot(self.eigenvectors, jnp.asarray(moved), 1)
        train = np.moveaxis(np.asarray(outputs), 1, 0).reshape(*times, self.layout.n, *self.tail)
        return Trajectory(
            (self.components.squared_left(share) / 2).reshape(times),
            self.components.movement(share).reshape(times),
            train if self.start is None else self.start + train,
            np.moveaxis(np.asarray(found), 1, 0).reshape(
                *times, len(found), *self.projections.shape[1:]
            ),
            self.layout,
            self.start is not None,
        )
