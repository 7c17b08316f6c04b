# SPDX-License-Identifier: Apache-2.0
"""What theory and earlier measurements say of the extraction, as numbers."""

from collections.abc import Iterator

from unlazy.experiments import CellResult, Claim, Results
from unlazy.papers.bai_lee2020.figures.exponents import curve, exponent_claim
from unlazy.papers.bai_lee2020.figures.extraction.config import Config, Extraction

# BL-43, m = 2^6 to 2^16, 8 seeds: the terms 1 to k + 1.
_RECORDED = {
    2: ("-.236", "-.006", "-.731"),
    3: ("-.149", "-.357", "-.006", "-.701"),
    4: ("-.120", "-.252", "-.394", "-.024", "-.662"),
}
# BL-44, the exponent of the rest, and at m = 65536 the rest and the whole.
_RECORDED_BLOCK = {
    2: ("-.51", 1.8e-4, 0.248),
    3: ("-.33", 8.5e-4, 0.142),
    4: ("-.26", 7.4e-4, 0.045),
    5: ("-.19", 4.9e-4, 0.017),
}
_RECORDED_FIRST = {2: (0.045, 0.248), 3: (0.135, 0.143), 4: (0.289, 0.046)}
_AT = 65536


def of(results: Results, config: Extraction) -> list[CellResult]:
    """The results of a cell's configuration, one per seed."""
    return [result for cell, result in results.items() if cell.config == config]


def theory(order: int, term: int) -> float:
    """BL-43: the exponent of a term of the sampled form with symmetric nodes."""
    return 0.0 if term == order else -term / (2 * order)


def claims(config: Config, results: Results) -> list[Claim]:
    listed: list[Claim] = []
    for k in config.orders:
        listed += _sampled(k, of(results, config.sampled(k)))
    listed.append(_asymmetric(of(results, config.asymmetric())))
    for k in config.orders:
        listed.append(_domination(config, k, of(results, config.sampled(k))))
    for k in (*config.orders, *config.further):
        listed += _block(config, k, of(results, config.block(k)))
    return listed


def _sampled(k: int, seeds: list[CellResult]) -> Iterator[Claim]:
    for j, record in enumerate(_RECORDED[k], start=1):
        fit, expected = curve(seeds, f"f{j}").exponent, theory(k, j)
        said = f"Sampled multipliers of order {k}: f^({j}) scales like m^({expected:.3g}): exponent"
        yield exponent_claim(f"BL-43/k{k}-f{j}", said, fit, expected, f"; recorded: {record}")


def _asymmetric(seeds: list[CellResult]) -> Claim:
    said = "Asymmetric nodes (0, 1, 3) of order 2 leave f^(3) at m^(-1/4), not m^(-3/4): exponent"
    fit = curve(seeds, "f3").exponent
    return exponent_claim("BL-43/asymmetric", said, fit, -0.25, "; recorded: -.243")


def _domination(config: Config, k: int, seeds: list[CellResult]) -> Claim:
    first, own = (curve(seeds, name).rms[-1] for name in ("f1", f"f{k}"))
    recorded_first, recorded_own = _RECORDED_FIRST[k]
    return Claim(
        f"BL-43/k{k}-dominates",
        f"f^({k}) is the largest term at the largest width: f^(1) / f^({k})",
        float(first / own),
        "<=",
        1.0,
        expected="refuted" if k in config.undominated else "holds",
        note=f"{first:.3f} against {own:.3f}; recorded at m = 65536: {recorded_first} against "
        f"{recorded_own}. It does in the limit.",
    )


def _block(config: Config, k: int, seeds: list[CellResult]) -> Iterator[Claim]:
    rest, whole = curve(seeds, "rest"), curve(seeds, "f")
    record, recorded_rest, recorded_whole = _RECORDED_BLOCK[k]
    said = f"All multiples of order {k} at once: f - f^({k}) falls like m^(-1/{k}): exponent"
    yield exponent_claim(f"BL-44/k{k}-rest", said, rest.exponent, -1 / k, f"; recorded: {record}")
    said = f"The terms below f^({k}) vanish identically: largest value of one"
    yield Claim(f"BL-44/k{k}-lower", said, float(curve(seeds, "lower").seeds.max()), "<=", 1e-11)
    if config.widths[-1] == _AT:
        yield Claim(
            f"BL-44/k{k}-share",
            f"At m = 65536 the rest is {recorded_rest:.1e} of f = {recorded_whole}, in "
            "proportion, to within a quarter: share",
            float(rest.rms[-1] / whole.rms[-1]),
            "in",
            (0.75 * recorded_rest / recorded_whole, 1.25 * recorded_rest / recorded_whole),
            note=f"{rest.rms[-1]:.2g} of {whole.rms[-1]:.3g}",
        )
