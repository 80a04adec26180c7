//! A slice: a chip, and the number of chips along each axis.

use crate::{Error, Links, Torus};
use tegula_target::{Chip, Param};

/// A slice: chips that run one program together.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The chip's name.
    pub chip: String,
    /// The number of devices per chip. A JAX device may be one of a chip's two cores.
    pub devices_per_chip: usize,
    /// The links.
    pub links: Links,
    /// The speed of one device.
    pub speeds: Speeds,
}

/// The speed of one device.
#[derive(Clone, Debug)]
pub struct Speeds {
    /// The peak of bf16 products, in operations per second (a multiply-add counts as two).
    pub bf16: f64,
    /// The peak of 8-bit integer products, in operations per second.
    pub int8: f64,
    /// The peak of 8-bit floating-point products, in operations per second.
    pub fp8: f64,
    /// The fraction of the peak that large products reach.
    pub product_efficiency: f64,
    /// The rows and columns of a matrix unit, to which a product's sizes are rounded up.
    pub mxu_dim: f64,
    /// The speed of the vector units on 32-bit elements, in operations per second.
    pub vector: f64,
    /// The bandwidth of HBM, in bytes per second.
    pub hbm: f64,
    /// The fraction of HBM's bandwidth that kernels reach.
    pub hbm_efficiency: f64,
    /// The size of HBM, in bytes.
    pub hbm_bytes: f64,
    /// The overhead of a kernel in seconds: its first copy in and its last copy out.
    pub start: f64,
    /// The fraction of a collective that overlaps with the product that reads or computes its
    /// array, piece by piece.
    pub collective_overlap: f64,
    /// Assumptions about the chip where facts are unknown.
    pub assumed: Vec<String>,
}

/// Operations per lane and cycle: jax-ml/scaling-book tpus.md states four f32 additions for "v5".
const LANE_OPERATIONS: f64 = 4.0;

impl Slice {
    /// A slice of these chips; `topology` is a text such as `16x16`.
    ///
    /// # Errors
    /// An invalid topology, or one with more axes than the chip has links for; a chip whose link
    /// bandwidth, peak or HBM is not known.
    pub fn new(chip: &Chip, topology: &str) -> Result<Self, Error> {
        let need = |param: Param| {
            chip.value(param).ok_or_else(|| Error::Unknown {
                param: param.name(),
                chip: chip.name.clone(),
            })
        };
        let axes = need(Param::IciAxes)? as usize;
        let torus = Torus::parse(topology, need(Param::IciWrap)? as usize)?;
        if torus.axes.len() > axes {
            return Err(Error::Axes {
                text: topology.to_owned(),
                axes: torus.axes.len(),
                chip: chip.name.clone(),
                most: axes,
            });
        }
        let per_chip = match (
            chip.value(Param::CoresPerChip),
            chip.value(Param::CoresPerDevice),
        ) {
            (Some(cores), Some(of_device)) if of_device >= 1.0 => (cores / of_device).max(1.0),
            _ => 1.0,
        };
        let speeds = Speeds::new(chip, per_chip, &need)?;
        Ok(Self {
            chip: chip.name.clone(),
            devices_per_chip: per_chip as usize,
            links: Links {
                torus,
                devices_per_chip: per_chip as usize,
                bandwidth: need(Param::IciBandwidth)?,
                hop_latency: need(Param::IciHopLatency)?,
                on_chip: need(Param::HbmBandwidth)? / 2.0,
            },
            speeds,
        })
    }

    /// The number of devices.
    pub fn devices(&self) -> usize {
        self.links.torus.chips() * self.devices_per_chip
    }
}

impl Speeds {
    fn new(
        chip: &Chip,
        per_chip: f64,
        need: &dyn Fn(Param) -> Result<f64, Error>,
    ) -> Result<Self, Error> {
        let mut assumed = Vec::new();
        let mut or = |param: Param, instead: f64, text: &str| {
            let known = chip.value(param).filter(|value| *value > 0.0);
            known.unwrap_or_else(|| {
                assumed.push(format!("{}: {text}", param.name()));
                instead
            })
        };
        let bf16 = need(Param::PeakBf16)? / per_chip;
        let hbm = need(Param::HbmBandwidth)? / per_chip;
        let product_efficiency = or(
            Param::ProductEfficiency,
            0.9,
            "0.9, because no measured value is known",
        );
        let hbm_efficiency = or(
            Param::HbmEfficiency,
            0.9,
            "0.9, because no measured value is known",
        );
        let collective_overlap = chip.value(Param::CollectiveOverlap).unwrap_or_else(|| {
            assumed.push("collective_overlap: 0, because no measured value is known".to_owned());
            0.0
        });
        let clock = chip.value(Param::Clock);
        let cores = chip.value(Param::CoresPerChip).unwrap_or(1.0) / per_chip;
        let registers = chip.value(Param::VregSublanes).unwrap_or(8.0)
            * chip.value(Param::VregLanes).unwrap_or(128.0);
        Ok(Self {
            bf16,
            // A chip without products of its own for a type converts to bf16.
            int8: chip
                .value(Param::PeakInt8)
                .filter(|peak| *peak > 0.0)
                .map_or(bf16, |peak| peak / per_chip),
            fp8: chip
                .value(Param::PeakFp8)
                .filter(|peak| *peak > 0.0)
                .map_or(bf16, |peak| peak / per_chip),
            product_efficiency,
            mxu_dim: chip.value(Param::MxuDim).unwrap_or(128.0),
            vector: registers * LANE_OPERATIONS * cores * clock.unwrap_or(1e9),
            hbm,
            hbm_efficiency,
            hbm_bytes: need(Param::HbmBytes)? / per_chip,
            start: chip.value(Param::HbmToVmemLatency).unwrap_or(1e-6)
                + chip.value(Param::VmemToHbmLatency).unwrap_or(5e-7),
            collective_overlap,
            assumed,
        })
    }
}
