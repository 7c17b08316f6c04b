from unlazy.labels.degrees import DegreeSpectrum as DegreeSpectrum
from unlazy.labels.degrees import degree_spectrum as degree_spectrum
from unlazy.labels.energies import complexity as complexity
from unlazy.labels.energies import energy as energy
from unlazy.labels.left_out import LeaveOneOut as LeaveOneOut
from unlazy.labels.left_out import leave_one_out as leave_one_out
from unlazy.labels.left_out_path import LeftOutPath as LeftOutPath
from unlazy.labels.left_out_path import leave_one_out_path as leave_one_out_path
