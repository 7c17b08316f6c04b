# SPDX-License-Identifier: Apache-2.0
"""Random features of the tangent kernel, for pipelines of scikit-learn."""

import math
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from unlazy.activations import Activation
from unlazy.core.checks import check_count, check_finite, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.estimators.random_features import Layer, Spec, drawn_layers, random_features
from unlazy.nets.checking import as_activation

_DTYPES = [np.float64, np.float32]


class NTKTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Random features whose inner products approximate a kernel of an infinitely wide network.

    $$\langle\theta^{L+1}(x), \theta^{L+1}(x')\rangle \approx \Theta(x, x'), \qquad
    u^1 = \theta^1 = \Big(\frac{\sigma_w x}{\sqrt d}, \sigma_b\Big),$$

    $$u^{l+1} = \Big(\frac{\sigma_w}{\sqrt p} \phi(W^l u^l),\, \sigma_b\Big), \qquad
    \theta^{l+1} = \Big(u^{l+1},\,
    \frac{\sigma_w}{\sqrt q} \phi'(V^l u^l) \circ (S^l \theta^l)\Big)$$

    with independent standard Gaussians W and V, signs S, and p + q components (and one for the
    bias), half of each kind. Each component of the second kind has a neuron and a random direction
    of its own, so that $\phi' \otimes \theta$, whose inner product is a product of two, is
    projected without being formed. For kernel="nngp" there are the components $u^{L+1}$ alone.

    At depth 1 the approximation is unbiased. For ReLU with weight variance 2 the standard deviation
    of an entry is then at most $\sqrt{6/k}\, \sqrt{K(x, x)\, K(x', x')}$ for k components, about
    4% at k = 4096. Deeper, there is bias of order 1/k, and the deviation grows: to 4.0 and 5.1 over
    $\sqrt k$ at depths 2 and 3, as measured. The cost is about 3 n d k operations at depth 1, and
    2 n k² for every further layer.

    A linear model on the features approximates regression with the kernel: use at least as many
    components as that would need samples. Rows are computed in float32 where X is float32.

    Source: derived: random features of the recursion of `kernels.ntk`; arXiv:2106.07880 has the
    same recursion with sketches in place of the signs.

    Args:
        kernel: "ntk", or "nngp" for the covariance of the outputs, `kernels.nngp`.
        n_components: k, how many features.
        depth: hidden layers, L.
        activation: a name or an `Activation`; "ntk" needs its derivative.
        weight_variance: σ_w², positive.
        bias_variance: σ_b², not negative.
        random_state: of the draws: an integer, a `RandomState` or None.

    Attributes:
        layers_: the draws, as NumPy arrays.
        mixing_: None, or for k below 3 the signs that mix one feature of each kind.
        n_features_in_: d.
        feature_names_in_: names of the columns, where X has some.

    Example:
        >>> import unlazy as ul
        >>> X = np.random.RandomState(0).standard_normal((5, 3))
        >>> Z = NTKTransformer(n_components=20000, random_state=0).fit_transform(X)
        >>> K = np.asarray(ul.kernels.ntk(X, bias_variance=1.0))
        >>> bool(np.abs(Z @ Z.T - K).max() < 0.1 * K.max())
        True
    """

    @no_type_check  # scikit-learn sets anything, and fit checks
    def __init__(
        self,
        kernel: str = "ntk",
        n_components: int = 1024,
        *,
        depth: int = 1,
        activation: str | Activation = "relu",
        weight_variance: float = 2.0,
        bias_variance: float = 1.0,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.depth = depth
        self.activation = activation
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.random_state = random_state

    @entry
    def fit(self, X: Any, y: Any = None) -> "NTKTransformer":
        """Draw the features for inputs of this many columns; `y` is ignored."""
        del y
        self._check()
        X = validate_data(self, X, dtype=_DTYPES)
        count, biased, kinds = int(self.n_components), self.bias_variance > 0, self._kinds()
        drawn = max(count, kinds) - biased
        slopes = drawn // 2 if self.kernel == "ntk" else 0
        random = check_random_state(self.random_state)
        parts = drawn - slopes, slopes
        self.layers_ = drawn_layers(X.shape[1], parts, int(self.depth), biased, random)
        # Fewer components than kinds of them: random sums of one of each are unbiased as well.
        signs = 2.0 * random.randint(0, 2, (kinds, count)) - 1
        self.mixing_ = signs / math.sqrt(count) if count < kinds else None
        return self

    @entry
    def transform(self, X: Any) -> Float[np.ndarray, "n k"]:
        """The features of the rows."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=_DTYPES)
        sigma = as_activation(self.activation)
        deviations = math.sqrt(self.weight_variance), math.sqrt(self.bias_variance)
        layers = [Layer(*layer) for layer in self.layers_]
        features = random_features(Spec(sigma, *deviations), layers, X)
        return features if self.mixing_ is None else features @ self.mixing_.astype(X.dtype)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def _kinds(self) -> int:
        """How many kinds of components there are: of outputs, of slopes, of the bias."""
        return 1 + (self.kernel == "ntk") + bool(self.bias_variance > 0)

    def _check(self) -> None:
        check_name(self.kernel, ("ntk", "nngp"), "kernel")
        check_count(self.depth, "depth")
        check_positive(self.weight_variance, "weight_variance")
        check_finite(self.bias_variance, "bias_variance")
        if self.bias_variance < 0:
            raise ValueError(
                f"`bias_variance` must be at least 0, got bias_variance={self.bias_variance}."
            )
        check_count(self.n_components, "n_components")
        sigma = as_activation(self.activation)
        if self.kernel == "ntk":
            try:
                sigma.derivative(1)
            except ValueError as error:
                raise ValueError(
                    f"`activation` must have a derivative for kernel='ntk', got "
                    f"activation={sigma.name}. Use kernel='nngp', or another activation."
                ) from error

    def __sklearn_tags__(self) -> Any:
        """Floats of either precision are kept."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
