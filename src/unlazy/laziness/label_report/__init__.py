# SPDX-License-Identifier: Apache-2.0
"""The report on the labels of a data set."""
