# SPDX-License-Identifier: Apache-2.0
r"""How much of the last features the learned function uses; no start is needed for it."""

import math

import equinox as eqx
import numpy as np
from jaxtyping import Float

from unlazy.laziness.measurements.kernel_drift import centred, cosine
from unlazy.laziness.measurements.sections import Section


class FeatureQuality(eqx.Module):
    """The distance of the last features from the function that is made of them."""

    distance: float  # 0: the features hold nothing but the function; near 1: it is hidden in them
    distance_start: float  # the same for the outputs at the start
    width: int  # of the last features

    def section(self) -> Section:
        """The measurement as people read it."""
        rows = (
            ("end", self.distance, self.width),
            ("start", self.distance_start, self.width),
        )
        return Section(
            "Feature quality",
            "do the last features hold the learned function and little else?",
            "1 - <K, P>/(norm(K) norm(P)), K the centred kernel of the last features, P the "
            "projection on the centred outputs; 0 is rich (arXiv:2410.04264)",
            ("at", "1 - CKA", "features"),
            rows,
        )


def feature_distance(
    features: Float[np.ndarray, "n k"], outputs: Float[np.ndarray, "n c"]
) -> float:
    r"""1 - CKA of the last features with the projection on the function that they carry.

    $$1 - \frac{\langle K, P\rangle}{\|K\| \|P\|}, \qquad K = \Phi_c \Phi_c^\top, \quad
    P = F_c (F_c^\top F_c)^+ F_c^\top$$

    Source: arXiv:2410.04264, with the constant function taken out by centring.
    """
    Phi, F = (np.asarray(a, np.float64) - np.mean(a, axis=0) for a in (features, outputs))
    U, s, _ = np.linalg.svd(F, full_matrices=False)
    if not s.size or s[0] == 0:
        return math.nan
    U = U[:, s > 1e-6 * s[0]]
    return 1 - cosine(centred(Phi @ Phi.T), U @ U.T)
