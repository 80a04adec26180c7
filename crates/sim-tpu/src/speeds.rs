//! A chip's speeds as the engines use them, with a list of those that were derived.
//!
//! A number that is not known of a chip is derived from known ones by a rule that
//! [`Speeds::assumptions`] states; no number is filled in silently.

use tegula_target::{Chip, Param};

/// The bandwidth between VMEM and registers as a multiple of HBM's bandwidth ("about 22 times",
/// scaling-book tpus.md, Feb 2025, of v5e and v5p).
const VMEM_OVER_HBM: f64 = 22.0;

/// A number that the chip's description does not state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// The parameter.
    pub param: Param,
    /// The value or rule used in its place.
    pub used: String,
}

/// The speeds of a chip's core. Times are in seconds, bandwidths in bytes per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speeds {
    /// Clock rate, in cycles per second.
    pub clock: f64,
    /// Bandwidth between HBM and the core, both directions together.
    pub bandwidth: f64,
    /// Latency from the last byte of a copy into the core's memory until the copy is done.
    pub latency_in: f64,
    /// Latency from the last byte of a copy to HBM until the copy is done.
    pub latency_out: f64,
    /// The latency of the copies after the first of their direction, if it is known.
    pub copy_latency: Option<f64>,
    /// Overhead of one loop iteration, besides its statements.
    pub step: f64,
    /// Additional latency until the matrix units have operands that a compiled kernel fetches from
    /// HBM.
    pub product_start: f64,
    /// The matrix units.
    pub matrix: MatrixUnits,
    /// The 32-bit elements of a vector register.
    pub lanes: f64,
    /// The elements of a vector register along its lanes.
    pub lane_count: f64,
    /// The least cycles that a loop of a compiled kernel takes for one register.
    pub register_pass: f64,
    /// The number of cross-lane units.
    pub cross_lane_units: f64,
    /// Bytes that VMEM reads or writes in a cycle.
    pub vmem_bytes_per_cycle: f64,
    /// Bandwidth of a link to another chip, in one direction.
    pub link_bandwidth: f64,
    /// The numbers that the chip's description does not state.
    pub assumptions: Vec<Assumption>,
}

/// The matrix units of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MatrixUnits {
    /// The number of units.
    pub count: f64,
    /// The number of rows, which is also the number of columns.
    pub dim: f64,
    /// Cycles to push 8 rows of 32-bit elements, 16 rows of 16-bit elements, or 32 rows of 8-bit
    /// elements.
    pub cadence: [f64; 3],
    /// Cycles to load the same numbers of rows of weights.
    pub latch: [f64; 3],
    /// Latency in cycles from a push to its result.
    pub latency: f64,
    /// Whether weights are loaded while other rows are pushed.
    pub overlap: bool,
}

/// Error for a chip that lacks a parameter that its timing needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "chip {chip} has no `{}`, which its timing needs; give one with `--set {}=...` or a chip file",
    param.name(), param.name()
)]
pub struct MissingParam {
    /// The chip's name.
    pub chip: String,
    /// The missing parameter.
    pub param: Param,
}

/// Reads a chip's parameters and records the assumptions.
struct Reader<'a> {
    chip: &'a Chip,
    assumptions: Vec<Assumption>,
}

impl Reader<'_> {
    fn need(&self, param: Param) -> Result<f64, MissingParam> {
        let known = self.chip.value(param).filter(|&value| value > 0.0);
        known.ok_or_else(|| MissingParam {
            chip: self.chip.name.clone(),
            param,
        })
    }

    fn or(&mut self, param: Param, fallback: f64, used: &str) -> f64 {
        self.chip.value(param).unwrap_or_else(|| {
            let used = used.to_owned();
            self.assumptions.push(Assumption { param, used });
            fallback
        })
    }
}

impl Speeds {
    /// The speeds of a chip's core.
    ///
    /// # Errors
    /// The chip's description states no clock, no bandwidth or no matrix units.
    pub fn of(chip: &Chip) -> Result<Self, MissingParam> {
        Self::of_cores(chip, true)
    }

    /// The speeds of the hardware that runs a program: with `all`, all cores of a device, which
    /// share the points of a `parallel` dimension; otherwise one core alone.
    ///
    /// # Errors
    /// As [`Speeds::of`].
    pub fn of_cores(chip: &Chip, all: bool) -> Result<Self, MissingParam> {
        let mut reader = Reader {
            chip,
            assumptions: Vec::new(),
        };
        let clock = reader.need(Param::Clock)?;
        let vendor = reader.need(Param::HbmBandwidth)?;
        let cores = reader.need(Param::CoresPerChip)?;
        // The bandwidth measured for a core is at most its share; two fused cores count as one.
        let device = chip.value(Param::CoresPerDevice).unwrap_or(1.0);
        let fused = if all { device } else { 1.0 };
        let share = vendor / cores * device;
        let effective = reader.or(
            Param::HbmVmemBandwidth,
            share / device,
            "the core's share of the vendor's HBM bandwidth",
        );
        let bandwidth = share.min(effective * fused);
        let matrix = matrix_units(&mut reader, fused)?;
        let lane_count = reader.need(Param::VregLanes)?;
        let lanes = reader.need(Param::VregSublanes)? * lane_count;
        Ok(Self {
            clock,
            bandwidth,
            latency_in: reader.or(Param::HbmToVmemLatency, 0.0, "0 seconds"),
            latency_out: reader.or(Param::VmemToHbmLatency, 0.0, "0 seconds"),
            copy_latency: chip.value(Param::CopyLatency),
            step: reader.or(Param::StepOverhead, 0.0, "0 seconds"),
            product_start: reader.or(Param::ProductStart, 0.0, "0 seconds"),
            matrix,
            lanes: lanes * fused,
            lane_count,
            register_pass: reader.or(
                Param::RegisterPass,
                0.0,
                "as many cycles as its operations issue in",
            ),
            cross_lane_units: fused * reader.or(Param::Xlus, 2.0, "2, as of v6e"),
            vmem_bytes_per_cycle: VMEM_OVER_HBM * share / clock,
            link_bandwidth: reader.or(
                Param::IciBandwidth,
                bandwidth,
                "the core's bandwidth of HBM",
            ),
            assumptions: reader.assumptions,
        })
    }
}

impl Speeds {
    /// The latency of a copy or a signal to another core, in seconds: taken to be that of a copy to
    /// HBM, which is known.
    pub fn link_latency(&self) -> f64 {
        self.copy_latency.unwrap_or(self.latency_out)
    }

    /// Removes the assumption that concerns only programs of several cores.
    pub(crate) fn leave_out_links(&mut self) {
        self.assumptions
            .retain(|assumption| assumption.param != Param::IciBandwidth);
    }

    /// Removes the speeds and assumptions that concern only compiled kernels.
    pub(crate) fn leave_out_compiled(&mut self) {
        (self.register_pass, self.product_start) = (0.0, 0.0);
        self.assumptions.retain(|assumption| {
            !matches!(assumption.param, Param::RegisterPass | Param::ProductStart)
        });
    }
}

fn matrix_units(reader: &mut Reader<'_>, fused: f64) -> Result<MatrixUnits, MissingParam> {
    let dim = reader.need(Param::MxuDim)?;
    let count = reader.need(Param::MxusPerCore)? * fused;
    let rows = reader.need(Param::MxuRowsPerCycleBf16)?;
    let from_rows = "from the rows that it takes per cycle";
    let cadence_16 = reader.or(Param::MatmulCadenceBf16, 16.0 / rows, from_rows);
    let cadence_32 = reader.or(Param::MatmulCadenceF32, 8.0 / rows, from_rows);
    // A chip without 8-bit integer products multiplies them as the next wider type.
    let cadence_8 = match reader.chip.value(Param::PeakInt8) {
        Some(peak) if peak > 0.0 => reader.or(
            Param::MatmulCadenceInt8,
            2.0 * cadence_16,
            "twice that of bf16",
        ),
        _ => 2.0 * cadence_16,
    };
    let latch_16 = reader.or(Param::LatchCadenceBf16, 4.0, "4 cycles, as of later chips");
    let latch_32 = reader.or(Param::LatchCadenceF32, 2.0, "2 cycles, as of later chips");
    let latency = reader.or(
        Param::MatmulLatencyBf16,
        dim,
        "one cycle for each row of the unit",
    );
    Ok(MatrixUnits {
        count,
        dim,
        cadence: [cadence_32, cadence_16, cadence_8],
        latch: [latch_32, latch_16, latch_16],
        latency,
        overlap: true,
    })
}
