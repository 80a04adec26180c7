//! Pallas kernels on the simulated TPU, for the command line and the Python package.
//!
//! [`Kernel::new`] makes a program for one chip from a kernel that JAX has lowered, with the memory
//! limit that its call states; [`Kernel::inputs`] converts arrays to the kernel's element types;
//! [`Kernel::simulate`] runs the kernel.

use std::path::Path;
use tegula_ir::{ArrayShape, Category, Literal};
use tegula_mosaic::Call;
use tegula_sim_tpu::TpuProgram;
use tegula_sim_tpu::pallas::{Arrays, to_program};
use tegula_stablehlo::mlir;
use tegula_target::Chip;

pub use tegula_mosaic::{Source, read};
pub use tegula_sim_tpu::{Options, Report};

/// A kernel compiled for a chip.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The program to simulate.
    pub program: TpuProgram,
    /// The chip, with the VMEM limit that the call states.
    pub chip: Chip,
}

/// The reason why a kernel cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KernelError(String);

impl KernelError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl Kernel {
    /// Compiles a kernel for a chip. `given` has the call's operands; it is empty if they are not
    /// known. Source locations without a file get `path`.
    ///
    /// # Errors
    /// An operation that the simulator does not support, or arrays that do not match the kernel.
    pub fn new(
        source: &Source,
        chip: &Chip,
        given: &[Literal],
        path: Option<&Path>,
    ) -> Result<Self, KernelError> {
        let mut chip = chip.clone();
        if let Some(limit) = source.call.as_ref().and_then(|call| call.vmem_limit) {
            set_limit(&mut chip, limit)?;
        }
        let program = to_program(&source.module, &chip, &arrays(source, given));
        let mut program = program.map_err(|error| KernelError::new(error.to_string()))?;
        if let Some(path) = path {
            let file: std::sync::Arc<str> = path.display().to_string().into();
            let unnamed = program.places.iter_mut();
            for place in unnamed.filter(|place| place.file.is_empty()) {
                place.file = file.clone();
            }
        }
        Ok(Self { program, chip })
    }

    /// The numbers and shapes of the inputs, in order.
    pub fn input_shapes(&self) -> Vec<(usize, ArrayShape)> {
        let mut shapes: Vec<(usize, ArrayShape)> = self
            .program
            .buffers
            .values()
            .filter_map(|buffer| {
                let shape = ArrayShape {
                    layout: None,
                    ..buffer.shape.clone()
                };
                Some((buffer.role.parameter()?, shape))
            })
            .collect();
        shapes.sort_unstable_by_key(|(number, _)| *number);
        shapes
    }

    /// Splits arrays between devices: the first dimension of each has one index for each device.
    ///
    /// # Errors
    /// An array whose first dimension has another size.
    pub fn split(given: &[Literal], devices: usize) -> Result<Vec<Vec<Literal>>, KernelError> {
        if devices == 1 {
            return Ok(vec![given.to_vec()]);
        }
        let mut split = vec![Vec::new(); devices];
        for (number, literal) in given.iter().enumerate() {
            let dims = literal.shape().static_dims().unwrap_or_default();
            let Some((first, rest)) = dims.split_first().filter(|(n, _)| **n == devices as i64)
            else {
                return Err(KernelError::new(format!(
                    "`in{number}` is {}: expected a first dimension of {devices}, one index for each device",
                    literal.shape()
                )));
            };
            let shape = ArrayShape::new(literal.element_type(), rest);
            let size = literal.bytes().len() / usize::try_from(*first).unwrap_or(1).max(1);
            for (device, own) in split.iter_mut().enumerate() {
                let bytes = &literal.bytes()[device * size..(device + 1) * size];
                let part = Literal::from_bytes(&shape, bytes);
                own.push(part.map_err(|error| KernelError::new(error.to_string()))?);
            }
        }
        Ok(split)
    }

    /// Converts arrays to the kernel's element types.
    ///
    /// # Errors
    /// An array that is missing, or has another size or element width.
    pub fn inputs(&self, given: &[Literal]) -> Result<Vec<Literal>, KernelError> {
        let shapes = self.input_shapes();
        let count = shapes.last().map_or(0, |(number, _)| number + 1);
        let mut inputs = vec![Literal::default(); count];
        for (number, shape) in shapes {
            let literal = given.get(number).ok_or_else(|| {
                KernelError::new(format!(
                    "the kernel takes {count} inputs: there is no array `in{number}`"
                ))
            })?;
            let input = reinterpreted(literal, &shape);
            inputs[number] =
                input.map_err(|error| KernelError::new(format!("`in{number}`: {}", error.0)))?;
        }
        Ok(inputs)
    }

    /// Runs the kernel on one device for each list of inputs. The devices copy data to each other
    /// and signal each other by their numbers. Returns one report for each device.
    ///
    /// # Errors
    /// An operation that the simulator cannot execute, with its place in the source.
    pub fn simulate(
        &self,
        options: &Options,
        inputs: &[Vec<Literal>],
    ) -> Result<Vec<Report>, KernelError> {
        let reports = tegula_sim_tpu::simulate_cores(&self.program, &self.chip, options, inputs);
        reports.map_err(|error| KernelError::new(self.error_text(&error)))
    }

    fn error_text(&self, error: &tegula_sim_tpu::Error) -> String {
        let Some((line, message)) = error.at_line() else {
            return match error {
                tegula_sim_tpu::Error::Stopped { reason, .. } => reason.to_string(),
                other => other.to_string(),
            };
        };
        match self.program.place(line) {
            Some(place) => format!("{}:{}: {message}", place.file, place.line),
            None => message,
        }
    }
}

/// Sets the limit of scoped VMEM that a call states.
fn set_limit(chip: &mut Chip, limit: i64) -> Result<(), KernelError> {
    let stated = format!("name = given\nscoped_vmem_bytes = {limit} B # the call\n");
    let given = Chip::parse(&stated).map_err(|error| KernelError::new(error.message))?;
    chip.quantities.extend(given.quantities);
    Ok(())
}

/// The known facts about a kernel's arrays, from the call around it or from its inputs.
fn arrays(source: &Source, given: &[Literal]) -> Arrays {
    let dims = |types: &[mlir::Type]| -> Vec<Vec<i64>> {
        let of = |ty: &mlir::Type| {
            let (dims, _) = ty.shaped()?;
            dims.into_iter().collect::<Option<Vec<i64>>>()
        };
        types.iter().map(|ty| of(ty).unwrap_or_default()).collect()
    };
    let values = given.to_vec();
    match &source.call {
        Some(Call {
            operand_types,
            result_types,
            operands,
            aliases,
            ..
        }) => Arrays {
            inputs: Some(*operands),
            input_dims: dims(operand_types),
            result_dims: dims(result_types),
            aliases: aliases.clone(),
            values,
        },
        None => {
            let of = |literal: &Literal| literal.shape().static_dims().unwrap_or_default().to_vec();
            Arrays {
                inputs: (!given.is_empty()).then_some(given.len()),
                input_dims: given.iter().map(of).collect(),
                values,
                ..Arrays::default()
            }
        }
    }
}

/// Reinterprets an array's bits as another shape with as many elements of the same width. This is
/// needed because a kernel's integers are signless, and files store floats that numpy lacks as
/// unsigned integers.
fn reinterpreted(literal: &Literal, shape: &ArrayShape) -> Result<Literal, KernelError> {
    let (own, wanted) = (literal.shape(), shape.element_type);
    let from = own.element_type;
    let same_width = from.storage_bytes() == wanted.storage_bytes();
    let both_integers = !from.is_float() && !wanted.is_float();
    let bits = from.category() == Category::Unsigned && wanted.is_float();
    let fits = from == wanted || same_width && (both_integers || bits);
    if !fits || own.element_count() != shape.element_count() {
        return Err(KernelError::new(format!("expected {shape}, found {own}")));
    }
    Literal::from_bytes(shape, literal.bytes()).map_err(|error| KernelError::new(error.to_string()))
}
