# SPDX-License-Identifier: Apache-2.0
"""Tangent kernels of networks of finite width, at any parameters."""

from unlazy.kernels.empirical.ntk import empirical_ntk, empirical_ntk_diagonal, empirical_ntk_traced

__all__ = ["empirical_ntk", "empirical_ntk_diagonal", "empirical_ntk_traced"]
