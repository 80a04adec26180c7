"""Bijectors and densities of tensorflow-probability, Gaussian processes of tinygp, flowjax's flows."""

import jax
import jax.numpy as jnp
import numpy as np

NEEDS = ("tensorflow_probability", "tinygp", "flowjax")


def programs():
    import tinygp
    from flowjax import distributions, flows
    from tensorflow_probability.substrates import jax as tfp

    r = np.random.RandomState(0)
    x = np.sort(r.rand(40).astype(np.float32) * 5)
    y = np.sin(x).astype(np.float32)
    wide = r.randn(256).astype(np.float32)
    key = np.array([0, 7], np.uint32)
    found = {}
    tfd, tfb = tfp.distributions, tfp.bijectors
    for name, make, at in (
        ("skellam", lambda: tfd.Skellam(2.0, 1.0), np.round(wide)),
        ("student_t", lambda: tfd.StudentT(4.0, 0.1, 1.2), wide),
        ("sinh_arcsinh", lambda: tfd.SinhArcsinh(0.1, 1.2, 0.3, 0.9), wide),
        ("dirichlet", lambda: tfd.Dirichlet(jnp.array([1.5, 2.0, 0.7])), np.full((8, 3), 1 / 3, np.float32)),
        ("lkj", lambda: tfd.CholeskyLKJ(3, 1.5), np.broadcast_to(np.eye(3, dtype=np.float32), (4, 3, 3))),
        ("wishart", lambda: tfd.WishartTriL(5.0, jnp.eye(3)), np.eye(3, dtype=np.float32) * 2),
    ):
        found[f"tfp_{name}"] = (lambda v, m=make: m().log_prob(v), at)
    for name, make in (
        ("softplus", lambda: tfb.Softplus()),
        ("sigmoid", lambda: tfb.Sigmoid()),
        ("sinh_arcsinh", lambda: tfb.SinhArcsinh(0.2, 1.1)),
        ("ascending", lambda: tfb.Ascending()),
        ("softmax_centered", lambda: tfb.SoftmaxCentered()),
    ):
        found[f"tfp_bijector_{name}"] = (
            lambda v, m=make: (m().forward(v), m().forward_log_det_jacobian(v, event_ndims=1)),
            wide.reshape(32, 8))
    found["tfp_hidden_markov"] = (
        lambda o: tfd.HiddenMarkovModel(
            tfd.Categorical(probs=jnp.array([0.6, 0.4])),
            tfd.Categorical(probs=jnp.array([[0.9, 0.1], [0.2, 0.8]])),
            tfd.Normal(jnp.array([0.0, 2.0]), 1.0), 40).log_prob(o), y)

    for name in ("ExpSquared", "Exp", "Matern32", "Matern52", "RationalQuadratic", "Cosine"):
        kernel = getattr(tinygp.kernels, name)
        options = {"alpha": 1.3} if name == "RationalQuadratic" else {}
        found[f"tinygp_{name}"] = (
            lambda x, y, k=kernel, o=options: tinygp.GaussianProcess(
                k(**o), x, diag=0.1).log_probability(y), x, y)
    found["tinygp_predict"] = (
        lambda x, y: tinygp.GaussianProcess(
            tinygp.kernels.Matern32(1.2), x, diag=0.1).condition(y, x[:10] + 0.05).gp.loc, x, y)
    found["tinygp_quasisep"] = (
        lambda x, y: tinygp.GaussianProcess(
            tinygp.kernels.quasisep.Matern32(1.2), x, diag=0.1).log_probability(y), x, y)

    base = distributions.Normal(jnp.zeros(3))
    for name in ("masked_autoregressive_flow", "coupling_flow"):
        flow = getattr(flows, name)(jax.random.key(0), base_dist=base, nn_width=16, flow_layers=2)
        found[f"flowjax_{name}"] = (lambda v, f=flow: f.log_prob(v), r.randn(32, 3).astype(np.float32))
    planar = flows.planar_flow(jax.random.key(0), base_dist=base, flow_layers=2, invert=False)
    found["flowjax_planar_flow"] = (
        lambda k: planar.sample(jax.random.wrap_key_data(k), (16,)), key)
    return found
