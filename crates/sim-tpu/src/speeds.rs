//! A chip's speeds as the engines use them, and which of them are not its own.
//!
//! A number that is not known of a chip is taken from what is, by a rule that
//! [`Speeds::assumptions`] states; nothing is filled in silently.

use tegula_target::{Chip, Param};

/// Of the bandwidth of HBM: that between VMEM and registers ("about 22 times",
/// scaling-book tpus.md, Feb 2025, of v5e and v5p).
const VMEM_OVER_HBM: f64 = 22.0;

/// A number that was not stated of a chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// Which parameter.
    pub param: Param,
    /// What is used in its place.
    pub used: String,
}

/// What the engines need to know of a chip's core. Times in seconds, bandwidths in
/// bytes per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speeds {
    /// Cycles per second.
    pub clock: f64,
    /// Between HBM and the core, both directions together.
    pub bandwidth: f64,
    /// From the last byte of a copy to the core's memory until it is done.
    pub latency_in: f64,
    /// From the last byte of a copy to HBM until it is done.
    pub latency_out: f64,
    /// The same of copies after the first of their direction, if it is known.
    pub copy_latency: Option<f64>,
    /// One step of a loop, besides its statements.
    pub step: f64,
    /// Until the matrix units have operands that a compiled kernel fetches from HBM,
    /// besides the latency.
    pub product_start: f64,
    /// The matrix units.
    pub matrix: MatrixUnits,
    /// Elements of 32 bits in a vector register.
    pub lanes: f64,
    /// Elements along its lanes.
    pub lane_count: f64,
    /// Cycles of a register's way through a loop of a compiled kernel, at least.
    pub register_pass: f64,
    /// Cross-lane units.
    pub cross_lane_units: f64,
    /// Bytes that VMEM gives or takes per cycle.
    pub vmem_bytes_per_cycle: f64,
    /// Over a link to another chip, one way.
    pub link_bandwidth: f64,
    /// What was not stated of the chip.
    pub assumptions: Vec<Assumption>,
}

/// The matrix units of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MatrixUnits {
    /// How many.
    pub count: f64,
    /// Rows and columns.
    pub dim: f64,
    /// Cycles of pushing 8 rows of 32-bit elements, or 16 of 16 bits, or 32 of 8 bits.
    pub cadence: [f64; 3],
    /// Cycles of loading as many rows of weights.
    pub latch: [f64; 3],
    /// Cycles from a push to its result.
    pub latency: f64,
    /// Whether weights are loaded while other rows are pushed.
    pub overlap: bool,
}

/// A parameter without which a chip has no clock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "chip {chip} has no `{}`, which its timing needs; give one with `--set {}=...` or a chip file",
    param.name(), param.name()
)]
pub struct MissingParam {
    /// The chip.
    pub chip: String,
    /// What is missing.
    pub param: Param,
}

/// Reads a chip, noting what it lacks.
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
    /// The chip has no clock, no bandwidth or no matrix units stated.
    pub fn of(chip: &Chip) -> Result<Self, MissingParam> {
        Self::of_cores(chip, true)
    }

    /// The speeds of what runs a program: of all cores of a device, among which the points of a
    /// `parallel` dimension are shared, or of one of them alone.
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
        // What a core measures is no more than its share; two fused cores are one.
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
    /// From the last byte of a copy to another core until it is there, and from a signal until it
    /// is: as a copy to HBM, of which it is known.
    pub fn link_latency(&self) -> f64 {
        self.copy_latency.unwrap_or(self.latency_out)
    }

    /// Takes out what only programs of several cores need.
    pub(crate) fn leave_out_links(&mut self) {
        self.assumptions
            .retain(|assumption| assumption.param != Param::IciBandwidth);
    }

    /// Takes out what holds of compiled kernels alone.
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
    // A chip without 8-bit integer products takes them as the next wider type.
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
