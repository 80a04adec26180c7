"""Games, control and physics: gymnax's environments, rlax's losses, mctx's search, brax's bodies."""

import jax
import jax.numpy as jnp
import numpy as np

NEEDS = ("gymnax", "rlax", "mctx", "brax")


def episode(name):
    """Fifty steps of an environment with random actions."""
    import gymnax

    environment, settings = gymnax.make(name)

    def run(key):
        key = jax.random.wrap_key_data(key)
        first, key = jax.random.split(key)
        _, state = environment.reset(first, settings)

        def step(carry, key):
            state, _ = carry
            draw, act = jax.random.split(key)
            action = environment.action_space(settings).sample(act)
            # The end of an episode is one flag, or two in newer releases.
            seen, state, reward, done, *_ = environment.step(draw, state, action, settings)
            return (state, reward), (seen, reward, done)

        return jax.lax.scan(step, (state, jnp.zeros_like(seen_reward(environment, state, settings))), jax.random.split(key, 50))[1]

    return run


def seen_reward(environment, state, settings):
    """A reward, for its type."""
    key = jax.random.key(0)
    action = environment.action_space(settings).sample(key)
    return environment.step(key, state, action, settings)[2]


def search(policy, **options):
    """A tree search with a tabular model."""
    import mctx

    def run(key, logits, values):
        table = jnp.tanh(jnp.sin(jnp.arange(16.0))[:, None] * logits[0])

        def recurrent(_, __, action, embedding):
            place = (embedding * 3 + action) % 16
            output = mctx.RecurrentFnOutput(
                reward=jnp.cos(place.astype(logits.dtype)),
                discount=jnp.full(place.shape, 0.9, logits.dtype),
                prior_logits=table[place],
                value=jnp.sin(place.astype(logits.dtype)),
            )
            return output, place

        root = mctx.RootFnOutput(
            prior_logits=logits, value=values, embedding=jnp.zeros(values.shape, jnp.int32)
        )
        found = getattr(mctx, policy)(
            (), jax.random.wrap_key_data(key), root, recurrent, num_simulations=16, **options
        )
        return found.action, found.action_weights

    return run


def body_chain():
    """Ten steps of a double pendulum in brax's generalised coordinates."""
    from brax.generalized import pipeline
    from brax.io import mjcf

    text = """<mujoco><option timestep="0.01"/><worldbody><body pos="0 0 1">
      <joint type="hinge" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.05"/>
      <body pos="0 0 -0.4"><joint type="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.05"/></body></body></worldbody></mujoco>"""
    system = mjcf.loads(text)

    def run(q, qd):
        state = pipeline.init(system, q, qd)
        step = lambda state, _: (pipeline.step(system, state, jnp.zeros(0)),) * 2
        _, states = jax.lax.scan(step, state, None, 10)
        return states.q, states.qd

    return run


def programs():
    import rlax

    r = np.random.RandomState(0)
    key = np.array([0, 7], np.uint32)
    rewards, values, ratios = (r.randn(50).astype(np.float32) for _ in range(3))
    discounts = np.full(50, 0.95, np.float32)
    logits, other = (r.randn(32, 6).astype(np.float32) for _ in range(2))
    actions = r.randint(0, 6, 32).astype(np.int32)
    found = {}
    for name in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "Catch-bsuite", "Breakout-MinAtar"):
        found[f"gymnax_{name}"] = (episode(name), key)
    found["rlax_lambda_returns"] = (lambda r, d, v: rlax.lambda_returns(r, d, v, 0.9), rewards, discounts, values)
    found["rlax_n_step"] = (lambda r, d, v: rlax.n_step_bootstrapped_returns(r, d, v, 5), rewards, discounts, values)
    found["rlax_vtrace"] = (
        lambda v, w, r, d, k: rlax.vtrace(v, w, r, d, jnp.exp(k)), values, values[::-1].copy(), rewards, discounts, ratios)
    found["rlax_advantages"] = (
        lambda r, d, v: rlax.truncated_generalized_advantage_estimation(r, d, 0.9, v),
        rewards, discounts, r.randn(51).astype(np.float32))
    found["rlax_q_learning"] = (
        jax.vmap(lambda q, a, n: rlax.q_learning(q, a, 0.5, 0.9, n)), logits, actions, other)
    found["rlax_policy_gradient"] = (
        lambda l, a, v: jax.grad(lambda l: rlax.policy_gradient_loss(l, a, v, jnp.ones(32)))(l),
        logits, actions, r.randn(32).astype(np.float32))
    found["rlax_categorical_project"] = (
        lambda p: rlax.categorical_l2_project(jnp.linspace(-1, 1, 11), p, jnp.linspace(-0.8, 0.8, 11)),
        np.full(11, 1 / 11, np.float32))
    found["mctx_muzero"] = (search("muzero_policy"), key, logits[:4], values[:4])
    found["mctx_gumbel"] = (search("gumbel_muzero_policy"), key, logits[:4], values[:4])
    found["brax_pendulum"] = (body_chain(), np.array([0.3, -0.2], np.float32), np.array([0.1, 0.4], np.float32))
    return found
