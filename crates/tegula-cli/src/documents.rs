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
    /// Whether every result that was compared is near enough to its reference.
    pub ok: bool,
    /// The seed from which inputs were made up; null if they were given.
    pub seed: Option<u64>,
    /// The results in their order.
    pub outputs: Vec<RunOutput>,
    /// Milliseconds from the verified program to one that is ready to run.
    pub compile_ms: f64,
    /// Milliseconds of the fastest run.
    pub run_ms: f64,
}

/// A result of a run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RunOutput {
    /// Its number, from 0.
    pub index: usize,
    /// Its type and sizes, as HLO writes them.
    pub shape: String,
    /// How many elements it has.
    pub elements: usize,
    /// The first elements, row-major. A number that JSON has no form for is a string: `nan`, `inf`,
    /// `-inf`; a complex number is a list of two.
    pub values: Vec<Value>,
    /// The comparison with a reference, if `--check` was given.
    #[serde(flatten)]
    pub check: Option<Check>,
}

/// A comparison with a reference.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Check {
    /// The largest difference.
    pub max_abs: f64,
    /// The largest difference relative to the reference's element.
    pub max_rel: f64,
    /// Whether all elements are near enough.
    pub ok: bool,
}

/// How long a program takes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Measurement {
    /// Milliseconds to read and verify the text.
    pub read_ms: f64,
    /// Milliseconds to compile it.
    pub compile_ms: f64,
    /// The median of all runs, in milliseconds.
    pub run_ms_median: f64,
    /// The fastest run.
    pub run_ms_min: f64,
    /// A run on a device without copies to and from it; null on a CPU.
    pub device_ms: Option<f64>,
    /// Bytes of the arena, the results and what is kept of frozen inputs.
    pub peak_bytes: i64,
    /// How many inputs are frozen.
    pub frozen: usize,
    /// Threads that a run may use.
    pub threads: u16,
    /// The seed from which inputs were made up; null if they were given.
    pub seed: Option<u64>,
    /// Kernels and calls of routines, the slowest first.
    pub kernels: Vec<KernelTime>,
}

/// How long a model takes whose sizes depend on data, and which therefore runs in stages.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StagedMeasurement {
    /// Milliseconds to read and compile it, the first run among them.
    pub compile_ms: f64,
    /// The median of all runs, in milliseconds.
    pub run_ms_median: f64,
    /// The fastest run.
    pub run_ms_min: f64,
    /// Threads that a run may use.
    pub threads: u16,
    /// The stages in their order.
    pub stages: Vec<StageTime>,
}

/// How long a stage takes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StageTime {
    /// Kernels and calls of routines, the slowest first.
    pub kernels: Vec<KernelTime>,
}

/// How long a kernel or a call of a routine takes in one run of the program.
#[derive(Serialize, JsonSchema)]
pub(crate) struct KernelTime {
    /// Its name.
    pub name: String,
    /// Milliseconds in all its runs.
    pub ms: f64,
    /// How often it runs.
    pub runs: u64,
    /// Thousand millions of operations in a second.
    pub gflops: f64,
    /// Thousand millions of bytes read and written in a second.
    pub gbytes_per_s: f64,
    /// The part of what this machine can do at most that it reaches; null where that is not known.
    pub share_of_ceiling: Option<f64>,
}

/// A form of a program, as text.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Text {
    /// The text.
    pub text: String,
}

/// Files that were written.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Files {
    /// Each of them.
    pub files: Vec<WrittenFile>,
}

/// A file that was written.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WrittenFile {
    /// Where.
    pub path: String,
    /// Its size.
    pub bytes: usize,
}

/// The passes of a pipeline.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Passes {
    /// Their names, in their order.
    pub passes: Vec<&'static str>,
}

/// Indexing maps.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Maps {
    /// Instructions with the maps of their operands.
    pub instructions: Vec<InstructionMaps>,
}

/// The maps of an instruction.
#[derive(Serialize, JsonSchema)]
pub(crate) struct InstructionMaps {
    /// The instruction.
    pub name: String,
    /// `output-to-input` or `input-to-output`.
    pub direction: &'static str,
    /// Its operands.
    pub operands: Vec<OperandMaps>,
    /// For each array of its result, how it is tiled, if that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiles: Option<Vec<Tiles>>,
}

/// The tiles of one array of an instruction's result, and of what it reads.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tiles {
    /// The dimensions that are tiled: parallel ones, then what is summed over.
    pub space: Vec<SpaceDim>,
    /// The tiles of the operands' arrays. In their terms `i0` is the number of the tile along
    /// the first dimension of the space, `t0` its size if that is open, `rt0` a run-time value.
    pub operands: Vec<OperandTiles>,
}

/// A dimension that is tiled.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SpaceDim {
    /// `d0` of the result, `s0` of what an operation sums over.
    pub name: String,
    /// `parallel` or `sequential`.
    pub kind: &'static str,
    /// The operation that sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// Its elements.
    pub extent: i64,
    /// The elements of a tile, unless that is open.
    pub size: Option<i64>,
    /// How many tiles there are.
    pub tiles: Option<i64>,
    /// When tiles divide the dimension, unless they always do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divides: Option<String>,
}

/// The tiles of an array of an operand.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OperandTiles {
    /// The operand's number.
    pub operand: usize,
    /// Which array of a tuple, if it is not the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<usize>,
    /// One for each way in which it is read.
    pub tiles: Vec<Tile>,
    /// Why nothing is known, if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// A tile.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tile {
    /// Along each dimension of the array.
    pub dims: Vec<TileDim>,
    /// Whether it has no element that is not read.
    pub exact: bool,
    /// Otherwise, when that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_if: Option<String>,
    /// When anything is read, unless it always is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present_if: Option<String>,
    /// Whether no smaller tile has all that is read.
    pub smallest: bool,
    /// Why it is not exact.
    pub reasons: Vec<String>,
}

/// A tile along one dimension: `offset + stride * j` for `0 <= j < size`, from `lower` on and
/// below `upper`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TileDim {
    /// The first index.
    pub offset: String,
    /// How many.
    pub size: String,
    /// How far apart.
    pub stride: String,
    /// The least index that is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower: Option<String>,
    /// The least index that is no longer read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper: Option<String>,
}

/// The maps of an operand, or of one array of an operand that is a tuple.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OperandMaps {
    /// The operand's number.
    pub operand: usize,
    /// The maps, simplified. All elements that are needed are in one of them.
    pub maps: Vec<String>,
    /// Whether they name exactly the elements that are needed; otherwise these and perhaps more.
    pub exact: bool,
    /// Why there is no map, if there is none.
    pub unknown: Option<String>,
    /// For each map, the rules that simplified it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Vec<String>>>,
    /// For each map, whose array it leads to, if that is another device's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participants: Option<Vec<Option<String>>>,
    /// Which array of a tuple, if it is not the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<usize>,
    /// How much of the operand a fusion reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization: Option<Utilization>,
    /// For each map, how a warp of a GPU loads its elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<Vec<Option<Coalescing>>>,
}

/// How much of an operand is read.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Utilization {
    /// Different elements that are read.
    pub distinct: Option<u64>,
    /// Elements that the operand has.
    pub elements: Option<u64>,
    /// Reads in all.
    pub reads: Option<u64>,
    /// Whether these are counts, not bounds.
    pub exact: bool,
}

/// A warp's load.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Coalescing {
    /// Sectors of 32 bytes that it touches.
    pub sectors: u64,
    /// Sectors at best.
    pub ideal: u64,
    /// Bytes that are used.
    pub bytes: u64,
}

/// A simplified map.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Simplified {
    /// The map.
    pub map: String,
    /// `ok`, `empty` (its domain has no point) or `undefined` (it divides by zero).
    pub status: &'static str,
    /// Why simplifying ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// The rules that led to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<String>>,
    /// The result of `--check`, which evaluates both maps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
}

/// Sizes and positions of an array.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ShapeFacts {
    /// Elements.
    pub elements: i64,
    /// Their bytes.
    pub bytes: i64,
    /// Elements with padding.
    pub padded_elements: i64,
    /// Bytes with padding.
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
    /// Of a model that runs in stages: the stage, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<usize>,
    /// The computation that its instruction belongs to.
    pub computation: String,
    /// The instruction.
    pub name: String,
    /// Its shape; sizes that are not known are terms over those of the inputs.
    pub shape: String,
}

/// The shapes of what an ONNX model's nodes give.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NodeShapes {
    /// Each of them.
    pub values: Vec<NodeShape>,
}

/// The shape of what a node gives.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NodeShape {
    /// The name in the model.
    pub name: String,
    /// The shape; sizes that are not known are terms over those of the inputs.
    pub shape: String,
}

/// Whether two sizes are equal, and why.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SameSize {
    /// True or false if that is proved, null if it is not.
    pub equal: Option<bool>,
    /// Both sizes.
    pub sizes: [Size; 2],
    /// The relations between sizes that the proof uses.
    pub relations: Vec<String>,
    /// The steps of the proof.
    pub proof: Vec<String>,
    /// The assumptions that would make a proof possible.
    pub missing: Vec<String>,
}

/// One of two sizes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Size {
    /// The text given to `--why`.
    pub name: String,
    /// As the program states it.
    pub stated: String,
    /// As it follows from sizes that nothing determines.
    pub size: String,
}

/// Layouts and places on a TPU.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Layouts {
    /// The chip.
    pub chip: String,
    /// Estimated seconds that follow from layouts: traffic, denied preferences, copies.
    pub layout_seconds: f64,
    /// Whether nothing better exists by that estimate.
    pub is_best: bool,
    /// Bytes of VMEM that buffers may use.
    pub vmem_bytes: i64,
    /// Bytes of it that are in use at once.
    pub vmem_peak_bytes: i64,
    /// Arrays that are copied from one layout to another.
    pub copies: usize,
    /// Copies between memories that run beside kernels.
    pub prefetches: usize,
    /// All buffers.
    pub buffers: Vec<PlacedBuffer>,
}

/// A buffer and its place.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PlacedBuffer {
    /// The instruction that gives it.
    pub name: String,
    /// Its shape with layout and tiles.
    pub shape: String,
    /// Bytes with padding.
    pub bytes: i64,
    /// 0 is HBM, 1 is VMEM.
    pub memory_space: i64,
    /// Its offset in VMEM.
    pub offset: Option<i64>,
    /// Why it is there.
    pub reason: String,
}

/// Why an instruction has its layout and place.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LayoutReasons {
    /// For each array of the instruction.
    pub why: Vec<LayoutReason>,
}

/// Why an array has its layout and place.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LayoutReason {
    /// The instruction.
    pub name: String,
    /// How its kernel is cut into blocks.
    pub windows: Option<KernelWindows>,
    /// Its buffers, each with its memory.
    pub buffers: Vec<PlacedReason>,
    /// Why there was no choice.
    pub fixed: Option<&'static str>,
    /// The layouts that its producers and users prefer.
    pub wishes: Option<Vec<String>>,
    /// The layouts that were compared.
    pub alternatives: Option<Vec<LayoutAlternative>>,
}

/// How a kernel is cut into blocks.
#[derive(Serialize, JsonSchema)]
pub(crate) struct KernelWindows {
    /// Sizes of a block.
    pub block: Vec<i64>,
    /// Blocks along each dimension.
    pub grid: Vec<i64>,
    /// Bytes of VMEM that its windows take.
    pub vmem_bytes: i64,
    /// Bytes that are moved from and to HBM.
    pub hbm_bytes: f64,
    /// Estimated seconds.
    pub seconds: f64,
    /// Dimensions along which the last block is masked.
    pub masked: Vec<usize>,
}

/// A buffer's memory, and the reason for it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PlacedReason {
    /// Its shape with layout and tiles.
    pub shape: String,
    /// 0 is HBM, 1 is VMEM.
    pub memory_space: i64,
    /// Why it is there.
    pub reason: String,
}

/// A layout that was compared with others.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LayoutAlternative {
    /// The layout.
    pub layout: String,
    /// Estimated seconds of reading and writing the array.
    pub traffic_seconds: f64,
    /// Estimated seconds of preferences that are denied.
    pub wishes_seconds: f64,
    /// Estimated seconds of copies around it.
    pub links_seconds: f64,
    /// Whether it was taken.
    pub chosen: bool,
}

/// Orders of dimensions that are not row-major.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Orders {
    /// Each of them.
    pub orders: Vec<Order>,
}

/// An array whose layout is not row-major.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Order {
    /// The instruction that gives it.
    pub name: String,
    /// Its layout.
    pub layout: String,
    /// Why.
    pub why: String,
}

/// The program of each device.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Partition {
    /// As HLO text.
    pub program: String,
    /// How parameters are cut.
    pub parameters: Vec<String>,
    /// How results are cut.
    pub results: Vec<String>,
    /// Bytes that a device receives.
    pub bytes: i64,
    /// What is exchanged.
    pub exchanges: Vec<Exchange>,
}

/// An exchange between devices.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Exchange {
    /// The collective.
    pub operation: &'static str,
    /// The instruction that needs it.
    pub instruction: String,
    /// Bytes that a device receives.
    pub bytes: i64,
    /// Why.
    pub reason: String,
}

/// Why an array is cut as it is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PartitionReason {
    /// The instruction.
    pub name: String,
    /// The reasons.
    pub why: String,
}

/// The smallest program on which a command fails.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Reduced {
    /// The file that holds it.
    pub output: String,
    /// Instructions of the program that was given.
    pub instructions_before: usize,
    /// Its own.
    pub instructions: usize,
    /// How many programs were tried.
    pub tries: usize,
    /// Whether more tries might make it smaller.
    pub gave_up: bool,
}

/// Why a command failed. The exit code says whose fault it is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Failed {
    /// What is wrong.
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

/// What is wrong.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FailedError {
    /// In words.
    pub message: String,
    /// The line of the program, from 1, if there is one.
    pub line: Option<usize>,
}
