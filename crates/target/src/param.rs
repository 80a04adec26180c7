//! The parameters of a TPU chip.

use crate::quantity::Dimension;

macro_rules! params {
    ($($variant:ident $name:literal $dimension:ident $doc:literal;)*) => {
        /// A parameter of a TPU chip.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Param { $(#[doc = $doc] $variant,)* }

        impl Param {
            /// Every parameter, in the order of a chip's text.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in text.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The parameter of this name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            /// The physical dimension of the parameter.
            pub const fn dimension(self) -> Dimension {
                match self { $(Self::$variant => Dimension::$dimension,)* }
            }
        }
    };
}

params! {
    CoresPerChip "cores_per_chip" Count "TensorCores on a chip.";
    CoresPerDevice "cores_per_device" Count "TensorCores of one JAX device.";
    HbmBytes "hbm_bytes" Bytes "HBM of a chip.";
    HbmBandwidth "hbm_bandwidth" Bandwidth "HBM bandwidth of a chip, as its vendor states it.";
    HbmVmemBandwidth "hbm_vmem_bandwidth" Bandwidth "Effective bandwidth between HBM and the VMEM of a core.";
    HbmToVmemLatency "hbm_to_vmem_latency" Time "Minimum time of a transfer from HBM to VMEM.";
    VmemToHbmLatency "vmem_to_hbm_latency" Time "Minimum time of a transfer from VMEM to HBM.";
    VmemBytes "vmem_bytes" Bytes "VMEM of a core.";
    ScopedVmemBytes "scoped_vmem_bytes" Bytes "Scoped VMEM that a kernel may use by default.";
    MosaicScratchBytes "mosaic_scratch_bytes" Bytes "VMEM that the kernel compiler keeps for itself.";
    CmemBytes "cmem_bytes" Bytes "CMEM of a chip.";
    SmemBytes "smem_bytes" Bytes "SMEM of a core.";
    CopyLatency "copy_latency" Time "Latency of a transfer that is not the first in its direction; the first takes the minimum time of a transfer.";
    StepOverhead "step_overhead" Time "One step of a loop over blocks, besides its copies and its computation.";
    ProductStart "product_start" Time "Time until the matrix units of a started kernel have operands that it fetches from HBM.";
    MxuDim "mxu_dim" Count "Rows and columns of a matrix unit.";
    MxusPerCore "mxus_per_core" Count "Matrix units of a core.";
    MxuRowsPerCycleBf16 "mxu_rows_per_cycle_bf16" Count "bf16 rows that a matrix unit takes per cycle.";
    MatmulCadenceBf16 "matmul_cadence_bf16" Cycles "Cycles between matrix-unit pushes, bf16.";
    MatmulCadenceF32 "matmul_cadence_f32" Cycles "Cycles between matrix-unit pushes, f32.";
    MatmulCadenceInt8 "matmul_cadence_int8" Cycles "Cycles between matrix-unit pushes, s8.";
    MatmulCadenceFp8 "matmul_cadence_fp8" Cycles "Cycles between matrix-unit pushes, 8-bit floats.";
    LatchCadenceBf16 "latch_cadence_bf16" Cycles "Cycles between weight pushes, bf16.";
    LatchCadenceF32 "latch_cadence_f32" Cycles "Cycles between weight pushes, f32.";
    MatmulLatencyBf16 "matmul_latency_bf16" Cycles "Cycles from push to result, bf16.";
    MatmulLatencyInt8 "matmul_latency_int8" Cycles "Cycles from push to result, s8.";
    MatmulLatencyFp8 "matmul_latency_fp8" Cycles "Cycles from push to result, 8-bit floats.";
    Clock "clock" Frequency "Clock of a TensorCore.";
    PeakBf16 "peak_bf16" Rate "Peak of a chip in bf16.";
    PeakInt8 "peak_int8" Rate "Peak of a chip in s8; 0 if it has none.";
    PeakFp8 "peak_fp8" Rate "Peak of a chip in 8-bit floats.";
    PeakInt4 "peak_int4" Rate "Peak of a chip in s4.";
    CompilerPeak "compiler_peak" Rate "Peak that libtpu assumes when it estimates a program on one device.";
    CompilerHbmBandwidth "compiler_hbm_bandwidth" Bandwidth "HBM bandwidth that libtpu assumes when it estimates a program on one device.";
    VregSublanes "vreg_sublanes" Count "Sublanes of a vector register.";
    VregLanes "vreg_lanes" Count "Lanes of a vector register, 32 bits each.";
    RegisterPass "register_pass" Cycles "Time to load, process and store or accumulate one vector register in a loop of a compiled kernel.";
    Vregs "vregs" Count "Vector registers of a core.";
    Xlus "xlus" Count "Cross-lane units of a core.";
    SparseCoresPerChip "sparse_cores_per_chip" Count "SparseCores on a chip.";
    IciBandwidth "ici_bandwidth" Bandwidth "One link between chips, one way.";
    IciAxes "ici_axes" Count "Axes along which a chip has links to two neighbours.";
    IciWrap "ici_wrap" Count "A slice's axis is a ring if its chips are a multiple of this.";
    IciHopLatency "ici_hop_latency" Time "From one chip to its neighbour.";
    ProductEfficiency "product_efficiency" Ratio "The part of the peak that long products reach.";
    HbmEfficiency "hbm_efficiency" Ratio "The part of HBM's bandwidth that kernels reach.";
    CollectiveOverlap "collective_overlap" Ratio "The part of a collective that overlaps with the product that reads or writes its array.";
    PcieBandwidth "pcie_bandwidth" Bandwidth "Between host and chip.";
}
