//! The tests of whole programs, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod common_results;
mod complex_bits;
mod complex_products;
mod cpu_memory;
mod cuda_values;
mod frozen;
mod hoisted_kernels;
mod identities;
mod indexed_rows;
mod kernel_groups;
mod lapack;
mod large_results;
mod mutations;
mod onnx_shapes;
mod open_models;
mod open_programs;
mod open_sizes;
mod product_types;
mod products;
mod reduce;
mod rows;
mod shape_helpers;
mod shape_modes;
mod short_dimensions;
mod size_errors;
mod small_loops;
mod sparse;
mod spectral;
mod stablehlo;
mod strips;
mod sums_of_products;
mod sunk_loop_reductions;
mod symbolic_programs;
mod tpu_schedules;
mod what_is_written;
