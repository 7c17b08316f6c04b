# SPDX-License-Identifier: Apache-2.0
"""A user's own data under the kernel: how hard are its labels, and which rows make them so?"""

from unlazy.measure.files import read_table
from unlazy.measure.plot import plot_report
from unlazy.measure.report import LabelReport, measure

__all__ = ["LabelReport", "measure", "plot_report", "read_table"]
