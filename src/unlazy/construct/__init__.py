# SPDX-License-Identifier: Apache-2.0
"""Weights built by hand, as the existence proofs build them."""

from unlazy.construct.minimum_norm import MinimumNorm, minimum_norm

__all__ = ["MinimumNorm", "minimum_norm"]
