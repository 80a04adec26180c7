"""Pallas kernels for TPUs on a simulated TPU, in a process without one.

    import tegula.pallas

    with tegula.pallas.simulator("v5e") as sim:
        y = model(x)          # unmodified code with pl.pallas_call, under jit, grad, vmap, shard_map
    print(sim.report())
    assert not sim.findings

Inside the block every `pallas_call` of a TPU kernel is lowered as for a TPU, and the lowered kernel
is run by Tegula's simulator: its values come back to JAX, and the simulator says what is wrong with
it (races, uninitialised and padded reads, bounds, alignment, memory, semaphores, deadlocks), at the
line of the Python source, and how long it takes on the chip.
"""

from ._report import Finding, Run
from ._simulator import SimulationError, Simulator, simulator

__all__ = ["Finding", "Run", "SimulationError", "Simulator", "simulator"]
