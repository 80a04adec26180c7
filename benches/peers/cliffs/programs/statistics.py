"""Densities of distrax and numpyro, steps of blackjax's samplers, evosax's strategies."""

import jax
import jax.numpy as jnp
import numpy as np

NEEDS = ("tensorflow_probability", "distrax", "numpyro", "blackjax")


def programs():
    import blackjax
    import distrax
    import numpyro.distributions as dist

    r = np.random.RandomState(0)
    x = r.randn(512).astype(np.float32)
    p = np.abs(x) + 0.1
    u = (1 / (1 + np.exp(-x))).astype(np.float32)
    key = np.array([0, 7], np.uint32)
    found = {}
    for name, make, at in (
        ("normal", lambda: distrax.Normal(0.3, 1.2), x),
        ("laplace", lambda: distrax.Laplace(0.3, 1.2), x),
        ("logistic", lambda: distrax.Logistic(0.3, 1.2), x),
        ("gumbel", lambda: distrax.Gumbel(0.3, 1.2), x),
        ("gamma", lambda: distrax.Gamma(2.0, 1.5), p),
        ("beta", lambda: distrax.Beta(2.0, 3.0), u),
    ):
        found[f"distrax_{name}"] = (lambda x, m=make: m().log_prob(x), at)
        found[f"distrax_{name}_sample"] = (lambda k, m=make: m().sample(seed=k, sample_shape=(256,)), key)
    for name, make, at in (
        ("student_t", lambda: dist.StudentT(3.0, 0.1, 1.1), x),
        ("cauchy", lambda: dist.Cauchy(0.1, 1.1), x),
        ("half_normal", lambda: dist.HalfNormal(1.1), p),
        ("weibull", lambda: dist.Weibull(1.1, 2.0), p),
        ("inverse_gamma", lambda: dist.InverseGamma(2.0, 1.5), p),
        ("kumaraswamy", lambda: dist.Kumaraswamy(2.0, 3.0), u),
        ("von_mises", lambda: dist.VonMises(0.2, 1.5), x),
        ("mixture", lambda: dist.MixtureSameFamily(
            dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(jnp.array([0.0, 2.0]), 1.0)), x),
    ):
        found[f"numpyro_{name}"] = (lambda x, m=make: m().log_prob(x), at)
        found[f"numpyro_{name}_gradient"] = (
            lambda x, m=make: jax.grad(lambda x: m().log_prob(x).sum())(x),
            at,
        )

    density = lambda x: -0.5 * jnp.sum(x**2 * jnp.arange(1, 9)) + jnp.sum(jnp.cos(x))
    start = r.randn(8).astype(np.float32)

    def chain(sampler):
        def run(x, key):
            step = lambda state, k: (sampler.step(k, state)[0],) * 2
            _, states = jax.lax.scan(step, sampler.init(x), jax.random.split(key, 50))
            return states.position

        return run

    inverse = np.ones(8, np.float32)
    found["blackjax_hmc"] = (chain(blackjax.hmc(density, 0.1, inverse, 8)), start, key)
    found["blackjax_mala"] = (chain(blackjax.mala(density, 0.1)), start, key)
    found["blackjax_walk"] = (
        chain(blackjax.additive_step_random_walk(density, blackjax.mcmc.random_walk.normal(inverse * 0.1))),
        start,
        key,
    )
    for name in ("normal", "uniform", "gumbel", "exponential", "laplace", "cauchy", "bits", "logistic"):
        draw = getattr(jax.random, name)
        found[f"random_{name}"] = (lambda k, d=draw: d(k, (4096,)), key)
    found["random_permutation"] = (lambda k: jax.random.permutation(k, 1024), key)
    found["random_categorical"] = (lambda k, x: jax.random.categorical(k, x.reshape(16, 32)), key, x)
    found["random_gamma"] = (lambda k: jax.random.gamma(k, 2.0, (512,)), key)
    found["random_swaps"] = (swaps, x)
    return found


def swaps(x):
    """Swaps elements at random positions."""

    def body(i, x):
        a, b = jax.random.randint(jax.random.key(i), (2,), 0, x.shape[0])
        first, second = x[a], x[b]
        return x.at[a].set(second).at[b].set(first)

    return jax.lax.fori_loop(0, 1000, body, x)
