//! Shape computations as machine code: the provider that emits Cranelift.
//!
//! A number is a pair of values: the number itself, and a status (0: valid, 1: overflow, 2:
//! division by zero). Nothing traps.

use super::integer;
use super::target::target;
use crate::error::Error;
use crate::image::{ImageBuilder, PlacedCode};
use cranelift_codegen::Context;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use tegula_expr::{Arithmetic, Emitted, Emitter, Emitting, EvalError, KnownOperand, Number};
use tegula_target::IsaLevel;

/// A number computed by machine code.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    value: Value,
    /// The status, an i64: 0 if the value is valid.
    fault: Value,
}

/// Emits machine code for operands about which this is known.
pub struct MachineSizes<'a, 'f> {
    builder: &'a mut FunctionBuilder<'f>,
    known: &'a [KnownOperand],
    dims: Value,
    elements: Value,
    reads: Reads,
}

/// How many of the sizes and elements of each operand a computation reads.
#[derive(Debug, Default)]
struct Reads {
    dims: Vec<usize>,
    elements: Vec<usize>,
}

impl Reads {
    fn note(lists: &mut Vec<usize>, list: usize, index: usize) {
        if lists.len() <= list {
            lists.resize(list + 1, 0);
        }
        if let Some(count) = lists.get_mut(list) {
            *count = (*count).max(index + 1);
        }
    }
}

impl MachineSizes<'_, '_> {
    fn number(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(types::I64, value)
    }

    /// Element `index` of list `list` of lists of 64-bit numbers.
    fn load(&mut self, lists: Value, list: usize, index: usize) -> Checked {
        let flags = MemFlagsData::trusted();
        let offset = |place: usize| i32::try_from(place.checked_mul(8)?).ok();
        let (Some(first), Some(second)) = (offset(list), offset(index)) else {
            return self.constant(Err(EvalError::Overflow));
        };
        let ins = &mut self.builder;
        let start = ins.ins().load(types::I64, flags, lists, first);
        let value = ins.ins().load(types::I64, flags, start, second);
        Checked {
            value,
            fault: self.number(0),
        }
    }

    /// `a` if it is not 0, else `b`.
    fn first(&mut self, a: Value, b: Value) -> Value {
        self.builder.ins().select(a, a, b)
    }

    fn is(&mut self, value: Value, constant: i64) -> Value {
        self.builder.ins().icmp_imm_s(IntCC::Equal, value, constant)
    }

    /// Whether the result of a sum, difference or product does not fit, as an i64.
    fn overflow(&mut self, op: Arithmetic, a: Value, b: Value, result: Value) -> Value {
        let ins = &mut self.builder;
        let (left, right) = match op {
            // Overflow: the operands have one sign, the result the other.
            Arithmetic::Add => (ins.ins().bxor(a, result), ins.ins().bxor(b, result)),
            Arithmetic::Sub => (ins.ins().bxor(a, b), ins.ins().bxor(a, result)),
            _ => {
                let upper = ins.ins().smulhi(a, b);
                let sign = ins.ins().sshr_imm_s(result, 63);
                let differ = ins.ins().icmp(IntCC::NotEqual, upper, sign);
                return ins.ins().uextend(types::I64, differ);
            }
        };
        let both = ins.ins().band(left, right);
        ins.ins().ushr_imm_s(both, 63)
    }

    /// A divisor that never traps, and the status of the quotient by the actual divisor.
    fn divisor(&mut self, op: Arithmetic, a: Value, b: Value) -> (Value, Value) {
        let (zero, minus, smallest) = (self.is(b, 0), self.is(b, -1), self.is(a, i64::MIN));
        let ins = &mut self.builder;
        let large = ins.ins().band(minus, smallest);
        let unsafe_to_divide = ins.ins().bor(zero, large);
        let one = ins.ins().iconst(types::I64, 1);
        let divisor = ins.ins().select(unsafe_to_divide, one, b);
        let zero = ins.ins().uextend(types::I64, zero);
        let mut fault = ins.ins().iadd(zero, zero);
        // A remainder of a division by -1 is 0, as by 1.
        if op != Arithmetic::Mod {
            let large = ins.ins().uextend(types::I64, large);
            fault = ins.ins().bor(fault, large);
        }
        (divisor, fault)
    }
}

impl Emitter for MachineSizes<'_, '_> {
    type Value = Checked;

    fn constant(&mut self, value: Number) -> Checked {
        let fault = match value {
            Ok(_) => 0,
            Err(EvalError::DivisionByZero) => 2,
            Err(EvalError::Overflow | EvalError::Unbound(_)) => 1,
        };
        Checked {
            value: self.number(value.unwrap_or(0)),
            fault: self.number(fault),
        }
    }

    fn arithmetic(&mut self, op: Arithmetic, a: &Checked, b: &Checked) -> Checked {
        let (value, own) = match op {
            Arithmetic::Add | Arithmetic::Sub | Arithmetic::Mul => {
                let value = integer::arithmetic(self.builder, op, a.value, b.value);
                (value, self.overflow(op, a.value, b.value, value))
            }
            Arithmetic::FloorDiv | Arithmetic::CeilDiv | Arithmetic::Mod => {
                let (divisor, fault) = self.divisor(op, a.value, b.value);
                let value = integer::arithmetic(self.builder, op, a.value, divisor);
                (value, fault)
            }
            Arithmetic::Min | Arithmetic::Max | Arithmetic::Cmp(_) => {
                let value = integer::arithmetic(self.builder, op, a.value, b.value);
                (value, self.number(0))
            }
        };
        let fault = self.first(b.fault, own);
        Checked {
            value,
            fault: self.first(a.fault, fault),
        }
    }

    fn select(&mut self, condition: &Checked, a: &Checked, b: &Checked) -> Checked {
        let ins = &mut self.builder;
        let value = ins.ins().select(condition.value, a.value, b.value);
        let chosen = ins.ins().select(condition.value, a.fault, b.fault);
        Checked {
            value,
            fault: self.first(condition.fault, chosen),
        }
    }

    fn shape(&mut self, operand: usize, dim: usize) -> Emitted<Checked> {
        match self.known.get(operand).and_then(|known| known.dim(dim)) {
            Some(size) => Emitted::Known(Ok(size)),
            None => {
                Reads::note(&mut self.reads.dims, operand, dim);
                Emitted::Code(self.load(self.dims, operand, dim))
            }
        }
    }

    fn known_element(&mut self, operand: usize, flat: usize) -> Option<i64> {
        self.known.get(operand)?.element(flat)
    }

    fn element(&mut self, operand: usize, flat: usize) -> Checked {
        Reads::note(&mut self.reads.elements, operand, flat);
        self.load(self.elements, operand, flat)
    }
}

/// Takes the sizes and elements of each operand, and the address of the results; returns the status
/// of the first invalid result.
type SizeFunction = unsafe extern "C" fn(*const *const i64, *const *const i64, *mut i64) -> i64;

/// Machine code that computes sizes from the sizes and elements of operands.
pub struct SizeCode {
    function: SizeFunction,
    results: usize,
    reads: Reads,
    _placed: PlacedCode,
}

/// The results of a size computation, as emitted code.
type Results = Vec<Emitted<Checked>>;

impl SizeCode {
    /// Compiles a computation: `compute` is called once and emits it. `known` contains the values
    /// of the operands that are known at compile time; the others are read when the code runs.
    ///
    /// # Errors
    /// Errors of `compute`, and [`Error`] if code for this machine cannot be compiled.
    pub fn compile<E: From<Error>>(
        known: &[KnownOperand],
        compute: impl FnOnce(&mut Emitting<MachineSizes<'_, '_>>) -> Result<Results, E>,
    ) -> Result<Self, E> {
        let mut image = ImageBuilder::new(target(IsaLevel::Native)?);
        let id = image.declare();
        let mut context = Context::new();
        context.func.signature = image.signature(&[types::I64; 3], &[types::I64]);
        let mut functions = FunctionBuilderContext::new();
        let config = image.config();
        let mut builder = FunctionBuilder::new(&mut context.func, &mut functions);
        let (results, reads) = emit(&mut builder, known, compute)?;
        builder.finalize(config);
        image.define(id, &mut context)?;
        let placed = PlacedCode::new(image.finish()?)?;
        // SAFETY: the function was defined with this signature, and is there.
        let function =
            unsafe { std::mem::transmute::<*const u8, SizeFunction>(placed.address(id)) };
        Ok(Self {
            function,
            results,
            reads,
            _placed: placed,
        })
    }

    /// Runs the code on the sizes and elements of each operand. An operand's elements may be
    /// missing if they are not needed.
    ///
    /// # Errors
    /// [`EvalError::Overflow`] too if the code needs a size or element that is not
    /// there.
    pub fn run(&self, dims: &[Vec<i64>], elements: &[Vec<i64>]) -> Result<Vec<i64>, EvalError> {
        let all_there = |reads: &[usize], lists: &[Vec<i64>]| {
            reads
                .iter()
                .enumerate()
                .all(|(list, &count)| count <= lists.get(list).map_or(0, Vec::len))
        };
        if !all_there(&self.reads.dims, dims) || !all_there(&self.reads.elements, elements) {
            return Err(EvalError::Overflow);
        }
        let starts = |lists: &[Vec<i64>]| lists.iter().map(Vec::as_ptr).collect::<Vec<_>>();
        let (dims, elements) = (starts(dims), starts(elements));
        let mut out = vec![0i64; self.results];
        // SAFETY: the code reads at most as many numbers of each list as `reads` states, which
        // exist, and writes `results` numbers.
        let fault = unsafe { (self.function)(dims.as_ptr(), elements.as_ptr(), out.as_mut_ptr()) };
        match fault {
            0 => Ok(out),
            2 => Err(EvalError::DivisionByZero),
            _ => Err(EvalError::Overflow),
        }
    }
}

/// Emits the whole function; returns the number of results and the numbers that it reads.
fn emit<E: From<Error>>(
    builder: &mut FunctionBuilder<'_>,
    known: &[KnownOperand],
    compute: impl FnOnce(&mut Emitting<MachineSizes<'_, '_>>) -> Result<Results, E>,
) -> Result<(usize, Reads), E> {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    builder.seal_block(entry);
    let [dims, elements, out] = builder.block_params(entry)[..] else {
        return Err(Error::Bug(
            "a size function has an unexpected number of parameters".to_owned(),
        )
        .into());
    };
    let mut provider = Emitting(MachineSizes {
        builder,
        known,
        dims,
        elements,
        reads: Reads::default(),
    });
    let results = compute(&mut provider)?;
    let mut fault = provider.0.number(0);
    for (i, result) in results.iter().enumerate() {
        let checked = provider.code(result);
        let place = i32::try_from(8 * i).map_err(|_| Error::Bug("too many sizes".to_owned()))?;
        let flags = MemFlagsData::trusted();
        let ins = &mut provider.0.builder;
        ins.ins().store(flags, checked.value, out, place);
        fault = provider.0.first(fault, checked.fault);
    }
    let reads = provider.0.reads;
    builder.ins().return_(&[fault]);
    Ok((results.len(), reads))
}
