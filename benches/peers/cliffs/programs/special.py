"""jax.scipy.special, jax.nn and jax.numpy functions, one program each."""

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np

NEEDS = ()
POSITIVE = np.linspace(0.05, 9, 4096, dtype=np.float32)
WIDE = np.random.RandomState(0).randn(4096).astype(np.float32) * 3
UNIT = np.linspace(0.01, 0.99, 4096, dtype=np.float32)
SCORES = np.random.RandomState(1).randn(8, 8, 64, 64).astype(np.float32)


def causal_softmax(x):
    mask = jnp.tril(jnp.ones(x.shape[-2:], bool))
    return jax.nn.softmax(jnp.where(mask, x, jnp.finfo(x.dtype).min), -1)


def programs():
    found = {}
    for name in ("digamma", "gammaln", "exp1", "zeta_of_2", "i0", "i0e", "i1", "i1e"):
        function = getattr(special, name, None) or (lambda x: special.zeta(x + 1, 2.0))
        found[name] = (function, POSITIVE)
    for name in ("erf", "erfc", "expit", "log_ndtr", "ndtr", "entr", "expi", "logsumexp"):
        found[name] = (getattr(special, name), WIDE)
    for name in ("erfinv", "ndtri", "logit", "xlogy_self"):
        function = getattr(special, name, None) or (lambda x: special.xlogy(x, x))
        found[name] = (function, UNIT)
    for name in ("gelu", "silu", "softplus", "elu", "selu", "log_sigmoid", "soft_sign", "mish", "celu"):
        found[f"nn_{name}"] = (getattr(jax.nn, name), SCORES)
    for name in ("exp", "expm1", "tanh", "sinh", "cosh", "log1p", "sin", "cbrt", "arctan", "arcsinh", "exp2"):
        found[f"np_{name}"] = (getattr(jnp, name), SCORES)
    found["softmax"] = (jax.nn.softmax, SCORES)
    found["log_softmax"] = (jax.nn.log_softmax, SCORES)
    found["causal_softmax"] = (causal_softmax, SCORES)
    found["power"] = (lambda x: jnp.abs(x) ** 2.3, SCORES)
    found["remainder"] = (lambda x: jnp.remainder(x, 0.7), SCORES)
    found["fmod"] = (lambda x: jnp.fmod(x, 0.7), SCORES)
    found["betainc"] = (lambda x: special.betainc(2.0, 3.0, x), UNIT)
    found["gammainc"] = (lambda x: special.gammainc(2.5, x), POSITIVE)
    found["expn_2"] = (lambda x: special.expn(2, x), POSITIVE)
    found["nanmean"] = (lambda x: (jnp.nanmean(x, -1), jnp.nanvar(x, -1)), SCORES)
    found["sort"] = (lambda x: jnp.sort(x, -1), SCORES)
    found["argsort"] = (lambda x: jnp.argsort(x, -1), SCORES)
    found["median"] = (lambda x: jnp.median(x, -1), SCORES)
    found["cumlogsumexp"] = (lambda x: jax.lax.cumlogsumexp(x, axis=3), SCORES)
    found["top_k"] = (lambda x: jax.lax.top_k(x, 8), SCORES)
    return found
