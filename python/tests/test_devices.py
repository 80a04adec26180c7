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
