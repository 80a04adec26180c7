//! The machine model of layout assignment: how an array is laid out in a given order of dimensions,
//! and how long moving bytes takes.

use smallvec::SmallVec;
use tegula_ir::Layout;
use tegula_target::{Chip, Param};

/// An order of dimensions, the most minor first.
pub type Order = SmallVec<[u32; 6]>;

/// The overhead of a TPU kernel in seconds: the least estimate of libtpu's compiler for v5e is 1824
/// cycles at 1.5 GHz (libtpu 0.0.50, 2026-11).
const TPU_KERNEL: f64 = 1824.0 / 1.5e9;
/// The bandwidth in bytes per second of one CPU core with AVX-512, for arrays in its second-level
/// cache: what this CPU backend's kernels reach for contiguous accesses. From main memory it is a
/// quarter, but then the costs that it is compared with grow as well.
const CPU_BANDWIDTH: f64 = 130e9;
/// How many times longer the CPU's kernels take to transpose arrays of elements of 8, 16, 32 and 64
/// bits than to negate them (256 x 264 to 2048 x 2056). An element of up to 32 bits costs about the
/// same whatever its width is.
const CPU_STRIDED: [(u32, f64); 4] = [(8, 20.0), (16, 16.0), (32, 4.5), (64, 2.7)];
/// The speed of the CPU's convolutions, in f32 operations per second on one core.
const CPU_OPERATIONS: f64 = 70e9;
/// The size of a transaction of a warp's loads, in bytes: a sector of NVIDIA GPUs (CUDA C++
/// Programming Guide, "Global Memory").
const GPU_SECTOR: i64 = 32;
/// The GPU's bandwidth in bytes per second, a nominal value: only ratios matter here.
const GPU_BANDWIDTH: f64 = 1e12;
/// The overhead of a GPU kernel in seconds, a few microseconds on every CUDA GPU. It only matters
/// that this is more than a small copy.
const GPU_KERNEL: f64 = 2e-6;

/// How arrays are laid out in memory.
#[derive(Clone, Debug, PartialEq)]
enum Tiling {
    /// In tiles, by the chip's rule for default layouts.
    Chip(Box<Chip>),
    /// Densely, on a CPU.
    Cpu,
    /// Densely, with accesses of this many bytes.
    Dense(i64),
}

/// A machine to assign layouts for.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    tiling: Tiling,
    /// The bandwidth between memory and the units, in bytes per second.
    pub bandwidth: f64,
    /// The overhead of a kernel, in seconds.
    pub kernel: f64,
}

impl Machine {
    /// A TPU. `None` if the chip's default layouts or its bandwidth are not known.
    pub fn tpu(chip: &Chip) -> Option<Self> {
        let bandwidth = chip
            .value(Param::CompilerHbmBandwidth)
            .or_else(|| chip.value(Param::HbmBandwidth))?;
        chip.default_layout(32, &[]).ok()?;
        Some(Self {
            tiling: Tiling::Chip(Box::new(chip.clone())),
            bandwidth,
            kernel: TPU_KERNEL,
        })
    }

    /// A CPU: dense arrays.
    pub fn cpu() -> Self {
        Self {
            tiling: Tiling::Cpu,
            bandwidth: CPU_BANDWIDTH,
            kernel: 0.0,
        }
    }

    /// A GPU: dense arrays, read in sectors by warps.
    pub fn gpu() -> Self {
        Self {
            tiling: Tiling::Dense(GPU_SECTOR),
            bandwidth: GPU_BANDWIDTH,
            kernel: GPU_KERNEL,
        }
    }

    /// The chip, if this is a TPU.
    pub fn chip(&self) -> Option<&Chip> {
        match &self.tiling {
            Tiling::Chip(chip) => Some(chip),
            Tiling::Cpu | Tiling::Dense(_) => None,
        }
    }

    /// The layout of an array in this order of dimensions. If the machine's tiles for the element
    /// type are not known, the layout is dense.
    pub fn layout(&self, element_bits: u32, dims: &[i64], order: &[u32]) -> Layout {
        let dense = || Layout {
            minor_to_major: order.into(),
            ..Layout::default()
        };
        match &self.tiling {
            Tiling::Chip(chip) => {
                let rule = chip.tile_rule;
                let tiled =
                    rule.and_then(|rule| rule.layout_in_order(element_bits, dims, order).ok());
                tiled.unwrap_or_else(dense)
            }
            Tiling::Cpu | Tiling::Dense(_) => dense(),
        }
    }

    /// The default order of an array.
    pub fn default_order(&self, element_bits: u32, dims: &[i64]) -> Order {
        let row_major = || (0..dims.len() as u32).rev().collect();
        match &self.tiling {
            Tiling::Chip(chip) => {
                let layout = chip.default_layout(element_bits, dims);
                layout.map_or_else(|_| row_major(), |layout| layout.minor_to_major)
            }
            Tiling::Cpu | Tiling::Dense(_) => row_major(),
        }
    }

    /// The size of an array in this order, in bytes, including padding.
    pub fn bytes(&self, element_bits: u32, dims: &[i64], order: &[u32]) -> f64 {
        let dense = || {
            let elements: f64 = dims.iter().map(|&size| size as f64).product();
            elements * f64::from(element_bits) / 8.0
        };
        match &self.tiling {
            Tiling::Chip(chip) => {
                let rule = chip.tile_rule;
                let padded = rule.and_then(|rule| rule.padded_bytes(element_bits, dims, order));
                padded.map_or_else(dense, |bytes| bytes as f64)
            }
            Tiling::Cpu | Tiling::Dense(_) => dense(),
        }
    }

    /// The size of the registers that hold an array, in bytes. On a chip with tiles, one register
    /// is eight rows of 128 lanes of 32 bits, however few rows are used.
    pub fn register_bytes(&self, dims: &[i64], order: &[u32]) -> f64 {
        let mut elements = 1.0;
        for (dim, &size) in dims.iter().enumerate() {
            let place = order.iter().position(|&d| d as usize == dim);
            let multiple = match (&self.tiling, place) {
                (Tiling::Chip(_), Some(0)) => 128,
                (Tiling::Chip(_), Some(1)) => 8,
                _ => 1,
            };
            let blocks = size / multiple + i64::from(size % multiple != 0);
            elements *= (blocks * multiple) as f64;
        }
        4.0 * elements
    }

    /// The factor by which more bytes are moved if accesses are not contiguous.
    pub fn stride_penalty(&self, element_bits: u32) -> f64 {
        match &self.tiling {
            // A tile is transposed in registers, eight rows at a time.
            Tiling::Chip(_) => 1.5,
            Tiling::Cpu => {
                let measured = CPU_STRIDED.iter().find(|(bits, _)| element_bits <= *bits);
                measured.map_or(1.0, |(_, times)| *times)
            }
            Tiling::Dense(line) => (*line as f64 * 8.0 / f64::from(element_bits.max(1))).max(1.0),
        }
    }

    /// The speed of a convolution in f32 operations per second, if it is known.
    pub fn operations(&self) -> Option<f64> {
        (self.tiling == Tiling::Cpu).then_some(CPU_OPERATIONS)
    }

    /// Whether the two most minor dimensions are the rows and lanes of registers.
    pub fn has_lanes(&self) -> bool {
        matches!(self.tiling, Tiling::Chip(_))
    }
}
