//! Machines as data: memory spaces, vector widths, bandwidths and latencies.
