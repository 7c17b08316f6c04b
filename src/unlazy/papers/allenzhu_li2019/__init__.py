# SPDX-License-Identifier: Apache-2.0
"""Allen-Zhu, Li 2019, "What Can ResNet Learn Efficiently, ..." (arXiv:1905.10337): figures."""
