from unlazy.laziness.diagnosis import diagnose as diagnose
from unlazy.laziness.model_report import Report as Report
from unlazy.laziness.report import LabelReport as LabelReport
from unlazy.laziness.report import measure as measure
from unlazy.laziness.report import plot_report as plot_report
