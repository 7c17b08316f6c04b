from unlazy.papers.allenzhu_li2019.algorithm import ResNetRun as ResNetRun
from unlazy.papers.allenzhu_li2019.algorithm import resnet_sgd as resnet_sgd
from unlazy.papers.allenzhu_li2019.biased_concepts import BiasedConcept as BiasedConcept
from unlazy.papers.allenzhu_li2019.conditions import ResNetConstants as ResNetConstants
from unlazy.papers.allenzhu_li2019.conditions import ResNetSampleSizes as ResNetSampleSizes
from unlazy.papers.allenzhu_li2019.conditions import ResNetTheory as ResNetTheory
from unlazy.papers.allenzhu_li2019.conditions import resnet_sample_sizes as resnet_sample_sizes
from unlazy.papers.allenzhu_li2019.conditions import resnet_theory as resnet_theory
from unlazy.papers.allenzhu_li2019.existence import ResNetWeights as ResNetWeights
from unlazy.papers.allenzhu_li2019.existence import resnet_weights as resnet_weights
from unlazy.papers.allenzhu_li2019.gradients import ResNet3Gradient as ResNet3Gradient
from unlazy.papers.allenzhu_li2019.gradients import ResNet3Patterns as ResNet3Patterns
from unlazy.papers.allenzhu_li2019.gradients import resnet3_gradient as resnet3_gradient
from unlazy.papers.allenzhu_li2019.gradients import resnet3_patterns as resnet3_patterns
from unlazy.papers.allenzhu_li2019.parities_concepts import parities_concept as parities_concept
from unlazy.papers.allenzhu_li2019.parity_networks import ParityNetwork as ParityNetwork
from unlazy.papers.allenzhu_li2019.parity_networks import pad_inputs as pad_inputs
from unlazy.papers.allenzhu_li2019.parity_networks import parity_network as parity_network
from unlazy.papers.allenzhu_li2019.parity_networks import repeat_neurons as repeat_neurons
from unlazy.papers.allenzhu_li2019.residual_concepts import ResidualComplexity as ResidualComplexity
from unlazy.papers.allenzhu_li2019.residual_concepts import ResidualConcept as ResidualConcept
from unlazy.papers.allenzhu_li2019.residual_concepts import parity_concept as parity_concept
from unlazy.papers.allenzhu_li2019.resnet_kernel import resnet_ntk as resnet_ntk
from unlazy.papers.allenzhu_li2019.weight_norms import WeightNormBound as WeightNormBound
from unlazy.papers.allenzhu_li2019.weight_norms import (
    rademacher_weight_norms as rademacher_weight_norms,
)
