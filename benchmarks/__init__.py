# SPDX-License-Identifier: Apache-2.0
"""Speed against limits and peers, as ratios within one run: `make bench`."""
