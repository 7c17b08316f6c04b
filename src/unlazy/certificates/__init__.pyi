from unlazy.certificates.cube import features as features
from unlazy.certificates.cube import kernel as kernel
from unlazy.certificates.dot_products import dot_product as dot_product
from unlazy.certificates.verdicts import CubeCertificate as CubeCertificate
from unlazy.certificates.verdicts import DotProductCertificate as DotProductCertificate
from unlazy.certificates.verdicts import ParityCertificate as ParityCertificate
