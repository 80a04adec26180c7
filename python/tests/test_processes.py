"""Programs over the devices of several processes. Each process is one of its own; this one uses no device."""

import os
import pathlib
import pickle
import socket
import subprocess
import sys

import numpy as np
import pytest

WORKER = pathlib.Path(__file__).parent / "process_worker.py"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def job(task, count, folder, seconds=600):
    """Runs a task in so many processes: what each has found, and None of those that died."""
    folder.mkdir()
    address = f"127.0.0.1:{free_port()}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    workers = [
        subprocess.Popen(
            [sys.executable, WORKER, task, str(count), str(number), address, folder],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for number in range(count)
    ]
    try:
        texts = [worker.communicate(timeout=seconds)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    files = [folder / f"{number}.pickle" for number in range(count)]
    found = [pickle.loads(file.read_bytes()) if file.exists() else None for file in files]
    assert found[0] is not None, "\n".join(texts)
    return found


def test_programs_give_the_results_of_one_process(tmp_path):
    (alone,) = job("programs", 1, tmp_path / "1")
    for count in (2, 4):
        parts = job("programs", count, tmp_path / str(count))
        assert all(part is not None for part in parts)
        for name, results in alone.items():
            for place, whole in enumerate(results):
                own = {}
                for part in parts:
                    own |= part[name][place]
                assert own.keys() == whole.keys(), name
                for index, shard in whole.items():
                    np.testing.assert_array_equal(own[index], shard, err_msg=f"{name} {index}")


def test_each_process_has_its_devices(tmp_path):
    for number, found in enumerate(job("devices", 2, tmp_path / "2")):
        assert found["all"] == [(device, device // 4) for device in range(8)]
        assert found["own"] == [4 * number + device for device in range(4)]
        assert found["process"] == (number, 2)
        np.testing.assert_array_equal(found["gathered"], [[0, 1, 2], [1, 2, 3]])
        np.testing.assert_array_equal(found["broadcast"], [0, 1, 2])
        assert found["alone"] == 1.5


def test_a_process_that_dies_is_named(tmp_path):
    first, second = job("lost", 2, tmp_path / "2", seconds=120)
    assert second is None
    assert "process 1, whose connection is lost" in first


def test_processes_with_other_programs_are_named(tmp_path):
    found = job("disagree", 2, tmp_path / "2", seconds=120)
    assert any("runs another program" in str(text) for text in found), found
