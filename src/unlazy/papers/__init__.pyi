from unlazy.papers import allenzhu_li2019 as allenzhu_li2019
from unlazy.papers import allenzhu_li_liang2019 as allenzhu_li_liang2019
from unlazy.papers import arora2019 as arora2019
from unlazy.papers import bai_lee2020 as bai_lee2020
from unlazy.papers import nichani2022 as nichani2022
from unlazy.papers import shared as shared
from unlazy.papers.catalogue import get as get
from unlazy.papers.catalogue import names as names
