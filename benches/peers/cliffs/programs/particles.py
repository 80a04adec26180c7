"""Potentials and time steps of jax-md, and numbers of other kinds by quax; layers of penzai."""

import jax
import jax.numpy as jnp
import numpy as np

NEEDS = ("jax_md", "quax", "penzai")


def programs():
    import quax
    from jax_md import energy, minimize, quantity, simulate, space
    from penzai.models.simple_mlp import MLP

    r = np.random.RandomState(0)
    key = np.array([0, 7], np.uint32)
    side = 4.0
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3) * (side / 3)
    places = (grid + r.randn(27, 3) * 0.03).astype(np.float32)
    displacement, shift = space.periodic(side)
    found = {}
    for name in ("soft_sphere_pair", "lennard_jones_pair", "morse_pair"):
        potential = getattr(energy, name)(displacement)
        found[f"jax_md_{name}"] = (lambda x, p=potential: (p(x), quantity.force(p)(x)), places)
    potential = energy.soft_sphere_pair(displacement)

    def steps(make):
        def run(x, key):
            first, step = make(potential)
            state = first(x, key)
            state = jax.lax.fori_loop(0, 20, lambda _, s: step(s), state)
            return state.position

        return run

    found["jax_md_nve"] = (
        lambda x, k: steps(lambda p: (
            lambda x, key: simulate.nve(p, shift, 1e-3)[0](jax.random.wrap_key_data(key), x, kT=0.1),
            simulate.nve(p, shift, 1e-3)[1]))(x, k),
        places, key)
    found["jax_md_fire"] = (
        lambda x, k: steps(lambda p: (
            lambda x, _: minimize.fire_descent(p, shift)[0](x),
            minimize.fire_descent(p, shift)[1]))(x, k),
        places, key)

    rows = r.randn(8, 12).astype(np.float32)
    a, b, m = (r.randn(*s).astype(np.float32) for s in ((8, 2), (2, 12), (12, 8)))

    def low_rank(rows, a, b, m):
        from quax.examples import lora

        weight = lora.LoraArray(rows, rank=2, key=jax.random.key(1))
        return quax.quaxify(lambda w, x: w @ x)(weight, m) + a @ (b @ m)

    found["quax_lora"] = (low_rank, rows, a, b, m)

    mlp = MLP.from_config(jax.random.key(0), [12, 16, 4])

    def layers(x):
        from penzai import pz

        return mlp(pz.nx.wrap(x).tag("batch", "features")).unwrap("batch", "features")

    found["penzai_mlp"] = (layers, rows)
    return found
