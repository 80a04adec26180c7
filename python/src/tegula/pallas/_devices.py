"""Lets several devices run one kernel together: a barrier at which their calls meet."""

import threading


class Meeting:
    """Each device calls `join`; the last one runs the kernel for all of them."""

    def __init__(self, count, patience=300.0):
        self.count = count
        self.patience = patience
        self._met = threading.Condition()
        self._rounds = {}
        self._next = [0] * count

    def join(self, device, arrays, run):
        """Returns this device's results.

        `run` takes the arrays of all devices, and returns the results of all devices.
        """
        with self._met:
            number = self._next[device]
            self._next[device] += 1
            one = self._rounds.setdefault(number, _Round(self.count))
            one.arrays[device] = arrays
            one.here += 1
            if one.here < self.count:
                if not self._met.wait_for(lambda: one.done, self.patience):
                    missing = [d for d, given in enumerate(one.arrays) if given is None]
                    raise RuntimeError(
                        f"devices {missing} did not run the kernel within {self.patience:g} s:"
                        " all devices of a mesh have to run a kernel that copies between them"
                    )
                return one.part(device)
        try:
            one.results = run(one.arrays)
        except BaseException as error:
            one.error = error
        with self._met:
            one.done = True
            self._rounds.pop(number, None)
            self._met.notify_all()
        return one.part(device)


class _Round:
    def __init__(self, count):
        self.arrays = [None] * count
        self.here = 0
        self.done = False
        self.results = None
        self.error = None

    def part(self, device):
        if self.error is not None:
            raise self.error
        return self.results[device]
