"""Pallas kernels on the simulated chip: `python -m pytest python/tests/test_pallas.py` with
tegula-jax installed, or with PYTHONPATH=python/src, TEGULA_LIBRARY and
`-p tegula.pallas.pytest_plugin`.
"""

import os
import subprocess
import sys
import textwrap

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tegula.pallas

HERE = os.path.basename(__file__)


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def add(x, y):
    return pl.pallas_call(add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


def matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def matmul(x, y, block=128):
    (m, k), (_, n) = x.shape, y.shape
    return pl.pallas_call(
        matmul_kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // block, n // block, k // block),
        in_specs=[
            pl.BlockSpec((block, block), lambda i, j, k: (i, k)),
            pl.BlockSpec((block, block), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((block, block), jnp.float32)],
    )(x, y)


@jax.custom_vjp
def product(x, y):
    return matmul(x, y)


product.defvjp(
    lambda x, y: (matmul(x, y), (x, y)),
    lambda kept, g: (matmul(g, kept[1].T), matmul(kept[0].T, g)),
)


def random(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def copy_kernel(waits):
    def kernel(x_ref, o_ref, buffer, sem):
        copy = pltpu.make_async_copy(x_ref, buffer, sem)
        copy.start()
        if waits:
            copy.wait()
        o_ref[...] = buffer[...] * 2  # here: race
        if not waits:
            copy.wait()

    return kernel


def double(x, waits=True):
    return pl.pallas_call(
        copy_kernel(waits),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
    )(x)


def test_values_come_back_under_every_transformation():
    x, y = random(256, 128), random(128, 256, seed=1)
    with tegula.pallas.simulator("v5e") as sim:
        np.testing.assert_allclose(add(x, x), 2 * x)
        np.testing.assert_allclose(jax.jit(product)(x, y), x @ y, rtol=1e-4, atol=1e-4)
        gradient = jax.jit(jax.grad(lambda x: product(x, y).sum()))(x)
        np.testing.assert_allclose(gradient, np.ones((256, 256)) @ y.T, rtol=1e-4, atol=1e-3)
        both = jax.vmap(add)(jnp.stack([x, x]), jnp.stack([x, 2 * x]))
        np.testing.assert_allclose(both[1], 3 * x, rtol=1e-6)
        scanned, _ = jax.lax.scan(lambda c, _: (add(c, c), None), jnp.asarray(x), None, length=3)
        np.testing.assert_allclose(scanned, 8 * x)
    assert not sim.findings and len(sim.runs) >= 7
    assert all(run.fits and run.seconds > 0 for run in sim.runs)
    assert sim.seconds == pytest.approx(sum(run.seconds for run in sim.runs))
    assert "matmul_kernel" in sim.report() and "no findings" in sim.report()


def test_gradients_through_jax_own_kernels():
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    q, k, v = (random(1, 1, 256, 128, seed=seed) for seed in range(3))
    sizes = flash.BlockSizes.get_default(1, 1, 256, 256, 128)
    attention = lambda q: flash.flash_attention(q, k, v, block_sizes=sizes).sum()
    reference = lambda q: flash.mha_reference(q, k, v, None).sum()
    with tegula.pallas.simulator("v5e") as sim:
        value, gradient = jax.jit(jax.value_and_grad(attention))(q)
    wanted, wanted_gradient = jax.value_and_grad(reference)(q)
    np.testing.assert_allclose(value, wanted, rtol=1e-3)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=1e-2, atol=1e-3)
    assert not sim.findings, sim.report()


def test_findings_are_at_their_lines():
    x = random(8, 128)
    with tegula.pallas.simulator("v5e") as sim:
        np.testing.assert_allclose(double(x), 2 * x)
        assert not sim.findings
        jax.block_until_ready(double(x, waits=False))
    source = open(__file__).read().splitlines()
    line = next(n for n, text in enumerate(source, 1) if "# here: race" in text and "o_ref" in text)
    [found] = sim.findings
    assert found.code == "TG040" and found.severity == "error"
    assert os.path.basename(found.file) == HERE and found.line == line
    assert f"{HERE}:{line}" in sim.report() and "buffer[...] * 2" in str(found)
    with tegula.pallas.simulator("v5e", races=False) as sim:
        jax.block_until_ready(double(x, waits=False))
    assert not sim.findings


def test_precision():
    x, y = random(128, 128), random(128, 128, seed=1)
    exact = x.astype(np.float64) @ y
    errors = {}
    for precision in ("f32", "tpu"):
        with tegula.pallas.simulator("v5e", precision=precision):
            errors[precision] = np.abs(matmul(x, y) - exact).max()
    assert errors["f32"] < 1e-4 < 1e-3 < errors["tpu"] < 1.0


def test_the_chip_is_asked():
    with tegula.pallas.simulator("v5e"):
        assert jax.devices()[0].device_kind == "TPU v5 lite"
        assert pltpu.get_tpu_info().vmem_capacity_bytes == 128 << 20
    with tegula.pallas.simulator("v5p"):
        assert pltpu.get_tpu_info().vmem_capacity_bytes == 64 << 20
        assert pltpu.get_tpu_info().num_cores == 2
    assert "TPU" not in jax.devices()[0].device_kind
    times = {}
    for chip in ("v5e", "v6e"):
        with tegula.pallas.simulator(chip, values=False) as sim:
            jax.block_until_ready(
                matmul(random(1024, 1024), random(1024, 1024), block=512)
            )
        times[chip] = sim.seconds
    assert times["v6e"] < times["v5e"]
    with pytest.raises(ValueError, match="expected one of v2"):
        with tegula.pallas.simulator("v99"):
            pass


def test_two_cores_share_parallel_dimensions():
    x = random(512, 512)
    times = {}
    for semantics in ("parallel", "arbitrary"):
        call = pl.pallas_call(
            lambda x_ref, o_ref: o_ref.__setitem__(..., jnp.dot(x_ref[...], x_ref[...].T)),
            out_shape=jax.ShapeDtypeStruct((512, 128), jnp.float32),
            grid=(4,),
            in_specs=[pl.BlockSpec((128, 512), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((128, 128), lambda i: (i, 0)),
            compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)),
        )
        for chip in ("v5p", "v5e"):
            with tegula.pallas.simulator(chip, values=False) as sim:
                jax.block_until_ready(call(x))
            times[semantics, chip] = sim.seconds
    assert times["parallel", "v5p"] < times["arbitrary", "v5p"]
    assert times["parallel", "v5e"] == times["arbitrary", "v5e"]


def test_random_bits_have_a_seed():
    def kernel(seed_ref, o_ref):
        pltpu.prng_seed(seed_ref[0])
        o_ref[...] = pltpu.prng_random_bits(o_ref.shape)

    call = pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct((64, 128), jnp.int32),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
    )
    with tegula.pallas.simulator("v5e") as sim:
        first, again, other = (np.asarray(call(jnp.array([seed]))) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).mean() > 0.99
    assert abs(np.unpackbits(first.view(np.uint8)).mean() - 0.5) < 0.01
    assert not sim.findings


def test_what_does_not_fit_is_a_finding():
    x = random(4096, 4096)
    with tegula.pallas.simulator("v5e") as sim:
        jax.block_until_ready(add(x, x))
    assert [found.code for found in sim.findings] == ["TG002"]
    assert not sim.runs[0].fits


def test_outside_of_the_block_nothing_has_changed():
    x = random(8, 128)
    with tegula.pallas.simulator("v5e"):
        jax.jit(add)(x, x)
    with pytest.raises(ValueError, match="interpret mode"):
        jax.jit(add)(x, x)


def test_interpreted_kernels_are_simulated():
    x = random(8, 128)
    call = pl.pallas_call(
        add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True
    )
    with tegula.pallas.simulator("v5e") as sim:
        np.testing.assert_allclose(jax.jit(call)(x, x), 2 * x)
    assert len(sim.runs) == 1


def test_element_types():
    for dtype in (jnp.bfloat16, jnp.int32, jnp.int8, jnp.uint32, jnp.float32):
        x = jnp.arange(32 * 128).reshape(32, 128).astype(dtype)
        with tegula.pallas.simulator("v6e") as sim:
            made = pl.pallas_call(
                lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]),
                out_shape=jax.ShapeDtypeStruct(x.shape, dtype),
            )(x)
        np.testing.assert_array_equal(np.asarray(made), np.asarray(x))
        assert not sim.findings


def test_kernels_without_a_grid():
    # `pl.kernel` and `core_map` are lowered by another rule, whose arguments differ with JAX's versions.
    x = random(16, 128)
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

    @pl.kernel(out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=mesh,
               scratch_types=[pltpu.VMEM(x.shape, x.dtype)])
    def double(x_ref, o_ref, buffer):
        pltpu.sync_copy(x_ref, buffer)
        buffer[...] = buffer[...] * 2
        pltpu.sync_copy(buffer, o_ref)

    with tegula.pallas.simulator("v5e") as sim:
        np.testing.assert_allclose(double(x), 2 * x)
    assert len(sim.runs) == 1 and not sim.findings, sim.report()


def test_kernels_print_and_check_themselves():
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        pl.debug_print("step {}", i)
        pl.debug_check(i < 1, "too many steps")  # here: fails
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    call = pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32), grid=(2,),
        in_specs=[block], out_specs=block,
    )
    x = random(16, 128)
    with pl.enable_debug_checks(), tegula.pallas.simulator("v5e") as sim:
        np.testing.assert_array_equal(jax.jit(call)(x), x)
    assert sim.printed == ["step 0", "step 1"] and "prints: step 1" in sim.report()
    source = open(__file__).read().splitlines()
    line = next(n for n, text in enumerate(source, 1) if text.endswith("# here: fails"))
    [found] = sim.findings
    assert (found.code, found.line) == ("TG070", line) and "too many steps" in found.message


def test_sizes_that_are_known_at_run_time():
    def kernel(place, x_ref, o_ref, buffer, sem):
        start, size = pl.multiple_of(place[0], 8), pl.multiple_of(place[1], 8)
        copy = pltpu.make_async_copy(x_ref.at[pl.ds(start, size)], buffer.at[pl.ds(0, size)], sem)
        copy.start()
        copy.wait()
        copy = pltpu.make_async_copy(buffer.at[pl.ds(0, size)], o_ref.at[pl.ds(0, size)], sem)
        copy.start()
        copy.wait()

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    call = jax.jit(pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), anywhere], out_specs=anywhere,
        scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    ))
    x = random(64, 128)
    with tegula.pallas.simulator("v5e") as sim:
        np.testing.assert_array_equal(call(jnp.array([24, 32]), x), x[24:56])
        assert not sim.findings, sim.report()
        # What is not copied was never written, and what is too much is out of bounds.
        jax.block_until_ready(call(jnp.array([0, 16]), x))
        assert [found.code for found in sim.findings] == ["TG030"], sim.report()
        sim.clear()
        jax.block_until_ready(call(jnp.array([48, 32]), x))
        assert "TG020" in [found.code for found in sim.findings], sim.report()


def test_logsumexp():
    # It asks which maxima are finite.
    x = random(16, 128)

    def kernel(x_ref, o_ref):
        o_ref[...] = jax.nn.logsumexp(x_ref[...], -1, keepdims=True)

    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 1), jnp.float32))
    with tegula.pallas.simulator("v5e") as sim:
        np.testing.assert_allclose(call(x), jax.nn.logsumexp(x, -1, keepdims=True), rtol=1e-5)
    assert not sim.findings


def test_private_names_are_there():
    # _jax.py uses these; a version of JAX that lacks one needs another way.
    from tegula.pallas import _jax

    _jax.names()


SEVERAL = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_num_cpu_devices", 4)
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
import tegula.pallas

mesh = Mesh(np.array(jax.devices()), ("x",))

def ring(x_ref, o_ref, send, receive, local, *, barrier):
    me = lax.axis_index("x")
    right, left = lax.rem(me + 1, 4), lax.rem(me + 3, 4)
    if barrier:
        ready = pltpu.get_barrier_semaphore()
        for other in (left, right):
            pl.semaphore_signal(ready, 1, device_id=(other,), device_id_type=pl.DeviceIdType.MESH)
        pl.semaphore_wait(ready, barrier)
    copy = pltpu.make_async_copy(x_ref, o_ref.at[me], local)
    copy.start()
    copy.wait()
    for step in range(3):
        slot = o_ref.at[lax.rem(me - step + 4, 4)]
        copy = pltpu.make_async_remote_copy(
            src_ref=slot, dst_ref=slot, send_sem=send, recv_sem=receive, device_id=(right,),
            device_id_type=pl.DeviceIdType.MESH)
        copy.start()
        copy.wait()

def gather(x, barrier):
    import functools
    call = pl.pallas_call(
        functools.partial(ring, barrier=barrier),
        out_shape=jax.ShapeDtypeStruct((4, 8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.SemaphoreType.DMA] * 3,
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )
    mapped = jax.shard_map(call, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    return jax.jit(mapped)(x)

x = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
with tegula.pallas.simulator("v5e") as sim:
    made = np.asarray(gather(x, 2)).reshape(4, 4, 8, 128)
    for device in range(4):
        np.testing.assert_array_equal(made[device], x.reshape(4, 8, 128))
    assert not sim.findings, sim.report()
    assert sim.runs[-1].devices == 4
    jax.block_until_ready(gather(x, 3))
    assert [f.code for f in sim.findings] == ["TG053"], sim.report()
    assert "core 0 waits" in sim.findings[0].message and "core 3 waits" in sim.findings[0].message
    print("good")
"""


def run(script, *arguments, **variables):
    done = subprocess.run(
        [sys.executable, *arguments, script], capture_output=True, text=True,
        env={**os.environ, **variables},
    )
    return done.returncode, done.stdout + done.stderr


def test_several_devices():
    code, said = run(SEVERAL, "-c", TEGULA_SLOT="off")
    assert code == 0 and "good" in said, said
    code, said = run(SEVERAL, "-c", TEGULA_SLOT="cpu")
    assert code != 0 and "TEGULA_SLOT=off" in said, said


def test_the_fixture(tmp_path):
    test = tmp_path / "test_kernels.py"
    test.write_text(textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
        import numpy as np, pytest, jax
        from test_pallas import double

        x = np.ones((8, 128), np.float32)

        def test_clean(pallas_simulator):
            assert (double(x) == 2).all() and pallas_simulator.runs

        def test_race(pallas_simulator):
            jax.block_until_ready(double(x, waits=False))

        @pytest.mark.pallas(chip="v6e", allow=["TG040"])
        def test_allowed(pallas_simulator):
            jax.block_until_ready(double(x, waits=False))
            assert pallas_simulator.chip == "v6e"
    """))
    arguments = ["-m", "pytest", "-p", "no:cacheprovider", "-q"]
    # Registered by the package where it is installed.
    import importlib.metadata

    points = importlib.metadata.entry_points(group="pytest11")
    if "tegula_pallas" not in points.names:
        arguments += ["-p", "tegula.pallas.pytest_plugin"]
    code, said = run(str(test), *arguments)
    assert code == 1 and "1 error" in said and "teardown of test_race" in said, said
    assert "TG040" in said and f"{HERE}:" in said, said
