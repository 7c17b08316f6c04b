# SPDX-License-Identifier: Apache-2.0
"""Kernels of neural networks, as matrices."""

from unlazy.kernels.relu import relu_gram

__all__ = ["relu_gram"]
