# SPDX-License-Identifier: Apache-2.0
"""What a probe records over a training, keeps on the disk and draws."""
