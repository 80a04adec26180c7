//! A time model of steps, used to hide copies and to report costs: the maximum of arithmetic at the
//! chip's peak and HBM traffic at its bandwidth.

use tegula_fusion::{Node, NodeId, Program};
use tegula_ir::{Module, Op};
use tegula_target::{Chip, Param};

/// The overhead of a kernel in seconds; see [`tegula_layout::assign`].
const KERNEL: f64 = 1824.0 / 1.5e9;
/// The bandwidth of VMEM relative to HBM ("about 22 times", scaling-book tpus.md, Feb 2025, for v5e
/// and v5p).
const VMEM_SPEED: f64 = 22.0;

/// A chip's speeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speeds {
    /// The HBM bandwidth, in bytes per second.
    hbm: f64,
    /// The peak, in operations per second.
    peak: f64,
    /// The latency of a copy, in seconds.
    latency: f64,
}

impl Speeds {
    /// The speeds of a chip. Unknown parameters get nominal values, an unknown latency is 0.
    pub(crate) fn new(chip: &Chip) -> Self {
        let known = |params: &[Param]| params.iter().find_map(|&param| chip.value(param));
        Self {
            hbm: known(&[Param::CompilerHbmBandwidth, Param::HbmBandwidth]).unwrap_or(1e12),
            peak: known(&[Param::CompilerPeak, Param::PeakBf16]).unwrap_or(1e14),
            latency: known(&[Param::HbmToVmemLatency]).unwrap_or(0.0),
        }
    }

    /// The HBM bandwidth, in bytes per second.
    pub(crate) fn bandwidth(&self) -> f64 {
        self.hbm
    }

    /// The time of arithmetic operations, in seconds.
    pub(crate) fn arithmetic(&self, operations: f64) -> f64 {
        operations / self.peak
    }

    /// The time of moving bytes from or to HBM, in seconds.
    pub(crate) fn hbm(&self, bytes: i64) -> f64 {
        bytes as f64 / self.hbm
    }

    /// The seconds that VMEM saves for an access of this many bytes.
    pub(crate) fn saved(&self, bytes: i64) -> f64 {
        self.hbm(bytes) * (1.0 - 1.0 / VMEM_SPEED)
    }

    /// The time of a copy between memories, in seconds.
    pub(crate) fn copy(&self, bytes: i64) -> f64 {
        self.latency + self.hbm(bytes)
    }

    /// The time of a kernel that moves this many bytes to and from HBM, in seconds.
    pub(crate) fn kernel(&self, operations: f64, hbm_bytes: i64) -> f64 {
        KERNEL + (operations / self.peak).max(self.hbm(hbm_bytes))
    }
}

/// The number of arithmetic operations of some nodes.
pub(crate) fn operations(module: &Module, program: &Program, nodes: &[NodeId]) -> f64 {
    nodes
        .iter()
        .map(|&id| of_node(module, program, &program.nodes[id]))
        .sum()
}

fn of_node(module: &Module, program: &Program, node: &Node) -> f64 {
    let sizes = |value: Option<&tegula_fusion::ValueId>| -> Vec<f64> {
        let dims = value.map(|&value| &program.values[value].shape.dims);
        dims.into_iter()
            .flatten()
            .map(|dim| dim.representative() as f64)
            .collect()
    };
    let result: f64 = sizes(node.results.first()).iter().product();
    let size = |sizes: &[f64], dim: i64| {
        let dim = usize::try_from(dim).ok();
        dim.and_then(|dim| sizes.get(dim).copied()).unwrap_or(1.0)
    };
    match &module[node.origin].op {
        Op::Dot { dims, .. } => {
            let lhs = sizes(node.operands.first());
            let contracted = dims.lhs_contracting.iter().map(|&dim| size(&lhs, dim));
            2.0 * result * contracted.product::<f64>()
        }
        Op::Convolution { dims, .. } => {
            let kernel = sizes(node.operands.get(1));
            let own: f64 = kernel.iter().product();
            2.0 * result * own / size(&kernel, dims.kernel_output_feature).max(1.0)
        }
        Op::Reduce { .. } | Op::ReduceWindow { .. } => {
            sizes(node.operands.first()).iter().product()
        }
        _ => result,
    }
}
