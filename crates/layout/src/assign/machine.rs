//! What layout assignment knows of a machine: how it lays an array out in a given
//! order of dimensions, and how long bytes take.

use smallvec::SmallVec;
use tegula_ir::Layout;
use tegula_target::{Chip, Param};

/// An order of dimensions, the most minor first.
pub type Order = SmallVec<[u32; 6]>;

/// Seconds that a kernel takes besides its work: the least estimate of the real TPU
/// compiler on v5e is 1824 cycles of 1.5 GHz (libtpu 0.0.50, 2026-11).
const TPU_KERNEL: f64 = 1824.0 / 1.5e9;
/// Bytes per second of one core of a CPU with AVX-512, in arrays that its second-level
/// cache holds: what this CPU backend's kernels read and write where neighbours in the
/// walk are neighbours in memory. In memory it is a quarter; what costs are compared
/// with gets slower alike.
const CPU_BANDWIDTH: f64 = 130e9;
/// How many times longer its kernels take to transpose arrays of elements of 8, 16, 32
/// and 64 bits than to negate them (256 x 264 to 2048 x 2056). An element of up to 32
/// bits costs about the same whatever its width is.
const CPU_STRIDED: [(u32, f64); 4] = [(8, 20.0), (16, 16.0), (32, 4.5), (64, 2.7)];
/// Operations per second of its convolutions, of f32 on one core.
const CPU_OPERATIONS: f64 = 70e9;
/// Bytes of the transaction that a warp's loads are made of: sector of NVIDIA GPUs
/// (CUDA C++ Programming Guide, "Global Memory").
const GPU_SECTOR: i64 = 32;
/// Bytes per second: a plain number, because only ratios matter here.
const GPU_BANDWIDTH: f64 = 1e12;
/// Seconds to launch a kernel: a few microseconds on every CUDA GPU; only that it is
/// more than a small copy matters here.
const GPU_KERNEL: f64 = 2e-6;

/// How arrays lie in memory.
#[derive(Clone, Debug, PartialEq)]
enum Tiling {
    /// Tiles of the chip, by the rule for its default layouts.
    Chip(Box<Chip>),
    /// Dense, on a CPU.
    Cpu,
    /// Dense, in accesses of so many bytes.
    Dense(i64),
}

/// A machine to assign layouts for.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    tiling: Tiling,
    /// Bytes per second between memory and where work is done.
    pub bandwidth: f64,
    /// Seconds per kernel besides its work.
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

    /// The chip, if this is one.
    pub fn chip(&self) -> Option<&Chip> {
        match &self.tiling {
            Tiling::Chip(chip) => Some(chip),
            Tiling::Cpu | Tiling::Dense(_) => None,
        }
    }

    /// The layout of an array in this order of dimensions. An element type that the
    /// machine's tiles are not known for is laid out densely.
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

    /// The order that an array has where nothing else decides.
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

    /// The bytes of an array in this order, padding included.
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

    /// The bytes of the registers that hold an array: on a chip with tiles one register
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

    /// How many times more bytes are moved where neighbours in the walk are not
    /// neighbours in memory.
    pub fn stride_penalty(&self, element_bits: u32) -> f64 {
        match &self.tiling {
            // A tile is turned in registers, eight rows at a time.
            Tiling::Chip(_) => 1.5,
            Tiling::Cpu => {
                let measured = CPU_STRIDED.iter().find(|(bits, _)| element_bits <= *bits);
                measured.map_or(1.0, |(_, times)| *times)
            }
            Tiling::Dense(line) => (*line as f64 * 8.0 / f64::from(element_bits.max(1))).max(1.0),
        }
    }

    /// Operations per second of a convolution, where they are known for arrays of f32.
    pub fn operations(&self) -> Option<f64> {
        (self.tiling == Tiling::Cpu).then_some(CPU_OPERATIONS)
    }

    /// Whether the two most minor dimensions are the rows and lanes of registers.
    pub fn has_lanes(&self) -> bool {
        matches!(self.tiling, Tiling::Chip(_))
    }
}
