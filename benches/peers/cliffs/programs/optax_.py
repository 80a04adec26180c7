"""Twenty steps of optax's optimisers on a small regression, and its losses."""

import jax
import jax.numpy as jnp
import numpy as np

NEEDS = ("optax",)


def steps(optimiser):
    def run(w, x, y):
        loss = lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        def step(carry, _):
            import optax

            w, state = carry
            value, gradient = jax.value_and_grad(loss)(w)
            updates, state = optimiser.update(gradient, state, w)
            return (optax.apply_updates(w, updates), state), value

        return jax.lax.scan(step, (w, optimiser.init(w)), None, 20)

    return run


def programs():
    import optax

    r = np.random.RandomState(0)
    w, x, y = (r.randn(*s).astype(np.float32) for s in ((16,), (64, 16), (64,)))
    names = ("sgd", "adam", "adamw", "adagrad", "adabelief", "adamax", "lamb", "lion", "nadam")
    names += ("noisy_sgd", "novograd", "radam", "rmsprop", "sm3", "yogi", "fromage", "adadelta")
    found = {}
    for name in names:
        make = getattr(optax, name)
        arguments = {"seed": 0} if name == "noisy_sgd" else {}
        try:
            found[f"optax_{name}"] = (steps(make(1e-2, **arguments)), w, x, y)
        except TypeError:
            continue
    logits = r.randn(64, 10).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[r.randint(0, 10, 64)]
    found["optax_cross_entropy"] = (optax.softmax_cross_entropy, logits, labels)
    found["optax_sigmoid_cross_entropy"] = (optax.sigmoid_binary_cross_entropy, logits, labels)
    found["optax_huber"] = (optax.huber_loss, logits, labels)
    found["optax_log_cosh"] = (optax.log_cosh, logits, labels)
    return found
