from unlazy.laziness.plot import plot_report as plot_report
from unlazy.laziness.report import LabelReport as LabelReport
from unlazy.laziness.report import measure as measure
