"""One process of a job, which `test_processes.py` starts: `process_worker.py TASK COUNT NUMBER ADDRESS FOLDER`.

Eight devices are divided over COUNT processes. What the task finds is written to FOLDER.
"""

import os
import pathlib
import pickle
import signal
import sys

task, count, number, address, folder = sys.argv[1:]
count, number, folder = int(count), int(number), pathlib.Path(folder)
os.environ["JAX_NUM_CPU_DEVICES"] = str(8 // count)

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from sharded_programs import PROGRAMS

if count > 1:
    jax.distributed.initialize(address, count, number)


def shards(array):
    return {str(shard.index): np.asarray(shard.data) for shard in array.addressable_shards}


def programs():
    """The shards that this process has of each program's results."""
    results = {}
    # What is given to `pmap` are the arrays of one process alone.
    mapped = {"mapped_over_devices", "mapped_with_broadcast"}
    for name, make in PROGRAMS.items():
        if name in mapped:
            continue
        # Twice: numbers of runs tell their exchanges apart.
        for _ in range(2):
            f, arguments = make(jax.devices())
            results[name] = [shards(result) for result in jax.tree.leaves(f(*arguments))]
    return results


def devices():
    """What JAX says of the devices, and what its tools for several hosts do."""
    one = np.arange(3.0) + number
    mean = jnp.mean(jax.device_put(np.arange(4.0), jax.local_devices()[-1]))
    return {
        "all": [(device.id, device.process_index) for device in jax.devices()],
        "own": [device.id for device in jax.local_devices()],
        "process": (jax.process_index(), jax.process_count()),
        "gathered": multihost_utils.process_allgather(one),
        "broadcast": multihost_utils.broadcast_one_to_all(one),
        "alone": float(mean),
    }


def lost():
    """The last process dies while the others wait for it."""
    mesh = Mesh(np.array(jax.devices()), ("x",))
    x = jax.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda i: np.ones(8)[i])
    total = jax.jit(jnp.sum)
    assert float(total(x)) == 8
    if number == count - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        return float(total(x))
    except jax.errors.JaxRuntimeError as error:
        return str(error)


def disagree():
    """Processes that run different programs."""
    mesh = Mesh(np.array(jax.devices()), ("x",))
    x = jax.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda i: np.ones(8)[i])
    f = jnp.sum if number else lambda x: jnp.max(jnp.sin(x))
    try:
        return float(jax.jit(f)(x))
    except jax.errors.JaxRuntimeError as error:
        return str(error)


found = globals()[task]()
(folder / f"{number}.pickle").write_bytes(pickle.dumps(found))
# JAX's own shutdown waits for processes that are dead.
sys.stdout.flush()
if task in ("lost", "disagree"):
    os._exit(0)
