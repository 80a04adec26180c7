"""Reproducible inputs."""

import numpy as np


def numbers(*shape):
    return np.random.RandomState(0).randn(*shape).astype(np.float32)
