from unlazy.laziness.report import LabelReport as LabelReport
from unlazy.laziness.report import measure as measure
from unlazy.laziness.report import plot_report as plot_report
from unlazy.laziness.width import width_check as width_check
from unlazy.laziness.width_result import WidthCheck as WidthCheck
