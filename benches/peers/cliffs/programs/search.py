"""Strategies of evosax, jaxopt's solvers, ott's transport."""

import jax
import jax.numpy as jnp
import numpy as np

NEEDS = ("evosax", "jaxopt", "ott")


def strategy(name):
    """Twenty generations on a quadratic function."""
    from evosax.algorithms import algorithms

    make = algorithms[name]

    def run(key, mean):
        found = make(population_size=16, solution=jnp.zeros(4))
        settings = found.default_params
        key = jax.random.wrap_key_data(key)
        state = found.init(key, mean, settings)

        def generation(state, key):
            ask, tell = jax.random.split(key)
            xs, state = found.ask(ask, state, settings)
            cost = jnp.sum((xs - 0.5) ** 2 * jnp.arange(1, 5), -1)
            state, _ = found.tell(tell, xs, cost, state, settings)
            return state, jnp.min(cost)

        state, costs = jax.lax.scan(generation, state, jax.random.split(key, 20))
        return costs, found.get_mean(state) if hasattr(found, "get_mean") else costs

    return run


def programs():
    import jaxopt
    from ott.geometry import geometry, pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    r = np.random.RandomState(0)
    key = np.array([0, 7], np.uint32)
    found = {}
    for name in ("CMA_ES", "Sep_CMA_ES", "SimpleES", "Open_ES", "SNES", "xNES", "PGPE", "ARS"):
        found[f"evosax_{name}"] = (strategy(name), key, (r.randn(4) * 0.1).astype(np.float32))

    x, y = r.randn(64, 6).astype(np.float32), r.randn(64).astype(np.float32)
    start = np.zeros(6, np.float32)
    loss = lambda w, x, y: jnp.mean((x @ w - y) ** 2) + 1e-2 * jnp.sum(w**2)
    for name in ("GradientDescent", "LBFGS", "BFGS", "NonlinearCG"):
        solver = getattr(jaxopt, name)(loss, maxiter=30)
        found[f"jaxopt_{name}"] = (lambda w, x, y, s=solver: s.run(w, x, y).params, start, x, y)
    lasso = jaxopt.ProximalGradient(
        lambda w, x, y: jnp.mean((x @ w - y) ** 2), jaxopt.prox.prox_lasso, maxiter=50)
    found["jaxopt_lasso"] = (lambda w, x, y: lasso.run(w, 0.05, x, y).params, start, x, y)
    found["jaxopt_simplex"] = (jaxopt.projection.projection_simplex, y)
    residuals = lambda w, x, y: jnp.tanh(x @ w) - y
    fit = jaxopt.LevenbergMarquardt(residuals, maxiter=20)
    found["jaxopt_levenberg_marquardt"] = (lambda w, x, y: fit.run(w, x, y).params, start, x, y)
    found["jaxopt_isotonic"] = (jaxopt.isotonic.isotonic_l2_pav, y)

    def transport(a, b):
        cloud = pointcloud.PointCloud(a, b, epsilon=0.5)
        solved = sinkhorn.Sinkhorn(max_iterations=200)(linear_problem.LinearProblem(cloud))
        return solved.f, solved.g, solved.reg_ot_cost

    found["ott_sinkhorn"] = (transport, r.randn(24, 2).astype(np.float32), r.randn(20, 2).astype(np.float32))
    costs = r.rand(12, 12).astype(np.float32)
    found["ott_scalings"] = (
        lambda c: sinkhorn.Sinkhorn(lse_mode=False, max_iterations=100)(
            linear_problem.LinearProblem(geometry.Geometry(cost_matrix=c, epsilon=0.3))).matrix,
        costs)
    return found
