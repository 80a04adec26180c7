//! A slice: a chip, and how many of them along which axes.

use crate::{Error, Links, Torus};
use tegula_target::{Chip, Param};

/// Chips that run one program together.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The chip's name.
    pub chip: String,
    /// Devices of one chip: what JAX shows as a device may be one of a chip's two cores.
    pub devices_per_chip: usize,
    /// The links.
    pub links: Links,
    /// What one device can do.
    pub speeds: Speeds,
}

/// What one device can do.
#[derive(Clone, Debug)]
pub struct Speeds {
    /// Products of bf16, operations per second (a multiply and an add are two).
    pub bf16: f64,
    /// Products of 8-bit integers.
    pub int8: f64,
    /// Products of 8-bit floats.
    pub fp8: f64,
    /// The part of the peak that long products reach.
    pub product_efficiency: f64,
    /// Rows and columns of a matrix unit: sizes of a product are rounded up to it.
    pub mxu_dim: f64,
    /// Operations per second of the vector units on 32-bit elements.
    pub vector: f64,
    /// Bytes per second of HBM.
    pub hbm: f64,
    /// The part of HBM's bandwidth that kernels reach.
    pub hbm_efficiency: f64,
    /// Bytes of HBM.
    pub hbm_bytes: f64,
    /// Seconds of a kernel besides its work: its first copy in and its last one out.
    pub start: f64,
    /// The part of a collective that runs beside the product that reads or makes its array, piece by
    /// piece.
    pub collective_overlap: f64,
    /// What is not known of the chip, and what is taken instead.
    pub assumed: Vec<String>,
}

/// Operations of each lane and cycle: jax-ml/scaling-book tpus.md states four adds of f32 for "v5".
const LANE_OPERATIONS: f64 = 4.0;

impl Slice {
    /// A slice of a chip, `topology` as in `16x16`.
    ///
    /// # Errors
    /// A topology that is none or has more axes than the chip has links along; a chip of which the
    /// bandwidth of links, the peak or HBM is not known.
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
        let product_efficiency = or(Param::ProductEfficiency, 0.9, "0.9, as nothing was fitted");
        let hbm_efficiency = or(Param::HbmEfficiency, 0.9, "0.9, as nothing was fitted");
        let collective_overlap = chip.value(Param::CollectiveOverlap).unwrap_or_else(|| {
            assumed.push("collective_overlap: 0, as nothing was fitted".to_owned());
            0.0
        });
        let clock = chip.value(Param::Clock);
        let cores = chip.value(Param::CoresPerChip).unwrap_or(1.0) / per_chip;
        let registers = chip.value(Param::VregSublanes).unwrap_or(8.0)
            * chip.value(Param::VregLanes).unwrap_or(128.0);
        Ok(Self {
            bf16,
            // Without products of its own a chip converts to bf16.
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
