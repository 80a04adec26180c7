//! The JSON documents that commands print with `--json`: one object each, whose first member gives
//! the document's name and version.
//!
//! The version does not change as long as members are only added. `tegula schema NAME` prints the
//! JSON schema, which is derived from these structs.

mod simulation;

pub(crate) use simulation::{
    AssumedLoop, Simulation, SliceCollectives, SliceEvent, SliceLinks, SliceMemory, SliceSimulation,
};

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;
use serde_json::Value;

/// A document that a command prints with `--json`.
pub(crate) trait Document: Serialize {
    /// The document's name and version: `tegula.NAME.vN`.
    const SCHEMA: &'static str;
}

#[derive(Serialize)]
struct Named<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    document: &'a T,
}

/// Prints a document as one line of JSON.
pub(crate) fn print<T: Document>(document: &T) {
    let named = Named {
        schema: T::SCHEMA,
        document,
    };
    match serde_json::to_string(&named) {
        Ok(text) => say!("{text}"),
        Err(error) => crate::terminal::output::note(Err(error.into())),
    }
}

/// Implements `Document` for structs, and defines the list of names and the lookup of schemas.
macro_rules! documents {
    ($($name:literal $ty:ident)*) => {
        $(impl Document for $ty {
            const SCHEMA: &'static str = concat!("tegula.", $name, ".v1");
        })*

        /// The names of all documents.
        pub(crate) const NAMES: &[&str] = &[$($name),*];

        /// Returns the JSON schema of the document with this name.
        pub(crate) fn schema(name: &str) -> Option<Schema> {
            match name {
                $($name => Some(schema_for!($ty)),)*
                _ => None,
            }
        }
    };
}

documents! {
    "run" RunResult
    "bench" Measurement
    "text" Text
    "files" Files
    "passes" Passes
    "index" Maps
    "simplify" Simplified
    "shape" ShapeFacts
    "sizes" Sizes
    "node-shapes" NodeShapes
    "bench-staged" StagedMeasurement
    "same-size" SameSize
    "layout" Layouts
    "layout-why" LayoutReasons
    "orders" Orders
    "partition" Partition
    "partition-why" PartitionReason
    "simulate" Simulation
    "slice" SliceSimulation
    "reduce" Reduced
    "error" Failed
}

/// The results and times of a run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RunResult {
    /// Whether every result that was compared is within the tolerance; true without `--check`.
    pub ok: bool,
    /// The seed of the random inputs; null if inputs were read from a file.
    pub seed: Option<u64>,
    /// The results, in the program's order.
    pub outputs: Vec<RunOutput>,
    /// The time to compile the verified program, in milliseconds.
    pub compile_ms: f64,
    /// The time of the fastest run, in milliseconds.
    pub run_ms: f64,
}

/// A result of a run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RunOutput {
    /// Its number, from 0.
    pub index: usize,
    /// Its element type and dimensions in HLO's notation, for example `f32[2,3]`.
    pub shape: String,
    /// The number of its elements.
    pub elements: usize,
    /// The first elements, in row-major order. `--outputs` writes all of them. Numbers that JSON
    /// cannot express are the strings `nan`, `inf` and `-inf`; a complex number is a list of its real
    /// and imaginary part.
    pub values: Vec<Value>,
    /// The comparison with a reference, if `--check` was given.
    #[serde(flatten)]
    pub check: Option<Check>,
}

/// A comparison with a reference.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Check {
    /// The largest absolute difference.
    pub max_abs: f64,
    /// The largest difference relative to the reference element.
    pub max_rel: f64,
    /// Whether all elements are within the tolerance.
    pub ok: bool,
}

/// How long a program takes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Measurement {
    /// The time to read and verify the text, in milliseconds.
    pub read_ms: f64,
    /// The time to compile the program, in milliseconds.
    pub compile_ms: f64,
    /// The median time of all runs, in milliseconds.
    pub run_ms_median: f64,
    /// The time of the fastest run, in milliseconds.
    pub run_ms_min: f64,
    /// The time of a run on the GPU without copies from and to the host, in milliseconds; null on a
    /// CPU.
    pub device_ms: Option<f64>,
    /// The bytes of the arena, the results, and what was computed from frozen inputs alone.
    pub peak_bytes: i64,
    /// The number of frozen inputs.
    pub frozen: usize,
    /// The number of threads that a run may use.
    pub threads: u16,
    /// The seed of the random inputs; null if inputs were read from a file.
    pub seed: Option<u64>,
    /// The kernels and library calls, the slowest first.
    pub kernels: Vec<KernelTime>,
}

/// How long a model takes that runs in stages, because shapes in it depend on computed values.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StagedMeasurement {
    /// The time to read and compile the model, which includes its first run, in milliseconds.
    pub compile_ms: f64,
    /// The median time of all runs, in milliseconds.
    pub run_ms_median: f64,
    /// The time of the fastest run, in milliseconds.
    pub run_ms_min: f64,
    /// The number of threads that a run may use.
    pub threads: u16,
    /// The stages, in the order in which they run.
    pub stages: Vec<StageTime>,
}

/// How long a stage takes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StageTime {
    /// The kernels and library calls, the slowest first.
    pub kernels: Vec<KernelTime>,
}

/// The time of a kernel or a library call within one run of the program.
#[derive(Serialize, JsonSchema)]
pub(crate) struct KernelTime {
    /// Its name.
    pub name: String,
    /// The time of all its executions together, in milliseconds.
    pub ms: f64,
    /// The number of executions.
    pub runs: u64,
    /// 10^9 arithmetic operations per second.
    pub gflops: f64,
    /// 10^9 bytes read and written per second.
    pub gbytes_per_s: f64,
    /// The fraction of this machine's peak that it reaches, from 0 to 1: of the peak rate of
    /// operations or of the memory bandwidth, whichever fraction is larger. Null if it is unknown.
    pub share_of_ceiling: Option<f64>,
}

/// A program in one of the compiler's forms, as text.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Text {
    /// The text.
    pub text: String,
}

/// Files that were written.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Files {
    /// The files.
    pub files: Vec<WrittenFile>,
}

/// A file that was written.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WrittenFile {
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub bytes: usize,
}

/// The passes of a pipeline.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Passes {
    /// Their names, in the order in which they run.
    pub passes: Vec<&'static str>,
}

/// The indexing maps of instructions.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Maps {
    /// The instructions, each with the maps of its operands.
    pub instructions: Vec<InstructionMaps>,
}

/// The maps of an instruction.
#[derive(Serialize, JsonSchema)]
pub(crate) struct InstructionMaps {
    /// The instruction's name.
    pub name: String,
    /// The direction of the maps: `output-to-input` or `input-to-output`.
    pub direction: &'static str,
    /// Its operands.
    pub operands: Vec<OperandMaps>,
    /// With `--tiles`: the tiling of each array of its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiles: Option<Vec<Tiles>>,
}

/// The tiles of one array of an instruction's result, and of what it reads.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tiles {
    /// The dimensions that are tiled: those of the result, then those that are summed over.
    pub space: Vec<SpaceDim>,
    /// The tiles of the operands' arrays. In their terms, `i0` is the number of the tile along the
    /// first dimension of the space, `t0` the tile size there if it is symbolic, and `rt0` a value
    /// that is known at run time.
    pub operands: Vec<OperandTiles>,
}

/// A dimension that is tiled.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SpaceDim {
    /// `d0` is dimension 0 of the result, and `s0` the first dimension that is summed over.
    pub name: String,
    /// `parallel` for a dimension of the result, `sequential` for one that is summed over.
    pub kind: &'static str,
    /// For a dimension that is summed over: the instruction that sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// The size of the dimension, in elements.
    pub extent: i64,
    /// The size of a tile, in elements; null if it is symbolic.
    pub size: Option<i64>,
    /// The number of tiles; null if the tile size is symbolic.
    pub tiles: Option<i64>,
    /// The condition under which tiles divide the dimension evenly; absent if they always do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divides: Option<String>,
}

/// The tiles of an array of an operand.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OperandTiles {
    /// The operand's number, from 0.
    pub operand: usize,
    /// If the operand is a tuple: the number of the array in it; absent for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<usize>,
    /// The tiles: one for each indexing map by which the array is read.
    pub tiles: Vec<Tile>,
    /// Why the tiles are unknown, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// A tile of an operand: the elements that one tile of the result is computed from.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tile {
    /// Its extent along each dimension of the array.
    pub dims: Vec<TileDim>,
    /// Whether every element of the tile is read. If not, the tile also has elements that are not.
    pub exact: bool,
    /// If it is not exact in general: the condition under which it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_if: Option<String>,
    /// The condition under which anything is read; absent if something always is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present_if: Option<String>,
    /// Whether no smaller tile contains all elements that are read.
    pub smallest: bool,
    /// Why it is not exact; empty if it is.
    pub reasons: Vec<String>,
}

/// A tile along one dimension: the indices `offset + stride * j` for `0 <= j < size` that are at
/// least `lower` and less than `upper`. All members are terms, as text.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TileDim {
    /// The first index.
    pub offset: String,
    /// The number of indices.
    pub size: String,
    /// The distance between consecutive indices.
    pub stride: String,
    /// The smallest index that is read, if `offset` may be smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower: Option<String>,
    /// One more than the largest index that is read, if the tile may extend past it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper: Option<String>,
}

/// The maps of an operand, or of one array of an operand that is a tuple.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OperandMaps {
    /// The operand's number, from 0.
    pub operand: usize,
    /// The simplified maps. Together they name every element that is needed.
    pub maps: Vec<String>,
    /// Whether the maps name exactly the elements that are needed. If not, they may name more.
    pub exact: bool,
    /// Why there is no map; null if there is one.
    pub unknown: Option<String>,
    /// With `--explain`: for each map, the rules that simplified it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Vec<String>>>,
    /// For the maps of a collective: for each map, the participant whose array is read, as a term;
    /// null for the device's own array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participants: Option<Vec<Option<String>>>,
    /// If the operand is a tuple: the number of the array in it; absent for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<usize>,
    /// For a fusion: how much of the operand it reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization: Option<Utilization>,
    /// For a fusion: for each map, how well the loads of a GPU's first warp coalesce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<Vec<Option<Coalescing>>>,
}

/// How much of an operand is read.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Utilization {
    /// The number of distinct elements that are read.
    pub distinct: Option<u64>,
    /// The number of elements of the operand.
    pub elements: Option<u64>,
    /// The number of reads; an element that is read twice counts twice.
    pub reads: Option<u64>,
    /// Whether these numbers are exact. If not, they are upper bounds.
    pub exact: bool,
}

/// The memory accesses of a load by one warp of a GPU.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Coalescing {
    /// The number of 32-byte sectors that the load touches.
    pub sectors: u64,
    /// The least number of sectors that can hold the loaded bytes.
    pub ideal: u64,
    /// The number of bytes that are loaded and used.
    pub bytes: u64,
}

/// A simplified map.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Simplified {
    /// The map, as text.
    pub map: String,
    /// `ok`, `empty` (its domain has no point) or `undefined` (it divides by zero).
    pub status: &'static str,
    /// With `--explain`: why the simplifier stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// With `--explain`: the rules that were applied, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<String>>,
    /// With `--check`: whether both maps have the same values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
}

/// The size of an array, with and without padding, and the position of an element.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ShapeFacts {
    /// The number of elements.
    pub elements: i64,
    /// The bytes of the elements.
    pub bytes: i64,
    /// The number of elements that the buffer holds, padding included.
    pub padded_elements: i64,
    /// The bytes of the buffer, padding included.
    pub padded_bytes: i64,
    /// The position in memory of the element given by `--index`, counted in elements.
    pub linear_index: Option<i64>,
    /// The index of the element at that position; null if the position is padding.
    pub index: Option<Vec<i64>>,
}

/// The shapes of a program's values.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Sizes {
    /// The value of each instruction.
    pub values: Vec<ValueShape>,
}

/// The shape of a value.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ValueShape {
    /// For a model that runs in stages: the stage, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<usize>,
    /// The computation that the instruction is in.
    pub computation: String,
    /// The instruction's name.
    pub name: String,
    /// Its shape. Symbolic sizes are terms over the sizes of the inputs.
    pub shape: String,
}

/// The shapes of the outputs of an ONNX model's nodes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NodeShapes {
    /// The outputs of all nodes.
    pub values: Vec<NodeShape>,
}

/// The shape of one output of a node.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NodeShape {
    /// The output's name in the model.
    pub name: String,
    /// Its shape. Symbolic sizes are terms over the sizes of the inputs.
    pub shape: String,
}

/// Whether two sizes are equal, and why.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SameSize {
    /// True if the sizes are proved equal, false if they are proved to differ, null if neither is
    /// proved.
    pub equal: Option<bool>,
    /// The two sizes, in the order given.
    pub sizes: [Size; 2],
    /// The relations between sizes that the proof uses.
    pub relations: Vec<String>,
    /// The steps of the proof.
    pub proof: Vec<String>,
    /// Without a proof: assumptions that would make one possible.
    pub missing: Vec<String>,
}

/// One of two sizes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Size {
    /// The text given to `--why`.
    pub name: String,
    /// The size as the program states it.
    pub stated: String,
    /// The size as a term over the independent sizes: those that no other size determines.
    pub size: String,
}

/// The layouts of a program's arrays on a TPU, and the memories that hold them.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Layouts {
    /// The chip's name.
    pub chip: String,
    /// The estimated cost of the layouts in seconds: memory traffic, layouts that operations prefer
    /// but do not get, and copies from one layout to another.
    pub layout_seconds: f64,
    /// Whether no other choice of layouts costs less by that estimate.
    pub is_best: bool,
    /// The bytes of VMEM that buffers may use.
    pub vmem_bytes: i64,
    /// The most bytes of VMEM that are in use at once.
    pub vmem_peak_bytes: i64,
    /// The number of arrays that are copied from one layout to another.
    pub copies: usize,
    /// The number of asynchronous copies between memories, which run while kernels compute.
    pub prefetches: usize,
    /// The buffers.
    pub buffers: Vec<PlacedBuffer>,
}

/// A buffer, and the memory that holds it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PlacedBuffer {
    /// The instruction whose result it holds.
    pub name: String,
    /// Its shape with layout and tiles.
    pub shape: String,
    /// Its bytes, padding included.
    pub bytes: i64,
    /// Its memory: 0 is HBM, 1 is VMEM.
    pub memory_space: i64,
    /// Its offset in VMEM, in bytes; null in HBM.
    pub offset: Option<i64>,
    /// Why it is in that memory.
    pub reason: String,
}

/// Why the result of an instruction has its layout, and is in its memory.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LayoutReasons {
    /// The reasons, for each array of the result.
    pub why: Vec<LayoutReason>,
}

/// Why an array has its layout, and is in its memory.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LayoutReason {
    /// The instruction's name.
    pub name: String,
    /// How the kernel that computes it is cut into blocks; null if no kernel does.
    pub windows: Option<KernelWindows>,
    /// Its buffers, each with its memory.
    pub buffers: Vec<PlacedReason>,
    /// Why there was no choice of layout; null if there was one.
    pub fixed: Option<&'static str>,
    /// The layouts that its producer and users prefer.
    pub wishes: Option<Vec<String>>,
    /// The layouts that were compared, with their costs.
    pub alternatives: Option<Vec<LayoutAlternative>>,
}

/// How a kernel is cut into blocks.
#[derive(Serialize, JsonSchema)]
pub(crate) struct KernelWindows {
    /// The size of a block along each dimension.
    pub block: Vec<i64>,
    /// The number of blocks along each dimension.
    pub grid: Vec<i64>,
    /// The bytes of VMEM that the blocks of all its arrays take.
    pub vmem_bytes: i64,
    /// The bytes that are copied from and to HBM.
    pub hbm_bytes: f64,
    /// The estimated time in seconds.
    pub seconds: f64,
    /// The dimensions along which the last block is partial, and therefore masked.
    pub masked: Vec<usize>,
}

/// A buffer's memory, and the reason for it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PlacedReason {
    /// Its shape with layout and tiles.
    pub shape: String,
    /// Its memory: 0 is HBM, 1 is VMEM.
    pub memory_space: i64,
    /// Why it is in that memory.
    pub reason: String,
}

/// A layout that was compared with others.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LayoutAlternative {
    /// The layout.
    pub layout: String,
    /// The estimated time to read and write the array in this layout, in seconds.
    pub traffic_seconds: f64,
    /// The estimated extra time of operations that prefer another layout, in seconds.
    pub wishes_seconds: f64,
    /// The estimated time of copies from and to the layouts of neighbouring arrays, in seconds.
    pub links_seconds: f64,
    /// Whether this layout was chosen.
    pub chosen: bool,
}

/// The arrays whose dimensions are not in row-major order.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Orders {
    /// The arrays.
    pub orders: Vec<Order>,
}

/// An array whose layout is not row-major.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Order {
    /// The instruction whose result it is.
    pub name: String,
    /// Its layout in HLO's notation, minor to major: row-major is `{1,0}`.
    pub layout: String,
    /// Why it has this layout.
    pub why: String,
}

/// A partitioned program: the one that each device runs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Partition {
    /// The program of one device, as HLO text.
    pub program: String,
    /// The sharding of each parameter.
    pub parameters: Vec<String>,
    /// The sharding of each result.
    pub results: Vec<String>,
    /// The bytes that a device receives from others in one run.
    pub bytes: i64,
    /// The exchanges between devices.
    pub exchanges: Vec<Exchange>,
}

/// An exchange between devices.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Exchange {
    /// The collective operation, for example `all-reduce`.
    pub operation: &'static str,
    /// The instruction that needs it.
    pub instruction: String,
    /// The bytes that a device receives in it.
    pub bytes: i64,
    /// Why it is needed.
    pub reason: String,
}

/// Why an instruction has its sharding.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PartitionReason {
    /// The instruction's name.
    pub name: String,
    /// The reasons, as text.
    pub why: String,
}

/// The smallest program on which a command fails.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Reduced {
    /// The path of the file with the program.
    pub output: String,
    /// The number of instructions of the given program.
    pub instructions_before: usize,
    /// The number of instructions of the smallest program.
    pub instructions: usize,
    /// The number of programs that were tried.
    pub tries: usize,
    /// Whether the limit of tries ended the search, so that a smaller program may exist.
    pub gave_up: bool,
}

/// Why a command failed. The exit code tells the kind of failure.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Failed {
    /// The error.
    pub error: FailedError,
}

impl Failed {
    /// An error without a line number.
    pub(crate) fn without_line(message: &str) -> Self {
        let message = message.to_owned();
        Self {
            error: FailedError {
                message,
                line: None,
            },
        }
    }
}

/// An error.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FailedError {
    /// The message.
    pub message: String,
    /// The line of the program's text, from 1; null if the error has none.
    pub line: Option<usize>,
}
