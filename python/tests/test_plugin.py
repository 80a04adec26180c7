"""The plug-in inside JAX: `python -m pytest python/tests` with tegula-jax installed, or with
PYTHONPATH=python/src and TEGULA_LIBRARY.
"""

import os
import subprocess
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import xla_bridge
from jax.experimental import io_callback


def test_tegula_is_the_cpu():
    client = jax.devices()[0].client
    assert client.platform == "cpu" and "tegula" in client.platform_version
    kinds = [memory.kind for memory in jax.devices()[0].addressable_memories()]
    assert kinds == ["device", "pinned_host", "unpinned_host"]


def test_private_names_are_there():
    # backend.py uses these; a version of JAX that lacks one needs another way.
    for name in ("register_backend_factory", "register_plugin", "make_cpu_client",
                 "make_pjrt_c_api_client", "_nonexperimental_plugins", "num_cpu_devices",
                 "_CPU_ENABLE_ASYNC_DISPATCH"):
        assert hasattr(xla_bridge, name), name


def test_gradients():
    f = lambda x, w: jnp.tanh(x @ w).sum()
    x, w = jnp.ones((3, 4)), jnp.full((4, 2), 0.1)
    gradient = jax.jit(jax.grad(f, 1))(x, w)
    np.testing.assert_allclose(gradient, np.full((4, 2), 3 * (1 - np.tanh(0.4) ** 2)), rtol=1e-5)


def test_arrays_are_not_copied_to_numpy():
    x = jnp.arange(10.0)
    assert np.asarray(x).ctypes.data == x.unsafe_buffer_pointer()


def test_donation():
    x = jnp.ones(1000)
    pointer = x.unsafe_buffer_pointer()
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted() and y.unsafe_buffer_pointer() == pointer


def test_callbacks():
    sine = lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    np.testing.assert_allclose(jax.jit(sine)(jnp.arange(3.0)), np.sin([0, 1, 2]), rtol=1e-6)
    seen = []
    note = lambda x: io_callback(lambda v: seen.append(float(v)), None, x, ordered=True)

    @jax.jit
    def loop(x):
        return jax.lax.fori_loop(0, 3, lambda i, x: (note(x), x + 1)[1], x)

    jax.block_until_ready(loop(0.0))
    jax.effects_barrier()
    assert seen == [0.0, 1.0, 2.0]


def test_callbacks_change_results_in_place():
    from jax.experimental.buffer_callback import buffer_callback

    def add(context, out, x, y):
        total = np.asarray(out)
        total += np.asarray(x) + 2 * np.asarray(y)

    def call(x, y):
        shape = jax.ShapeDtypeStruct(y.shape, y.dtype)
        return buffer_callback(add, shape, input_output_aliases={1: 0})(x, y), y

    x, y = jnp.arange(4.0), jnp.full(4, 10.0)
    total, kept = jax.jit(call)(x, y)
    # The second operand is the result's memory, but for its other users it is what it was.
    np.testing.assert_array_equal(total, np.arange(4) + 30)
    np.testing.assert_array_equal(kept, np.full(4, 10))


def test_what_only_keeps_operations_is_nothing_to_do():
    from jax.experimental.control_deps import control_dep

    def f(x):
        y, z = jnp.sin(x), jnp.cos(x)
        control_dep(y, z)
        jax.lax.dce_sink(y, prevent_mlir_dce=True)
        return y + z

    np.testing.assert_allclose(jax.jit(f)(1.0), np.sin(1.0) + np.cos(1.0), rtol=1e-6)


def test_callbacks_may_call_jax_and_fail():
    inner = lambda x: np.asarray(jax.jit(lambda y: y * 2)(x))
    outer = lambda x: jax.pure_callback(inner, jax.ShapeDtypeStruct((), jnp.float32), x)
    assert jax.jit(outer)(jnp.float32(3)) == 6

    def fails(x):
        raise ValueError("not today")

    bad = lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((), jnp.float32), x)
    with pytest.raises(jax.errors.JaxRuntimeError, match="not today"):
        jax.block_until_ready(jax.jit(bad)(jnp.float32(3)))


@pytest.mark.parametrize("dims", [(5, 5), (2, 3, 6, 4)])
def test_linear_algebra(dims):
    a = np.random.RandomState(0).randn(*dims).astype(np.float32)
    np.testing.assert_allclose(
        jnp.linalg.svd(a, compute_uv=False), np.linalg.svd(a, compute_uv=False), rtol=1e-4
    )
    q, r = jnp.linalg.qr(a)
    np.testing.assert_allclose(q @ r, a, atol=1e-5)


def test_narrow_types():
    x = jnp.array([-8, -1, 0, 7], jnp.int4)
    np.testing.assert_array_equal(np.asarray(x + jnp.int4(0)).astype(int), [-8, -1, 0, 7])


def run(script, **variables):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True,
        env={**os.environ, **variables}, timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


VERSION = "import jax; print(jax.devices()[0].client.platform_version)"


def test_slots():
    assert run(VERSION, TEGULA_SLOT="off")[0] == "cpu"
    out, err = run(VERSION, TEGULA_LIBRARY="/none.so")
    assert out == "cpu" and err.count("\n") == 0 and "XLA's CPU backend is" in err
    beside = """
import jax
for name in ("cpu", "tegula"):
    print("tegula" in jax.devices(name)[0].client.platform_version)
"""
    assert run(beside, TEGULA_SLOT="tegula", JAX_PLATFORMS="cpu,tegula")[0] == "False\nTrue"


def test_persistent_cache(tmp_path):
    script = """
import jax, jax.numpy as jnp
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
jax.jit(lambda x: jnp.tanh(x) + 1)(jnp.ones(3)).block_until_ready()
print(sum("cache_hits" in hit for hit in hits))
"""
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    assert run(script, **settings)[0] == "0"
    assert int(run(script, **settings)[0]) > 0


STEPS = """
import os, signal, threading, time
import jax, jax.numpy as jnp

steps = jax.jit(lambda x, n: jax.lax.fori_loop(0, n, lambda i, x: x * 1664525 + 1013904223, x))
x = steps(jnp.uint32(1), 3).block_until_ready()
"""


def test_calls_return_before_their_runs():
    # `steps` is short at first; one long run says that it is no longer.
    script = STEPS + """
steps(x, 100_000_000).block_until_ready()
begin = time.monotonic()
y = steps(x, 300_000_000)
called = time.monotonic() - begin
z = y + 1
assert not y.is_ready() and not z.is_ready()
z.block_until_ready()
done = time.monotonic() - begin
assert called < done / 2, (called, done)
print(int(z) - int(y))
"""
    assert run(script)[0] == "1"


def test_calls_wait_if_asked_to():
    asked = "import jax\njax.config.update('jax_cpu_enable_async_dispatch', False)\n"
    # The second knows from the first that its run is long.
    run(asked + STEPS + "assert all([steps(x, 100_000_000).is_ready() for _ in range(2)])\n")


def test_long_runs_can_be_interrupted():
    # Processes in the background of a shell ignore Ctrl-C unless they say otherwise.
    script = STEPS + """
signal.signal(signal.SIGINT, signal.default_int_handler)
endless = jax.jit(lambda x: jax.lax.while_loop(lambda x: x < 2, lambda x: x * 0, x))
y = endless(jnp.float32(1))
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    y.block_until_ready()
except KeyboardInterrupt:
    print("interrupted")
"""
    begin = time.monotonic()
    assert run(script)[0] == "interrupted"
    assert time.monotonic() - begin < 30


def test_processes_end_and_fork_while_something_runs():
    # In a forked child jaxlib cannot compile, so both run what was compiled before.
    script = STEPS + """
expected = int(steps(x, 3))
y = steps(x, 2_000_000_000)
child = os.fork()
if child == 0:
    os._exit(int(int(steps(x, 3)) != expected))
print(os.waitpid(child, 0)[1])
steps(y, 2_000_000_000)
"""
    begin = time.monotonic()
    assert run(script)[0] == "0"
    assert time.monotonic() - begin < 30


def test_costs():
    f = lambda x, w: jnp.tanh(x @ w).sum()
    compiled = jax.jit(f).lower(jnp.ones((64, 128)), jnp.ones((128, 32))).compile()
    costs = compiled.cost_analysis()
    # Products and sums, and the sum of the results.
    assert costs["flops"] == pytest.approx(2 * 64 * 128 * 32, rel=0.01)
    assert costs["transcendentals"] == 64 * 32
    least = 4 * (64 * 128 + 128 * 32 + 1)
    assert least <= costs["bytes accessed"] <= 2 * least


def test_programs_are_dumped_as_they_arrive(tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    monkeypatch.setenv("TEGULA_DUMP", str(folder))
    jax.jit(lambda x: jnp.sin(x) * 3.25)(np.ones(7, "float32")).block_until_ready()
    programs = [file for file in folder.iterdir() if b"sine" in file.read_bytes()]
    assert len(programs) == 1
    if command := os.environ.get("TEGULA_COMMAND"):
        text = subprocess.check_output([command, "compile", programs[0], "--emit", "hlo"], text=True)
        assert "sine(" in text
    # A folder that cannot be made is an error, not a silence.
    monkeypatch.setenv("TEGULA_DUMP", str(programs[0]))
    with pytest.raises(jax.errors.JaxRuntimeError, match="TEGULA_DUMP: cannot write"):
        jax.jit(lambda x: jnp.cos(x) * 3.25)(np.ones(7, "float32")).block_until_ready()


@pytest.mark.skipif(not os.environ.get("TEGULA_COMMAND"), reason="TEGULA_COMMAND is not set")
def test_explanations(tmp_path):
    import tegula.jax

    f = jax.jit(lambda x, w: jnp.tanh(x @ w).sum())
    explained = tegula.jax.explain(f, jax.ShapeDtypeStruct((8, 4), "float32"), np.ones((4, 2)))
    assert "tanh" in str(explained) and "dot" in str(explained)
    assert "kernel" in explained.plan
    assert "d0" in explained.maps()
    page = explained.save(tmp_path / "page.html").read_text()
    assert "tanh" in page
    with pytest.raises(RuntimeError, match="nothing"):
        explained.maps("nothing")
