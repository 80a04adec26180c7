"""diffrax, optimistix and lineax: differential equations, roots, minima, linear systems."""

import jax.numpy as jnp
import numpy as np

NEEDS = ("diffrax", "optimistix", "lineax")


def lotka_volterra(t, y, args):
    return jnp.stack([y[0] * (1.1 - 0.4 * y[1]), y[1] * (0.1 * y[0] - 0.4)])


def programs():
    import diffrax
    import lineax
    import optimistix

    y0 = np.array([10.0, 10.0], np.float32)
    term = diffrax.ODETerm(lotka_volterra)
    found = {}

    def solve(solver, adaptive):
        control = diffrax.PIDController(1e-4, 1e-4) if adaptive else diffrax.ConstantStepSize()
        run = lambda y: diffrax.diffeqsolve(
            term, solver, 0.0, 10.0, 0.05, y, stepsize_controller=control, max_steps=1000
        ).ys
        return run

    for name in ("Euler", "Heun", "Midpoint", "Ralston", "Bosh3", "Tsit5", "Dopri5", "Dopri8"):
        solver = getattr(diffrax, name)()
        found[f"diffrax_{name}"] = (solve(solver, name not in ("Euler",)), y0)
    found["diffrax_Kvaerno3"] = (solve(diffrax.Kvaerno3(), True), y0)

    rosenbrock = lambda x, _: (1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2
    start = np.full(6, 0.3, np.float32)
    total = lambda x, _: jnp.sum(rosenbrock(x, _))
    for name in ("BFGS", "NelderMead", "LBFGS"):
        make = getattr(optimistix, name, None)
        if make is not None:
            solver = make(1e-4, 1e-4)
            run = lambda x, s=solver: optimistix.minimise(total, s, x, max_steps=256, throw=False).value
            found[f"optimistix_{name}"] = (run, start)
    for name in ("GaussNewton", "LevenbergMarquardt", "Dogleg"):
        solver = getattr(optimistix, name)(1e-4, 1e-4)
        run = lambda x, s=solver: optimistix.least_squares(
            rosenbrock, s, x, max_steps=256, throw=False
        ).value
        found[f"optimistix_{name}"] = (run, start)
    for name in ("Newton", "Chord"):
        solver = getattr(optimistix, name)(1e-5, 1e-5)
        root = lambda x, _: x - jnp.cos(x * 0.9)
        run = lambda x, s=solver: optimistix.root_find(root, s, x, max_steps=64, throw=False).value
        found[f"optimistix_{name}"] = (run, start)

    r = np.random.RandomState(0)
    a = r.randn(20, 20).astype(np.float32)
    spd, b = a @ a.T + 20 * np.eye(20, dtype=np.float32), r.randn(20).astype(np.float32)
    for name in ("LU", "QR", "SVD"):
        solver = getattr(lineax, name)()
        run = lambda m, v, s=solver: lineax.linear_solve(lineax.MatrixLinearOperator(m), v, s).value
        found[f"lineax_{name}"] = (run, a, b)
    for name in ("CG", "GMRES", "BiCGStab"):
        solver = getattr(lineax, name)(1e-5, 1e-5)
        run = lambda m, v, s=solver: lineax.linear_solve(
            lineax.MatrixLinearOperator(m, lineax.positive_semidefinite_tag), v, s, throw=False
        ).value
        found[f"lineax_{name}"] = (run, spd, b)
    return found
