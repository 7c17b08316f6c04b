# SPDX-License-Identifier: Apache-2.0
"""Allen-Zhu, Li, Liang 2019, "Learning and Generalization in ..." (arXiv:1811.04918): figures."""
