from unlazy.laziness.output_scale import output_scale_sweep as output_scale_sweep
from unlazy.laziness.output_scale_result import OutputScaleSweep as OutputScaleSweep
from unlazy.laziness.report import LabelReport as LabelReport
from unlazy.laziness.report import measure as measure
from unlazy.laziness.report import plot_report as plot_report
from unlazy.laziness.width import width_check as width_check
from unlazy.laziness.width_result import WidthCheck as WidthCheck
