# SPDX-License-Identifier: Apache-2.0
"""Appendix G with the settings of the authors' code: R1 on fresh points, and a CNN on CIFAR-10."""
