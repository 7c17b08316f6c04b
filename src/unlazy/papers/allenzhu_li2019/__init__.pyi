from unlazy.papers.allenzhu_li2019.algorithm import ResNetRun as ResNetRun
from unlazy.papers.allenzhu_li2019.algorithm import resnet_sgd as resnet_sgd
from unlazy.papers.allenzhu_li2019.concepts import BiasedConcept as BiasedConcept
from unlazy.papers.allenzhu_li2019.concepts import ResidualComplexity as ResidualComplexity
from unlazy.papers.allenzhu_li2019.concepts import ResidualConcept as ResidualConcept
from unlazy.papers.allenzhu_li2019.conditions import ResNetConstants as ResNetConstants
from unlazy.papers.allenzhu_li2019.conditions import resnet_sample_sizes as resnet_sample_sizes
from unlazy.papers.allenzhu_li2019.conditions import resnet_theory as resnet_theory
from unlazy.papers.allenzhu_li2019.coupling import resnet_coupling as resnet_coupling
from unlazy.papers.allenzhu_li2019.existence import resnet_weights as resnet_weights
from unlazy.papers.allenzhu_li2019.gaussian_norms import (
    sparse_gaussian_norm as sparse_gaussian_norm,
)
from unlazy.papers.allenzhu_li2019.gradients import resnet3_gradient as resnet3_gradient
from unlazy.papers.allenzhu_li2019.gradients import resnet3_patterns as resnet3_patterns
from unlazy.papers.allenzhu_li2019.parity_concepts import parities_concept as parities_concept
from unlazy.papers.allenzhu_li2019.parity_concepts import parity_concept as parity_concept
from unlazy.papers.allenzhu_li2019.parity_networks import ParityNetwork as ParityNetwork
from unlazy.papers.allenzhu_li2019.parity_networks import pad_inputs as pad_inputs
from unlazy.papers.allenzhu_li2019.parity_networks import parity_network as parity_network
from unlazy.papers.allenzhu_li2019.parity_networks import repeat_neurons as repeat_neurons
from unlazy.papers.allenzhu_li2019.progress import resnet_progress as resnet_progress
from unlazy.papers.allenzhu_li2019.recursive_kernels import (
    convolutional_kernel as convolutional_kernel,
)
from unlazy.papers.allenzhu_li2019.recursive_kernels import recursive_kernel as recursive_kernel
from unlazy.papers.allenzhu_li2019.resnet_kernel import resnet_ntk as resnet_ntk
from unlazy.papers.allenzhu_li2019.separations import (
    composed_sample_sizes as composed_sample_sizes,
)
from unlazy.papers.allenzhu_li2019.separations import resnet_times as resnet_times
from unlazy.papers.allenzhu_li2019.weight_norms import (
    rademacher_weight_norms as rademacher_weight_norms,
)
