# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np

from unlazy.core.jaxprs import equations, read, trace


def value(program, *arguments, **options):
    return read(program.run(arguments, **options), program.results[0])


def test_nested_calls_are_written_out_under_fresh_names():
    inner = jax.jit(lambda x, y: jnp.sin(x) * y)
    program = trace(lambda x: inner(x, 2.0) + jax.checkpoint(inner)(x, 3.0), jnp.ones(3))
    names = [step.eqn.primitive.name for step in program.steps]
    assert names.count("sin") == 2
    assert not {"jit", "pjit", "checkpoint", "remat2"} & set(names)
    results = [name for step in program.steps for name in step.results]
    assert len(set(results)) == len(results)
    x = jnp.arange(3.0)
    np.testing.assert_allclose(value(program, x), 5 * np.sin(x), rtol=1e-6)


def test_a_rule_of_ones_own_evaluates_other_values_than_arrays():
    program = trace(lambda x, y: x * y + 1.0, jnp.ones(()), jnp.ones(()))
    rules = {"mul": "({} * {})", "add": "({} + {})"}

    def rule(k, step, operands):
        return [rules[step.eqn.primitive.name].format(*operands)]

    assert value(program, "x", "y", rule=rule, constant=float) == "((x * y) + 1.0)"


def test_only_the_steps_that_a_result_depends_on_are_needed():
    def f(x):
        jnp.exp(x)  # dropped
        return jnp.sin(x) + 1.0

    program = trace(f, jnp.ones(()))
    names = [program.steps[k].eqn.primitive.name for k in program.needed()]
    assert names == ["sin", "add"]
    assert value(program, jnp.ones(()), only=program.needed()) == jnp.sin(1.0) + 1


def test_equations_within_loops_and_custom_derivatives_are_found():
    def f(x):
        return jax.lax.fori_loop(0, 3, lambda _, y: jnp.tanh(y), jax.nn.relu(x))

    names = {eqn.primitive.name for eqn in equations(jax.make_jaxpr(f)(jnp.ones(2)).jaxpr)}
    assert {"tanh", "max"} <= names
