"""Programs for eight devices, compared with XLA's own CPU client, which is the slot `xlacpu`.

In a process of their own, as the number of devices is fixed when JAX starts:
`python -m pytest python/tests/test_devices.py`.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu,xlacpu"
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.serialize_executable import serialize
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from sharded_programs import PROGRAMS

if len(jax.devices()) < 8:
    pytest.skip("JAX was started with fewer devices", allow_module_level=True)


@pytest.fixture(scope="module")
def peers():
    return jax.devices("xlacpu")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, peers):
    results = []
    for devices in (jax.devices(), peers):
        with jax.default_device(devices[0]):
            f, arguments = PROGRAMS[name](devices)
            results.append(f(*arguments))
    ours, theirs = map(jax.tree.leaves, results)
    assert len(ours) == len(theirs)
    for own, peer in zip(ours, theirs):
        assert own.shape == peer.shape and own.dtype == peer.dtype
        assert own.sharding.shard_shape(own.shape) == peer.sharding.shard_shape(peer.shape)
        for shard in own.addressable_shards:
            np.testing.assert_allclose(shard.data, np.asarray(peer)[shard.index], rtol=2e-4,
                                       atol=2e-5)


def test_a_device_that_fails_ends_the_others():
    mesh = Mesh(np.array(jax.devices()), ("x",))

    def fails(i):
        if i == 3:
            raise ValueError("device three does not want to")
        return np.float32(i)

    def f(x):
        i = jax.lax.axis_index("x")
        own = jax.pure_callback(fails, jax.ShapeDtypeStruct((), jnp.float32), i)
        return jax.lax.psum(x + own, "x")

    f = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False))
    with pytest.raises(jax.errors.JaxRuntimeError, match="device three does not want to"):
        jax.block_until_ready(f(jnp.arange(8.0)))


def test_prints_of_each_device(capfd):
    mesh = Mesh(np.array(jax.devices()), ("x",))

    def f(x):
        jax.debug.print("has {x}", x=x)
        return x

    x = jnp.arange(8)
    f = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    np.testing.assert_array_equal(f(x), x)
    jax.effects_barrier()
    assert sorted(capfd.readouterr().out.split("\n")[:-1]) == [f"has [{i}]" for i in range(8)]


def test_parts_of_donated_arrays_are_used_again():
    mesh = Mesh(np.array(jax.devices()), ("x",))
    x = jax.device_put(jnp.ones((64, 128)), NamedSharding(mesh, P("x")))
    pointers = [shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards]
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    assert [s.data.unsafe_buffer_pointer() for s in y.addressable_shards] == pointers


def test_shardings_that_are_chosen_are_reported():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
    x = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("x", "y")))
    assert jax.jit(lambda x: x.T)(x).sharding.is_equivalent_to(
        NamedSharding(mesh, P("y", "x")), 2)


def along_the_sum(mesh, arguments, results):
    """The parts of a product and its square: each device's sums are added over the axis "y"."""

    def of_a_device(x, y):
        z = jax.lax.psum(x @ y, "y")
        return z, z * z

    return mesh, of_a_device, tuple(r.sharding for r in results), tuple(a.sharding for a in arguments)


def test_programs_are_told_how_arrays_are_cut():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    own = NamedSharding(mesh, P("x", None))
    seen = []

    @jax.jit
    def f(x):
        y = x @ x.T
        jax.debug.inspect_array_sharding(y, callback=seen.append)
        return y

    x = jax.device_put(jnp.arange(64.0).reshape(8, 8), own)
    np.testing.assert_allclose(f(x), np.asarray(x) @ np.asarray(x).T)
    assert len(seen) == 1 and seen[0].is_equivalent_to(own, 2), seen

    def fails(sharding):
        raise ValueError("not this one")

    with pytest.raises(Exception, match="not this one"):
        jax.jit(lambda x: jax.debug.inspect_array_sharding(x + 1, callback=fails))(x)


def test_custom_partitioning():
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    @custom_partitioning
    def product(x, y):
        z = x @ y
        return z, z * z

    product.def_partition(along_the_sum, sharding_rule="i j, j k -> i k, i k", reduction_factors=("j",))
    x = np.arange(32 * 16, dtype=np.float32).reshape(32, 16) / 64
    y = np.ones((16, 8), np.float32)
    arguments = [jax.device_put(x, NamedSharding(mesh, P("x", "y"))),
                 jax.device_put(y, NamedSharding(mesh, P("y", None)))]

    def f(x, y):
        z, squares = product(x, y)
        return z + 1, squares

    with jax.set_mesh(mesh):
        f = jax.jit(f)
        text = f.lower(*arguments).compile().as_text().replace("_", "-")
        assert "all-reduce" in text and "all-gather" not in text
        z, squares = f(*arguments)
        # Another process would not know the function.
        with pytest.raises(jax.errors.JaxRuntimeError, match="custom partitioning"):
            serialize(f.lower(*arguments).compile())
    assert z.sharding.is_equivalent_to(NamedSharding(mesh, P("x")), 2)
    np.testing.assert_allclose(z, x @ y + 1, rtol=1e-6)
    np.testing.assert_allclose(squares, (x @ y) ** 2, rtol=1e-6)


def test_errors_of_custom_partitioning_are_raised():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    @custom_partitioning
    def f(x):
        return x

    def cut(mesh, arguments, result):
        raise ValueError("nobody may cut this")

    f.def_partition(cut, sharding_rule="i -> i")
    x = jax.device_put(jnp.ones(8), NamedSharding(mesh, P("x")))
    with jax.set_mesh(mesh), pytest.raises(Exception, match="nobody may cut this"):
        jax.jit(f)(x)
