# SPDX-License-Identifier: Apache-2.0
"""The small clean risks of Bai and Lee's tests."""

from ..papers.bai_lee2020.conftest import small

__all__ = ["small"]
