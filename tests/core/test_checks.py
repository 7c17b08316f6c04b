# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import activations, data, kernels
from unlazy.core import checks
from unlazy.core.errors import UnknownNameError
from unlazy.data import polynomials


def test_rows_are_named_and_cut():
    assert checks.some_rows(np.array([3])) == "row 3"
    assert checks.some_rows(np.array([3, 17, 20])) == "rows 3, 17 and 20"
    assert checks.some_rows(np.arange(9)) == "rows 0, 1, 2, 3, 4 and 4 more"


def test_good_input_passes():
    checks.check_inputs(np.eye(3))
    checks.check_labels(np.ones(3), 3)
    checks.check_labels(np.ones((3, 2)), 3)
    checks.check_gram(np.eye(3))
    checks.check_finite(1e300, "value")  # beyond float32, but finite
    checks.check_finite(np.full(3, 1.5e308), "value")  # also where their sum is not
    checks.check_finite(np.full(3, 3e38, np.float32), "value")
    checks.check_inputs(np.zeros((1, 2)), allow_zero_rows=True)
    checks.check_positive(10**30, "value")  # beyond 64 bits
    assert checks.as_number(-(2**70), "value") == -(2.0**70)


def test_values_are_not_looked_at_under_a_transformation():
    @jax.jit
    def inside(x):
        checks.check_inputs(x)
        checks.check_gram(x)
        return x

    assert jnp.isnan(inside(jnp.full((2, 2), jnp.nan))).all()


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: checks.check_finite(np.array([np.inf, 1, -np.inf]), "x"), "rows 0 and 2"),
        (lambda: checks.check_finite(_masked(), "x"), "`x` must be a plain array, got a masked"),
        (lambda: checks.check_finite(np.inf, "value"), "`value` must be finite, got value=inf"),
        (lambda: checks.check_count(2.0, "k"), "`k` must be an integer >= 1, got k=2.0"),
        (lambda: checks.check_count(True, "k"), "`k` must be an integer >= 1, got k=True"),
        (lambda: checks.check_count(-1, "k", least=0), "`k` must be an integer >= 0, got k=-1"),
        (lambda: checks.check_positive(-1.0, "lr"), "`lr` must be a positive number, got lr=-1.0"),
        (lambda: checks.check_positive(10**400, "lr"), "`lr` must be a positive number, got lr=10"),
        (lambda: checks.check_labels(np.ones((3, 0)), 3), "`y` must have shape"),
    ],
)
def test_each_mistake_has_its_message(check, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        check()


def test_unknown_names_suggest_the_nearest_and_list_all():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'beta'.* Known: alpha, beta"):
        checks.check_name("betta", ["alpha", "beta"], "letter")
    with pytest.raises(UnknownNameError, match=r"got letter='zzz'. Known: alpha"):
        checks.check_name("zzz", ["alpha"], "letter")


def test_known_values_are_checked_even_while_something_else_is_traced():
    known = np.eye(2)

    @jax.jit
    def inside(x):
        checks.check_inputs(known)
        checks.check_gram(known)
        return x

    assert inside(jnp.ones(())) == 1


NUMBERS = np.array([[2, 1], [1, 2]])
# What NumPy would cast to float64, and how each is named in the message.
OTHER_KINDS = {
    "complex128": NUMBERS + 1j,
    "<U21": NUMBERS.astype(str),
    r"\|S21": NUMBERS.astype("S"),
    r"datetime64\[D\]": NUMBERS.astype("M8[D]"),
    r"timedelta64\[s\]": NUMBERS.astype("m8[s]"),
    "object": NUMBERS.astype(object),
    r"\[\('a', '<i8'\)\]": NUMBERS.view([("a", "<i8")]),
    ">f8": NUMBERS.astype(">f8"),
    ">i4": NUMBERS.astype(">i4"),
    "float128": NUMBERS.astype(np.longdouble),
}
ENTRIES = {
    "as_array": lambda value: checks.as_array(value, "v"),
    "inputs": lambda value: checks.check_inputs(value, "v"),
    "labels": lambda value: checks.check_labels(value, 2, "v"),
    "gram": lambda value: checks.check_gram(value, "v"),
    "finite": lambda value: checks.check_finite(value, "v"),
    "kernel": lambda value: kernels.relu_gram(value),
    "operator": lambda value: kernels.operator(kernels.relu_gram, value),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_arrays_of_other_kinds_are_refused_by_name(kind, entry, no_shape_checker):
    if kind == "float128" and np.dtype(np.longdouble).itemsize <= 8:
        pytest.skip("here a long double is a double")
    with pytest.raises(ValueError, match=rf"`(v|x|x1)` must .* got (v|x|x1).dtype={kind}"):
        ENTRIES[entry](OTHER_KINDS[kind])


@pytest.mark.parametrize("entry", ENTRIES)
def test_masked_and_ragged_arrays_are_refused_by_name(entry, no_shape_checker):
    with pytest.raises(ValueError, match=r"`(v|x|x1)` must be a plain array, got a masked array"):
        ENTRIES[entry](np.ma.array(NUMBERS, mask=NUMBERS > 1))
    if entry != "operator":  # which looks at the shape first
        with pytest.raises(ValueError, match=r"`(v|x1)` must be an array of real numbers, got"):
            ENTRIES[entry]([[1, 2], [3]])


@pytest.mark.parametrize(
    "dtype", [bool, np.int8, np.uint8, np.int64, np.uint64, np.float16, jnp.bfloat16, np.float32]
)
def test_real_numbers_of_every_width_are_taken(dtype, no_shape_checker):
    values: list[Any] = [np.eye(2).astype(dtype), np.eye(2).astype(dtype).tolist()]
    for value in values:
        np.testing.assert_array_equal(np.asarray(checks.as_array(value), np.float64), np.eye(2))
        checks.check_inputs(value)
        checks.check_gram(value)
        checks.check_labels(value, 2)


@pytest.mark.parametrize("value", ["one", None, 1j, 10**30, np.datetime64("2020-01-01")])
def test_a_scalar_that_is_no_number_is_named(value, no_shape_checker):
    with pytest.raises(ValueError, match="`v` must be a real number, got v="):
        checks.check_finite(value, "v")


def test_a_list_of_traced_numbers_is_taken():
    @jax.jit
    def inside(a):
        checks.check_real([a, a], "v")
        return a

    assert inside(jnp.ones(())) == 1


def _masked():
    return np.ma.array([1.0, np.nan], mask=[False, True])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([2, 0, 2], [2, 0, 2]),
        ([-1, -4], [3, 0]),
        (slice(1, None, 2), [1, 3]),
        ([True, False, False, True], [0, 3]),
        (jnp.array([1, 3]), [1, 3]),
        (np.array([3], np.uint8), [3]),
    ],
)
def test_rows_are_chosen_as_numpy_chooses_them(rows, expected):
    found = checks.as_rows(rows, 4)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, np.arange(4)[rows])


@pytest.mark.parametrize("outside", [4, -5, 100, 2**40, -(2**40)])
def test_a_number_of_no_row_is_named(outside):
    message = f"`rows` must hold row numbers from -4 to 3, got {outside} among them"
    with pytest.raises(ValueError, match=message):
        checks.as_rows([0, outside], 4)


@pytest.mark.parametrize("rows", [[], [1.0], 3, [[0]], [True], slice(4, 9), "ab", None])
def test_what_chooses_no_rows_is_refused(rows):
    with pytest.raises(ValueError, match="`rows` must be a slice, a list of row numbers or 4 bool"):
        checks.as_rows(rows, 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda value: activations.polynomial(value),
        lambda value: polynomials.RidgePowers(value, np.eye(2), [1, 1]),
        lambda value: polynomials.RidgePowers([1.0, 1.0], np.array([value] * 2), [1, 1]),
        lambda value: polynomials.Monomials(value, [[0], [1]]),
        lambda value: data.LowPlusSparse([1.0], np.eye(2)[:1], [1], linear=value),
    ],
)
@pytest.mark.parametrize("value", [np.array([1j, 2]), np.array(["1", "2"])])
def test_coefficients_of_other_kinds_are_refused_before_they_are_cast(
    call, value, no_shape_checker
):
    with pytest.raises(ValueError, match=r"`\w+` must be an array of real numbers, got \w+.dtype="):
        call(value)
