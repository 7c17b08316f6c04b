from unlazy.laziness.adapters import from_equinox as from_equinox
from unlazy.laziness.adapters import from_linen as from_linen
from unlazy.laziness.adapters import from_nnx as from_nnx
from unlazy.laziness.report import LabelReport as LabelReport
from unlazy.laziness.report import measure as measure
from unlazy.laziness.report import plot_report as plot_report
from unlazy.laziness.torch_models import snapshot as snapshot
