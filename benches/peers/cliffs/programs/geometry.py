"""Rotations of jaxlie and e3nn, interpax's splines, images of dm-pix, s2fft's transforms."""

import jax
import jax.numpy as jnp
import numpy as np

NEEDS = ("jaxlie", "e3nn_jax", "interpax", "dm_pix")


def programs():
    import dm_pix
    import e3nn_jax
    import interpax
    import jaxlie

    r = np.random.RandomState(0)
    found = {}
    for group, size in (("SO2", 1), ("SE2", 3), ("SO3", 3), ("SE3", 6)):
        kind = getattr(jaxlie, group)
        vectors = (r.randn(64, size) * 0.7).astype(np.float32)
        found[f"jaxlie_{group}_exp_log"] = (jax.vmap(lambda v, k=kind: k.exp(v).log()), vectors)
        found[f"jaxlie_{group}_product"] = (
            jax.vmap(lambda v, k=kind: (k.exp(v) @ k.exp(v * 0.5).inverse()).as_matrix()), vectors)
        found[f"jaxlie_{group}_gradient"] = (
            jax.vmap(jax.grad(lambda v, k=kind: jnp.sum(k.exp(v).adjoint() ** 2))), vectors)

    points = r.randn(32, 3).astype(np.float32)
    found["e3nn_harmonics"] = (
        lambda x: e3nn_jax.spherical_harmonics("0e + 1o + 2e + 3o", x, normalize=True).array, points)
    found["e3nn_product"] = (
        lambda x: e3nn_jax.tensor_product(e3nn_jax.IrrepsArray("1o", x), e3nn_jax.IrrepsArray("1o", x[::-1])).array,
        points)
    found["e3nn_bessel"] = (lambda x: e3nn_jax.bessel(jnp.abs(x[:, 0]) + 0.1, 8, 2.0), points)

    knots = np.linspace(0, 1, 20).astype(np.float32)
    heights = r.randn(20).astype(np.float32)
    places = r.rand(200).astype(np.float32)
    for method in ("nearest", "linear", "cubic", "cubic2", "catmull-rom", "monotonic", "akima"):
        found[f"interpax_{method}"] = (
            lambda q, x, y, m=method: interpax.interp1d(q, x, y, method=m), places, knots, heights)
    grid = r.randn(20, 20).astype(np.float32)
    found["interpax_2d"] = (
        lambda q, x, f: interpax.interp2d(q, q[::-1], x, x, f, method="cubic"), places, knots, grid)

    image = r.rand(24, 24, 3).astype(np.float32)
    for name, change in (
        ("brightness", lambda x: dm_pix.adjust_brightness(x, 0.2)),
        ("contrast", lambda x: dm_pix.adjust_contrast(x, 1.3)),
        ("hue", lambda x: dm_pix.adjust_hue(x, 0.1)),
        ("saturation", lambda x: dm_pix.adjust_saturation(x, 0.4)),
        ("blur", lambda x: dm_pix.gaussian_blur(x, 1.2, 5)),
        ("solarize", lambda x: dm_pix.solarize(x, 0.5)),
        ("rotate", lambda x: dm_pix.rotate(x, 0.4)),
        ("ssim", lambda x: dm_pix.ssim(x, x * 0.9)),
        ("depth_to_space", lambda x: dm_pix.space_to_depth(x, 2)),
        ("elastic", lambda x: dm_pix.elastic_deformation(jax.random.key(0), x, alpha=4.0, sigma=2.0)),
    ):
        found[f"pix_{name}"] = (change, image)
    return found
