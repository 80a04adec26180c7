//! Annotations of instructions and modules that do not change what they compute: sharding, source
//! locations, backend configuration, aliasing.

use crate::{InstructionId, Shape};
use std::sync::Arc;

/// `metadata={...}`: where an instruction came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `op_type=`.
    pub op_type: Option<Arc<str>>,
    /// `op_name=`.
    pub op_name: Option<Arc<str>>,
    /// `source_file=`.
    pub source_file: Option<Arc<str>>,
    /// `source_line=`.
    pub source_line: Option<i64>,
    /// `source_end_line=`.
    pub source_end_line: Option<i64>,
    /// `source_column=`.
    pub source_column: Option<i64>,
    /// `source_end_column=`.
    pub source_end_column: Option<i64>,
    /// `stack_frame_id=`.
    pub stack_frame_id: Option<i64>,
    /// Anything else, as written: `profile_type`, `deduplicated_name`,
    /// `scheduling_name`, `metadata_payload`, ....
    pub other: Vec<(Arc<str>, Arc<str>)>,
}

/// The annotations of an instruction, which do not change what it computes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    /// `metadata=`.
    pub metadata: Option<Metadata>,
    /// `sharding={...}`, as written, braces included, white space folded.
    pub sharding: Option<Arc<str>>,
    /// `frontend_attributes={k="v"}`, in order; values as written.
    pub frontend_attributes: Vec<(Arc<str>, Arc<str>)>,
    /// `backend_config=`, as written (a quoted string or a JSON object).
    pub backend_config: Option<Arc<str>>,
    /// `control-predecessors={...}`.
    pub control_predecessors: Vec<InstructionId>,
    /// `statistics=`, `parameter_replication=`, `origin=`, `result_accuracy=` and
    /// the like, as written.
    pub other: Vec<(Arc<str>, Arc<str>)>,
}

/// Whether an alias is a permission or a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AliasKind {
    /// The compiler may share the buffer.
    May,
    /// The compiler must share the buffer.
    Must,
}

/// One entry of `input_output_alias=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputOutputAlias {
    /// The index of the aliased part within the result.
    pub output_index: Vec<i64>,
    /// The number of the aliased parameter.
    pub parameter: i64,
    /// The index of the aliased part within the parameter.
    pub parameter_index: Vec<i64>,
    /// Whether the alias is a permission or a requirement.
    pub kind: AliasKind,
}

/// An entry of a stack-frame table: its number, and its fields as pairs of name and value.
pub type NumberedFields = (i64, Vec<(Arc<str>, i64)>);

/// The stack-frame tables that follow the header in some dumps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrames {
    /// `FileNames`: number and name.
    pub file_names: Vec<(i64, Arc<str>)>,
    /// `FunctionNames`: number and name.
    pub function_names: Vec<(i64, Arc<str>)>,
    /// `FileLocations`: number and fields by name.
    pub file_locations: Vec<NumberedFields>,
    /// `StackFrames`: number and fields by name.
    pub frames: Vec<NumberedFields>,
}

/// The attributes in a module's header.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModuleAttributes {
    /// `is_scheduled=`.
    pub is_scheduled: bool,
    /// `replica_count=`.
    pub replica_count: Option<i64>,
    /// `num_partitions=`.
    pub num_partitions: Option<i64>,
    /// `input_output_alias=`.
    pub input_output_alias: Vec<InputOutputAlias>,
    /// `buffer_donor=`: pairs of a parameter and an index within it.
    pub buffer_donor: Vec<(i64, Vec<i64>)>,
    /// `alias_passthrough_params=`.
    pub alias_passthrough_params: bool,
    /// `entry_computation_layout=`: parameters and result.
    pub entry_layout: Option<(Vec<Shape>, Shape)>,
    /// `frontend_attributes=`, in order; values as written.
    pub frontend_attributes: Vec<(Arc<str>, Arc<str>)>,
    /// Attributes kept as written: `allow_spmd_...`, `origin_recovery_table`, ....
    pub other: Vec<(Arc<str>, Arc<str>)>,
    /// The stack-frame tables, if any.
    pub stack_frames: StackFrames,
}
