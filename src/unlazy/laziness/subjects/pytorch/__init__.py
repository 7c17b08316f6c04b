# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules as the subjects of a report; imported only when a module is given."""
