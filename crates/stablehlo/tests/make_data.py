"""Makes the programs in data/: needs `pip install jax flatbuffers`.

One function as text, as bytecode at several versions of VHLO and as bytecode without versions, one
with a symbolic size as `jax.export` serialises it, and one on a mesh of eight devices.
"""

import io
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jaxlib.mlir.dialects import stablehlo

out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "")


def mixed(x, w, idx):
    y = jnp.where(x > 0, jax.nn.softmax(x @ w), 1.0)
    g = jnp.take(y, idx, axis=0)

    def body(c):
        i, a = c
        return i + 1, a * 0.5 + g.sum()

    _, a = lax.while_loop(lambda c: c[0] < 3, body, (0, jnp.zeros(3)))
    s = jnp.sort(x, axis=1)
    c = lax.cond(idx[0] > 0, lambda: a, lambda: a + 1.0)
    return c, s.astype(jnp.bfloat16), jnp.cumsum(y, axis=0), (x > 0.5)


f = jax.jit(mixed)
low = f.lower(
    jax.ShapeDtypeStruct((4, 8), jnp.float32),
    jax.ShapeDtypeStruct((8, 8), jnp.float32),
    jax.ShapeDtypeStruct((2,), jnp.int32),
)
m = low.compiler_ir("stablehlo")
text = str(m)
open(out + "mixed.mlir", "w").write(text + "\n")
versions = {
    "1_0_0": "1.0.0",
    "1_9_0": "1.9.0",
    "newest": stablehlo.get_current_version(),
}
for name, version in versions.items():
    bytecode = stablehlo.serialize_portable_artifact_str(text, version)
    open(out + f"mixed_{name}.mlirbc", "wb").write(bytecode)
unversioned = io.BytesIO()
m.operation.write_bytecode(unversioned)
open(out + "mixed_unversioned.mlirbc", "wb").write(unversioned.getvalue())
(b,) = export.symbolic_shape("b", constraints=["b>=2"])


def poly(x, y):
    n = x.shape[0]
    return (
        jnp.concatenate([x.reshape(-1)[: n // 2 * 2], y]),
        (x.sum(axis=0) / n),
        jnp.pad(x, ((0, n), (1, 1))),
    )


e = export.export(jax.jit(poly))(
    jax.ShapeDtypeStruct((b, 8), jnp.float32),
    jax.ShapeDtypeStruct((b + 1,), jnp.float32),
)
open(out + "symbolic.jaxexport", "wb").write(e.serialize())

mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))


def placed(*axes):
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))


@jax.jit
def sharded(a, b):
    c = lax.with_sharding_constraint(a @ b, placed("x", "y"))
    total = jax.shard_map(
        lambda part: lax.psum(part, "y"),
        mesh=mesh,
        in_specs=jax.sharding.PartitionSpec("x", "y"),
        out_specs=jax.sharding.PartitionSpec("x", None),
    )
    return total(c)


e = export.export(sharded)(
    jax.ShapeDtypeStruct((8, 16), jnp.float32, sharding=placed("x", None)),
    jax.ShapeDtypeStruct((16, 8), jnp.float32, sharding=placed(None, ("x", "y"))),
)
open(out + "sharded.jaxexport", "wb").write(e.serialize())
