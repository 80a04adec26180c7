//! Conversion of MLIR operations to typed ones: names and attributes become typed fields.

mod names;

use crate::attributes::{bracketed, dot_dimensions, flag, integer, integers};
use crate::ir::{
    Block, Cast, Constant, CopyOperands, DotDims, FloatPredicate, Function, IntPredicate, Kernel,
    Module, Op, Operation, Place, Precision, Reduction, Semantics, Value, Window,
};
use crate::types::{Element, Item, MemRefType, MemorySpace, Type, VectorType};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_arena::Arena;
use tegula_stablehlo::Error;
use tegula_stablehlo::mlir::{self, Attribute};
use tegula_stablehlo::type_text;

/// A module's kernel and the functions of its windows.
///
/// # Errors
/// An operation or a type is unknown, or an operation does not have its dialect's form.
pub(crate) fn module(mlir: &mlir::Module) -> Result<Module, Error> {
    let mut reader = Reader {
        mlir,
        values: Arena::new(),
        numbers: FxHashMap::default(),
        lines: line_starts(mlir),
    };
    let functions = mlir
        .body()
        .iter()
        .filter(|operation| &*operation.name == "func.func");
    let functions: Vec<&mlir::Operation> = functions.collect();
    let is_kernel = |function: &&&mlir::Operation| {
        function.attribute("dimension_semantics").is_some()
            || function.attribute("window_params").is_some()
            || function.attribute("scratch_operands").is_some()
    };
    let kernel = functions.iter().find(is_kernel).or(functions.first());
    let Some(&kernel) = kernel else {
        return Err(Error::input("expected a function in the kernel's module"));
    };
    let mut others = Vec::new();
    for function in &functions {
        if !std::ptr::eq(*function, kernel) {
            others.push(reader.function(function)?);
        }
    }
    let name = mlir.name().map(Into::into);
    let kernel = reader.kernel(kernel)?;
    Ok(Module {
        name: name.unwrap_or_else(|| kernel.function.name.clone()),
        kernel,
        functions: others,
        values: reader.values,
    })
}

struct Reader<'m> {
    mlir: &'m mlir::Module,
    values: Arena<Value, Type>,
    numbers: FxHashMap<mlir::ValueId, Value>,
    /// The offsets of the lines of the text that the module was read from.
    lines: Vec<usize>,
}

fn line_starts(mlir: &mlir::Module) -> Vec<usize> {
    let Some(text) = &mlir.text else {
        return Vec::new();
    };
    let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    std::iter::once(0)
        .chain(ends.map(|(at, _)| at + 1))
        .collect()
}

fn at(operation: &mlir::Operation, message: impl Into<String>) -> Error {
    let message = message.into();
    let error = Error::input(format!("`{}`: {message}", operation.name));
    with_place(operation, error)
}

fn unsupported(operation: &mlir::Operation, message: impl Into<String>) -> Error {
    let message = message.into();
    let error = Error::unsupported(format!("`{}`: {message}", operation.name));
    with_place(operation, error)
}

fn with_place(operation: &mlir::Operation, mut error: Error) -> Error {
    match place(operation) {
        Some(Place { file, line }) => {
            error.message = format!("{file}:{line}: {}", error.message);
            error
        }
        None => error.at_byte(operation.offset),
    }
}

/// The first file and line of a location, innermost calls first. JAX traces an operation such as a
/// reference's read once, as a separate function, and reuses the frames of that first trace as the
/// callee wherever the operation occurs again; the caller is then the right place. Such a
/// location's name has the function and the operation inside it, which have the same name:
/// `get/get`. Older versions have no such names; there the caller is used if caller and callee are
/// the same function.
fn file_of(location: &mlir::Location) -> Option<(&str, u32)> {
    match location {
        mlir::Location::Name { name, child } => match &**child {
            mlir::Location::CallSite { callee, caller } if is_traced_once(name) => {
                file_of(caller).or_else(|| file_of(callee))
            }
            child => file_of(child),
        },
        mlir::Location::CallSite { callee, caller } => match callee.name() == caller.name() {
            true => file_of(caller).or_else(|| file_of(callee)),
            false => file_of(callee).or_else(|| file_of(caller)),
        },
        mlir::Location::Fused { locations, .. } => {
            locations.iter().find_map(|location| file_of(location))
        }
        other => other.file(),
    }
}

/// Whether the last two parts of a path of names are equal.
fn is_traced_once(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let last = parts.next();
    last.is_some_and(|last| !last.is_empty()) && parts.next() == last
}

fn place(operation: &mlir::Operation) -> Option<Place> {
    let (file, line) = file_of(&operation.location)?;
    Some(Place {
        file: file.into(),
        line,
    })
}

impl Reader<'_> {
    /// The line of an operation in a text without a file name.
    fn line_of(&self, operation: &mlir::Operation) -> Option<Place> {
        let after = self
            .lines
            .partition_point(|start| *start <= operation.offset);
        let line = u32::try_from(after).ok().filter(|line| *line > 0)?;
        Some(Place {
            file: "".into(),
            line,
        })
    }

    fn function(&mut self, operation: &mlir::Operation) -> Result<Function, Error> {
        let name = operation.attribute("sym_name").and_then(Attribute::as_str);
        let name = name.ok_or_else(|| at(operation, "the function has no name"))?;
        let [region] = operation.regions.as_slice() else {
            return Err(at(operation, "expected a function with one region"));
        };
        Ok(Function {
            name: name.into(),
            body: self.region(operation, region)?,
        })
    }

    fn kernel(&mut self, operation: &mlir::Operation) -> Result<Kernel, Error> {
        if let Some(core) = operation.attribute("tpu.core_type") {
            let core = bracketed(core, "tpu.core_type").unwrap_or_default();
            if core != "tc" {
                return Err(unsupported(
                    operation,
                    format!(
                        "core type `{core}` is not supported: expected a kernel for the TensorCore (`tc`)"
                    ),
                ));
            }
        }
        let semantics = operation.attribute("dimension_semantics");
        let semantics = semantics.and_then(Attribute::as_array).unwrap_or_default();
        let semantics = semantics.iter().map(|attribute| {
            let name = bracketed(attribute, "tpu.dimension_semantics");
            match name.as_deref() {
                Some("parallel") => Ok(Semantics::Parallel),
                Some("arbitrary") => Ok(Semantics::Arbitrary),
                other => Err(unsupported(
                    operation,
                    format!("unknown dimension semantics `{}`", other.unwrap_or("?")),
                )),
            }
        });
        let semantics = semantics.collect::<Result<Vec<_>, _>>()?;
        let grid = integers(operation, "iteration_bounds").unwrap_or_default();
        let known = |size: i64| (size != i64::MIN).then_some(size);
        let count = |name: &str| match integer(operation, name).unwrap_or(0) {
            count @ 0..0x1_0000 => Ok(count as usize),
            other => Err(at(operation, format!("{name} = {other}"))),
        };
        let windows = operation.attribute("window_params");
        let windows = windows.and_then(Attribute::as_array).unwrap_or_default();
        let windows = windows.iter().map(|window| self.window(operation, window));
        Ok(Kernel {
            windows: windows.collect::<Result<_, _>>()?,
            grid: grid.into_iter().map(known).collect(),
            semantics,
            scalar_prefetch: count("scalar_prefetch")?,
            scratch: count("scratch_operands")?,
            function: self.function(operation)?,
        })
    }

    fn window(&self, operation: &mlir::Operation, window: &Attribute) -> Result<Window, Error> {
        let Some(entries) = window.as_entries() else {
            return Err(at(
                operation,
                "the parameters of a window are not a dictionary",
            ));
        };
        let mut made = Window::default();
        for (key, value) in &**entries {
            match &**key {
                "transform_indices" => made.transform = value.as_symbol().map(Into::into),
                "window_bounds" => made.bounds = value.as_integers().unwrap_or_default(),
                "window_kind" => {
                    let Some(text) = bracketed(value, "tpu.element_window") else {
                        return Err(unsupported(operation, "unknown kind of window"));
                    };
                    let lists = crate::attributes::lists(&text);
                    let Some([low, high]) = lists.and_then(|l| <[Vec<i64>; 2]>::try_from(l).ok())
                    else {
                        return Err(at(operation, "expected padding for an element window"));
                    };
                    made.elements = Some((low, high));
                }
                "pipeline_mode" => {
                    let mode = bracketed(value, "tpu.pipeline_mode");
                    made.buffers = match mode.as_deref() {
                        Some("synchronous") => Some(1),
                        Some("double_buffered") => Some(2),
                        other => {
                            let other = other.unwrap_or("?");
                            return Err(unsupported(
                                operation,
                                format!("pipeline mode `{other}` is not supported"),
                            ));
                        }
                    };
                }
                other => {
                    return Err(unsupported(
                        operation,
                        format!("a window with `{other}` is not supported"),
                    ));
                }
            }
        }
        Ok(made)
    }

    fn region(
        &mut self,
        operation: &mlir::Operation,
        region: &mlir::Region,
    ) -> Result<Block, Error> {
        let block = match region.blocks.as_slice() {
            [] => return Ok(Block::default()),
            [block] => block,
            _ => {
                return Err(unsupported(
                    operation,
                    "a region of several blocks is not supported",
                ));
            }
        };
        let mut made = Block::default();
        for &argument in &block.arguments {
            made.arguments.push(self.define(operation, argument)?);
        }
        for inner in &block.operations {
            let inner = self.operation(inner)?;
            made.operations.push(inner);
        }
        Ok(made)
    }

    fn define(&mut self, operation: &mlir::Operation, id: mlir::ValueId) -> Result<Value, Error> {
        let ty = self.mlir.type_of(id);
        let made = self.ty(operation, ty)?;
        let value = self.values.push(made);
        self.numbers.insert(id, value);
        Ok(value)
    }

    fn ty(&self, operation: &mlir::Operation, ty: &mlir::Type) -> Result<Type, Error> {
        let unknown = || {
            unsupported(
                operation,
                format!("a value of type {} is not supported", type_text(ty)),
            )
        };
        Ok(match ty {
            mlir::Type::Vector(vector) if vector.scalable.iter().all(|s| !s) => {
                Type::Vector(VectorType {
                    dims: sizes(operation, &vector.dims)?,
                    element: element(&vector.element).ok_or_else(unknown)?,
                })
            }
            mlir::Type::MemRef(memref) => {
                let dims = memref.dims.clone().ok_or_else(unknown)?;
                let known: Vec<i64> = dims.iter().map(|dim| dim.unwrap_or(1)).collect();
                sizes(operation, &known)?;
                let item = match &memref.element {
                    mlir::Type::Dialect { dialect, body } if &**dialect == "tpu" => match &**body {
                        "semaphore" => Item::Semaphore,
                        "dma_semaphore" => Item::DmaSemaphore,
                        _ => return Err(unknown()),
                    },
                    other => Item::Data(element(other).ok_or_else(unknown)?),
                };
                let space = match &memref.space {
                    None => MemorySpace::Any,
                    Some(space) => {
                        let name = bracketed(space, "tpu.memory_space").unwrap_or_default();
                        let name = name.split(',').next().unwrap_or_default().trim();
                        MemorySpace::from_name(name).ok_or_else(unknown)?
                    }
                };
                Type::MemRef(MemRefType { dims, item, space })
            }
            other => Type::Scalar(element(other).ok_or_else(unknown)?),
        })
    }

    fn operation(&mut self, operation: &mlir::Operation) -> Result<Operation, Error> {
        if !operation.successors.is_empty() {
            return Err(unsupported(
                operation,
                "control flow between blocks is not supported",
            ));
        }
        let mut operands = SmallVec::new();
        for operand in &operation.operands {
            let Some(&value) = self.numbers.get(operand) else {
                return Err(at(operation, "an operand is defined after its use"));
            };
            operands.push(value);
        }
        let mut regions = Vec::new();
        for region in &operation.regions {
            regions.push(self.region(operation, region)?);
        }
        let mut results = SmallVec::new();
        for &result in &operation.results {
            results.push(self.define(operation, result)?);
        }
        let mut made = Operation {
            op: Op::Return,
            operands,
            results,
            regions,
            place: place(operation).or_else(|| self.line_of(operation)),
            name: operation.name.clone(),
        };
        self.op(operation, &mut made)?;
        Ok(made)
    }

    fn op(&self, operation: &mlir::Operation, made: &mut Operation) -> Result<(), Error> {
        let name = &*operation.name;
        if let Some(op) = names::plain(name) {
            made.op = op;
            return Ok(());
        }
        let segments = || {
            let sizes = integers(operation, "operandSegmentSizes");
            sizes.ok_or_else(|| at(operation, "the sizes of its groups of operands are missing"))
        };
        let dims = |attribute: &str| {
            let dims = integers(operation, attribute);
            dims.ok_or_else(|| at(operation, format!("`{attribute}` is missing")))
        };
        let number = |attribute: &str| {
            let number = integer(operation, attribute);
            number.ok_or_else(|| at(operation, format!("`{attribute}` is missing")))
        };
        let text = |attribute: &str| {
            let text = operation.attribute(attribute).and_then(Attribute::as_str);
            let text = text.ok_or_else(|| at(operation, format!("`{attribute}` is missing")));
            text.map(std::sync::Arc::from)
        };
        made.op = match name {
            "arith.constant" => Op::Constant(self.constant(operation)?),
            "arith.cmpi" => Op::CompareInt(
                int_predicate(number("predicate")?)
                    .ok_or_else(|| at(operation, "an unknown predicate"))?,
            ),
            "arith.cmpf" => Op::CompareFloat(
                float_predicate(number("predicate")?)
                    .ok_or_else(|| at(operation, "an unknown predicate"))?,
            ),
            "tpu.fptosi" | "tpu.sitofp" | "tpu.truncf" | "tpu.fptoui" | "tpu.uitofp" => {
                rounding_cast(operation)?
            }
            "tpu.assume_multiple" => Op::AssumeMultiple(number("multiple")?),
            "tpu.iota" => Op::Iota(dims("dimensions")?),
            "vector.multi_reduction" | "vector.multi_dim_reduction" => {
                Op::Reduce(reduction(operation)?, dims("reduction_dims")?)
            }
            "vector.reduction" => {
                let rank = self.rank(made, 0);
                if made.operands.len() != 2 {
                    return Err(unsupported(
                        operation,
                        "expected a reduction with an accumulator",
                    ));
                }
                Op::Reduce(reduction(operation)?, (0..rank).collect())
            }
            "tpu.all_reduce" => {
                return Err(unsupported(operation, "it is not supported"));
            }
            "tpu.reduce_index" => {
                let kind = operation.attribute("kind");
                let kind = kind.and_then(|kind| bracketed(kind, "tpu.reduction_kind"));
                match kind.as_deref() {
                    Some("arg_max") => Op::ReduceIndex(Reduction::Maximum, number("axis")?),
                    Some("arg_min") => Op::ReduceIndex(Reduction::Minimum, number("axis")?),
                    _ => return Err(unsupported(operation, "unknown kind of reduction")),
                }
            }
            "vector.transpose" | "tpu.transpose" => Op::Transpose(dims("permutation")?),
            "tpu.concatenate" => Op::Concatenate(number("dimension")?),
            "vector.extract_strided_slice" => {
                Op::Slice(dims("offsets")?, dims("sizes")?, dims("strides")?)
            }
            "vector.extract" => {
                let position = dims("static_position")?;
                if made.operands.len() != 1 || position.contains(&i64::MIN) {
                    return Err(unsupported(
                        operation,
                        "a position that is not constant is not supported",
                    ));
                }
                Op::Extract(position)
            }
            "tpu.dynamic_rotate" => {
                let stride =
                    integer(operation, "stride").zip(integer(operation, "stride_dimension"));
                Op::Rotate(number("dimension")?, stride)
            }
            "tpu.repeat" => Op::Repeat(number("dimension")?, number("times")?),
            "tpu.dynamic_gather" => Op::Gather(dims("dimensions")?),
            "tpu.pack_elementwise" => {
                Op::PackElementwise(self.named_type(operation, "target_type")?)
            }
            "tpu.unpack_elementwise" => {
                Op::UnpackElementwise(self.named_type(operation, "source_type")?, number("index")?)
            }
            "tpu.matmul" => self.matmul(operation)?,
            "vector.load" => Op::Load {
                strides: Vec::new(),
                masked: false,
            },
            "tpu.strided_load" => Op::Load {
                strides: dims("strides")?,
                masked: false,
            },
            "tpu.vector_load" => Op::Load {
                strides: dims("strides")?,
                masked: segments()?.get(2) == Some(&1),
            },
            "vector.store" => Op::Store {
                strides: Vec::new(),
                masked: false,
                add: false,
            },
            "tpu.strided_store" => Op::Store {
                strides: dims("strides")?,
                masked: false,
                add: false,
            },
            "tpu.vector_store" => Op::Store {
                strides: dims("strides")?,
                masked: segments()?.get(3) == Some(&1),
                add: flag(operation, "add"),
            },
            "tpu.memref_slice" => Op::MemRefSlice,
            "tpu.enqueue_dma" | "tpu.wait_dma" | "tpu.wait_dma2" => {
                self.copy(operation, made, &segments()?)?
            }
            "tpu.sem_signal" => {
                let segments = segments()?;
                if segments.get(4).is_some_and(|subcore| *subcore > 0) {
                    return Err(unsupported(
                        operation,
                        "a signal to a subcore is not supported",
                    ));
                }
                Op::Signal {
                    device: segments.get(2) == Some(&1),
                    core: segments.get(3) == Some(&1),
                }
            }
            "tpu.log" | "tpu.log_buffer" => Op::Print {
                text: text("tag")?,
                formatted: flag(operation, "formatted"),
            },
            "cf.assert" => Op::Assert(text("msg")?),
            "tpu.iteration_bound" => Op::GridBound(number("dim")?),
            _ => return Err(unsupported(operation, "this operation is not known")),
        };
        Ok(())
    }

    fn rank(&self, made: &Operation, operand: usize) -> i64 {
        let value = made.operands.get(operand);
        value.map_or(0, |&value| self.values[value].dims().len() as i64)
    }

    fn named_type(&self, operation: &mlir::Operation, name: &str) -> Result<Element, Error> {
        match operation.attribute(name) {
            Some(Attribute::Type(ty)) => element(ty),
            _ => None,
        }
        .ok_or_else(|| at(operation, format!("`{name}` is not an element type")))
    }

    fn constant(&self, operation: &mlir::Operation) -> Result<Constant, Error> {
        Ok(match operation.attribute("value") {
            Some(Attribute::Integer { value, .. }) => Constant::Splat(*value as u64),
            Some(Attribute::Float { bits, .. }) => Constant::Splat(*bits),
            Some(Attribute::Elements(elements)) => {
                let wrong = || at(operation, "the elements of a constant are not numbers");
                let (_, ty) = elements.ty.shaped().ok_or_else(wrong)?;
                let size = ty
                    .storage_bytes()
                    .filter(|size| *size <= 8)
                    .ok_or_else(wrong)?;
                let signed = !matches!(ty, mlir::Type::Float(_)) && *ty != mlir::Type::BOOL;
                let numbers = elements.bytes.chunks_exact(size).map(|chunk| {
                    let mut wide = [0_u8; 8];
                    wide[..size].copy_from_slice(chunk);
                    let bits = u64::from_le_bytes(wide);
                    let shift = 64 - 8 * size as u32;
                    match signed {
                        true => ((bits << shift) as i64 >> shift) as u64,
                        false => bits,
                    }
                });
                match elements.splat {
                    true => Constant::Splat(numbers.into_iter().next().ok_or_else(wrong)?),
                    false => Constant::Elements(numbers.collect()),
                }
            }
            _ => return Err(at(operation, "expected a number as constant")),
        })
    }

    fn matmul(&self, operation: &mlir::Operation) -> Result<Op, Error> {
        let precision = operation.attribute("precision");
        let precision = precision.and_then(|p| bracketed(p, "tpu.contract_precision"));
        let precision = match precision.as_deref() {
            Some("fp32") => Precision::Float32,
            None | Some("bf16") => Precision::Default,
            Some(other) => return Err(unsupported(operation, format!("precision `{other}`"))),
        };
        if let Some(dimensions) = operation.attribute("dimension_numbers") {
            let dims = dot_dimensions(dimensions).ok_or_else(|| {
                at(
                    operation,
                    "expected dimension numbers in the form that JAX writes",
                )
            })?;
            return Ok(Op::Matmul(dims, precision));
        }
        // Both operands have two dimensions; the flags say which operands are transposed.
        let lhs = i64::from(!flag(operation, "transpose_lhs"));
        let rhs = i64::from(flag(operation, "transpose_rhs"));
        let dims = DotDims {
            lhs_contracting: vec![lhs],
            rhs_contracting: vec![rhs],
            output: vec![(0, 1 - lhs), (1, 1 - rhs)],
            ..DotDims::default()
        };
        Ok(Op::Matmul(dims, precision))
    }

    /// Puts the operands of a copy in the order of [`CopyOperands`], whichever order the operation
    /// has.
    fn copy(
        &self,
        operation: &mlir::Operation,
        made: &mut Operation,
        segments: &[i64],
    ) -> Result<Op, Error> {
        let is_old = &*operation.name == "tpu.wait_dma2";
        // The operand groups of `wait_dma2` are: semaphore, source, destination, device, core.
        let wanted: &[usize] = if is_old {
            &[1, 0, 2, 0, 3, 4]
        } else {
            &[0, 1, 2, 3, 4, 5]
        };
        let has = |group: usize| segments.get(group) == Some(&1);
        if segments.get(6).is_some_and(|subcore| *subcore > 0) {
            return Err(unsupported(
                operation,
                "a copy to a subcore is not supported",
            ));
        }
        let given = |groups: &[i64]| groups.iter().filter(|size| **size == 1).count();
        if segments.iter().any(|size| !(0..=1).contains(size))
            || given(segments) != made.operands.len()
        {
            return Err(at(
                operation,
                "its groups of operands do not fit its operands",
            ));
        }
        let of = |group: usize| -> Option<Value> {
            has(group).then(|| made.operands[given(&segments[..group])])
        };
        let missing = || at(operation, "expected a copy with a source and a destination");
        let source = of(wanted[0]).ok_or_else(missing)?;
        let target = of(wanted[2]).ok_or_else(missing)?;
        let source_semaphore = (!is_old).then(|| of(1)).flatten();
        let target_semaphore = if is_old { of(0) } else { of(3) };
        let (device, core) = (of(wanted[4]), of(wanted[5]));
        let groups = CopyOperands {
            source_semaphore: source_semaphore.is_some(),
            target_semaphore: target_semaphore.is_some(),
            device: device.is_some(),
            core: core.is_some(),
        };
        let all = [
            Some(source),
            source_semaphore,
            Some(target),
            target_semaphore,
            device,
            core,
        ];
        made.operands = all.into_iter().flatten().collect();
        Ok(match &*operation.name {
            "tpu.enqueue_dma" => Op::EnqueueDma(groups),
            _ => Op::WaitDma(groups, is_old || flag(operation, "wait_target")),
        })
    }
}

/// The maximum number of elements of a value; larger values are rejected.
const MOST_ELEMENTS: i64 = 1 << 40;

fn sizes(operation: &mlir::Operation, dims: &[i64]) -> Result<Vec<i64>, Error> {
    let count = dims.iter().try_fold(1i64, |count, &dim| {
        (dim >= 0).then(|| count.checked_mul(dim.max(1))).flatten()
    });
    match count {
        Some(count) if count <= MOST_ELEMENTS => Ok(dims.to_vec()),
        _ => Err(at(operation, "a value has more elements than any memory")),
    }
}

fn element(ty: &mlir::Type) -> Option<Element> {
    Some(match ty {
        mlir::Type::Integer { width, .. } if matches!(width, 1 | 2 | 4 | 8 | 16 | 32 | 64) => {
            Element::Int(*width as u8)
        }
        mlir::Type::Index => Element::Index,
        mlir::Type::Float(kind) => Element::Float(*kind),
        _ => return None,
    })
}

fn int_predicate(number: i64) -> Option<IntPredicate> {
    use IntPredicate as P;
    let all = [
        P::Eq,
        P::Ne,
        P::Slt,
        P::Sle,
        P::Sgt,
        P::Sge,
        P::Ult,
        P::Ule,
        P::Ugt,
        P::Uge,
    ];
    all.get(usize::try_from(number).ok()?).copied()
}

/// Converts MLIR's numbers: false, oeq, ogt, oge, olt, ole, one, ord, ueq, ugt, uge, ult, ule, une,
/// uno, true.
fn float_predicate(number: i64) -> Option<FloatPredicate> {
    // The bits are equal, greater, less.
    const ORDERED: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
    let number = usize::try_from(number).ok()?;
    let (bits, unordered) = match number {
        0..8 => (ORDERED[number], false),
        8..14 => (ORDERED[number - 7], true),
        14 => (0, true),
        15 => (7, true),
        _ => return None,
    };
    Some(FloatPredicate {
        equal: bits & 1 != 0,
        greater: bits & 2 != 0,
        less: bits & 4 != 0,
        unordered,
    })
}

fn rounding_cast(operation: &mlir::Operation) -> Result<Op, Error> {
    let mode = operation.attribute("rounding_mode");
    let mode = mode.and_then(|mode| bracketed(mode, "tpu.rounding_mode"));
    let mode = mode.unwrap_or_default();
    let cast = match (&*operation.name, &*mode) {
        ("tpu.fptosi", "towards_zero") => Cast::ToSigned,
        ("tpu.fptosi", "to_nearest_even") => Cast::ToSignedNearest,
        ("tpu.fptoui", "towards_zero") => Cast::ToUnsigned,
        ("tpu.sitofp", "to_nearest_even") => Cast::FromSigned,
        ("tpu.uitofp", "to_nearest_even") => Cast::FromUnsigned,
        ("tpu.truncf", "to_nearest_even") => Cast::Float,
        _ => {
            return Err(unsupported(
                operation,
                format!("rounding mode `{mode}` is not supported"),
            ));
        }
    };
    Ok(Op::Cast(cast))
}

fn reduction(operation: &mlir::Operation) -> Result<Reduction, Error> {
    let kind = operation.attribute("kind");
    let kind = kind.and_then(|kind| bracketed(kind, "vector.kind"));
    Ok(match kind.as_deref() {
        Some("add") => Reduction::Add,
        Some("mul") => Reduction::Mul,
        Some("maximumf" | "maxnumf") => Reduction::Maximum,
        Some("minimumf" | "minnumf") => Reduction::Minimum,
        Some("maxsi") => Reduction::MaxSigned,
        Some("minsi") => Reduction::MinSigned,
        Some("maxui") => Reduction::MaxUnsigned,
        Some("minui") => Reduction::MinUnsigned,
        Some("and") => Reduction::And,
        Some("or") => Reduction::Or,
        Some("xor") => Reduction::Xor,
        other => {
            let other = other.unwrap_or("?");
            return Err(unsupported(
                operation,
                format!("a reduction by `{other}` is not supported"),
            ));
        }
    })
}
