# SPDX-License-Identifier: Apache-2.0
"""Special functions, evaluated fast and to full precision."""

from unlazy.special.orthant import orthant_probability

__all__ = ["orthant_probability"]
