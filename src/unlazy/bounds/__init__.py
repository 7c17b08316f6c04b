# SPDX-License-Identifier: Apache-2.0
"""What can be said of generalisation from the data alone."""

from unlazy.bounds.labels import label_complexity, label_energy

__all__ = ["label_complexity", "label_energy"]
