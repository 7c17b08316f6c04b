from unlazy.labels.degrees import DegreeSpectrum as DegreeSpectrum
from unlazy.labels.degrees import degree_spectrum as degree_spectrum
from unlazy.labels.energies import label_complexity as label_complexity
from unlazy.labels.energies import label_energy as label_energy
from unlazy.labels.left_out import LeaveOneOut as LeaveOneOut
from unlazy.labels.left_out import leave_one_out as leave_one_out
