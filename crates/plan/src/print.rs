//! Prints a plan as text. [`super::parse_plan`] reads it back; the grammar is in the documentation
//! of its module.

use super::operation::print_attributes;
use super::{Place, Plan, Step, ValueId};
use rustc_hash::FxHashSet;
use std::fmt::{self, Display, Formatter, Write};
use tegula_expr::{Cmp, Style, Term, Var};
use tegula_fusion::kernel::{Access, Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_fusion::{Kernel, LibraryOp};
use tegula_ir::{ArrayShape, Dim, Op};

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write(f, true)
    }
}

/// Displays a plan without the elements of its constants, which are stored separately.
/// [`super::parse_plan_with`] reads it back.
#[derive(Clone, Copy, Debug)]
pub struct PlanWithoutConstants<'a>(pub &'a Plan);

impl Display for PlanWithoutConstants<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.write(f, false)
    }
}

/// Displays an operation on scalars as in a kernel's text. [`super::parse_scalar_op`] reads it
/// back.
#[derive(Clone, Copy, Debug)]
pub struct ScalarOpText<'a>(pub &'a ScalarOp);

impl Display for ScalarOpText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&operation(self.0))
    }
}

impl Plan {
    fn write(&self, f: &mut Formatter<'_>, elements: bool) -> fmt::Result {
        writeln!(
            f,
            "plan {:?} arena {} {{",
            self.name,
            outer(&self.arena_bytes)
        )?;
        for (i, symbol) in self.symbols.iter().enumerate() {
            let (lower, upper) = (symbol.lower, symbol.upper);
            writeln!(f, "  symbol {i} = {:?} in [{lower}, {upper}]", symbol.name)?;
        }
        for source in &self.sizes.sources {
            let (parameter, dimension) = (source.parameter, source.dimension);
            writeln!(
                f,
                "  size {} = parameter {parameter} dimension {dimension}",
                source.symbol.0
            )?;
        }
        for guard in &self.sizes.guards {
            let op = match guard.op {
                Cmp::Eq => "==",
                Cmp::Ne => "!=",
                Cmp::Lt => "<",
                Cmp::Le => "<=",
            };
            let (left, right) = (outer(&guard.left), outer(&guard.right));
            write!(f, "  guard {:?} ({left}) {op} ({right})", guard.what)?;
            if let Some(message) = &guard.message {
                write!(f, " message {:?}", message.text)?;
                for value in &message.values {
                    write!(f, " ({})", outer(value))?;
                }
            }
            writeln!(f)?;
        }
        for (i, literal) in self.constants.iter().enumerate() {
            write!(f, "  constant {i} = {} ", shape(literal.shape()))?;
            match elements {
                true => writeln!(f, "of {literal}")?,
                false => writeln!(f, "outside")?,
            }
        }
        for (id, buffer) in &self.buffers {
            let place = match &buffer.place {
                Place::Parameter(i) => format!("parameter {i}"),
                Place::Output { result, from: 0 } => format!("output {result}"),
                Place::Output { result, from } => format!("output {result} from {from}"),
                Place::Constant(i) => format!("constant {i}"),
                Place::Arena(offset) => format!("arena {}", outer(offset)),
            };
            writeln!(f, "  {id} = {place} bytes {}", outer(&buffer.bytes))?;
        }
        for (id, value) in &self.values {
            writeln!(f, "  {id} = {} in {}", shape(&value.shape), value.buffer)?;
        }
        for (id, kernel) in &self.kernels {
            write!(f, "  {id} = ")?;
            write_kernel(f, kernel, 1)?;
        }
        writeln!(f, "  parameters({})", values(&self.parameters))?;
        writeln!(f, "  results({})", values(&self.results))?;
        for alias in &self.aliases {
            let (output, parameter) = (alias.output, alias.parameter);
            writeln!(f, "  alias output {output} = parameter {parameter}")?;
        }
        write_steps(f, self, &self.steps, 1)?;
        writeln!(f, "}}")
    }
}

fn values(ids: &[ValueId]) -> String {
    ids.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn scalars(ids: &[ScalarId]) -> String {
    ids.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Prints a term over the plan's symbols.
fn outer(term: &Term) -> String {
    term.display(&|var: Var| format!("p{}", var.0), Style::Document)
        .to_string()
}

/// Prints a term over a kernel's index variables.
fn inner(term: &Term) -> String {
    term.display(&|var: Var| format!("i{}", var.0), Style::Document)
        .to_string()
}

fn terms(index: &[Term]) -> String {
    index.iter().map(inner).collect::<Vec<_>>().join(", ")
}

/// Prints a shape with its terms, for which HLO's text would have `?`.
fn shape(shape: &ArrayShape) -> String {
    let dim = |dim: &Dim| match dim {
        Dim::Static(size) => size.to_string(),
        Dim::Symbolic(size) => format!("({})", outer(size)),
        Dim::Bounded { bound, size } => format!("<={bound} ({})", outer(size)),
    };
    let dims: Vec<String> = shape.dims.iter().map(dim).collect();
    let layout = shape
        .layout
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    format!("{}[{}]{layout}", shape.element_type, dims.join(","))
}

fn write_steps(f: &mut Formatter<'_>, plan: &Plan, steps: &[Step], depth: usize) -> fmt::Result {
    let pad = "  ".repeat(depth);
    for step in steps {
        match step {
            Step::Kernel { kernel, args } => writeln!(f, "{pad}run {kernel}({})", values(args))?,
            Step::Copy { from, to } => writeln!(f, "{pad}copy {from} -> {to}")?,
            Step::Library {
                op,
                operands,
                results,
            } => {
                let hlo = if matches!(op, LibraryOp::Operation(_)) {
                    "hlo "
                } else {
                    ""
                };
                let (from, to) = (values(operands), values(results));
                write!(f, "{pad}{hlo}{}({from}) -> ({to})", op.name())?;
                match op {
                    LibraryOp::Operation(op) => {
                        writeln!(f, "{}", attributes(plan, op, operands, results))?;
                    }
                    LibraryOp::Dot(dims) => writeln!(f, " {dims}")?,
                    LibraryOp::Sort {
                        dimension,
                        comparator,
                    } => {
                        write!(f, " dimension {dimension} by ")?;
                        write_kernel(f, comparator, depth)?;
                    }
                }
            }
            Step::While {
                condition,
                predicate,
                body,
            } => {
                writeln!(f, "{pad}while {{")?;
                write_steps(f, plan, condition, depth + 1)?;
                writeln!(f, "{pad}}} {predicate} {{")?;
                write_steps(f, plan, body, depth + 1)?;
                writeln!(f, "{pad}}}")?;
            }
            Step::Conditional { selector, branches } => {
                write!(f, "{pad}conditional {selector}")?;
                for branch in branches {
                    writeln!(f, " {{")?;
                    write_steps(f, plan, branch, depth + 1)?;
                    write!(f, "{pad}}}")?;
                }
                writeln!(f)?;
            }
            Step::Strips { count, steps } => {
                writeln!(f, "{pad}strips {count} {{")?;
                write_steps(f, plan, steps, depth + 1)?;
                writeln!(f, "{pad}}}")?;
            }
        }
    }
    Ok(())
}

/// An operation's attributes as in HLO.
fn attributes(plan: &Plan, op: &Op, operands: &[ValueId], results: &[ValueId]) -> String {
    let shapes = |ids: &[ValueId]| -> Vec<&ArrayShape> {
        ids.iter()
            .filter_map(|&id| Some(&plan.values.get(id)?.shape))
            .collect()
    };
    let text = print_attributes(op, &shapes(operands), &shapes(results));
    // An operation that cannot be built as HLO cannot be parsed again.
    text.unwrap_or_else(|_| format!(" ? {op:?}"))
}

/// Displays a kernel as in a plan's text.
#[derive(Clone, Copy, Debug)]
pub struct KernelText<'a>(pub &'a Kernel);

impl fmt::Display for KernelText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_kernel(f, self.0, 0)
    }
}

fn write_kernel(f: &mut Formatter<'_>, kernel: &Kernel, depth: usize) -> fmt::Result {
    let pad = "  ".repeat(depth + 1);
    f.write_str("kernel(")?;
    for (i, param) in kernel.params.iter().enumerate() {
        let access = match param.access {
            Access::Read => "read",
            Access::Write => "write",
            Access::Update => "update",
            Access::Local => "local",
        };
        let comma = if i == 0 { "" } else { ", " };
        write!(
            f,
            "{comma}{access} {}[{}]",
            param.element_type,
            terms(&param.dims)
        )?;
    }
    writeln!(f, ") {{")?;
    for (i, var) in kernel.vars.iter().enumerate() {
        if let IndexVar::Symbol {
            symbol,
            lower,
            upper,
        } = var
        {
            writeln!(f, "{pad}symbol i{i} = {symbol} in [{lower}, {upper}]")?;
        }
    }
    for var in &kernel.domain {
        if let Some(IndexVar::Domain(extent)) = kernel.var(*var) {
            writeln!(f, "{pad}for i{} < {}", var.0, inner(extent))?;
        }
    }
    write_unused(f, kernel, &pad)?;
    write_block(f, kernel, &kernel.body, depth + 1)?;
    writeln!(f, "{}}}", "  ".repeat(depth))
}

/// Declares variables and scalars that no statement defines, so that the text keeps all numbers.
fn write_unused(f: &mut Formatter<'_>, kernel: &Kernel, pad: &str) -> fmt::Result {
    let mut defined = Defined::default();
    defined.vars.extend(&kernel.domain);
    defined.block(&kernel.body);
    for (i, var) in kernel.vars.iter().enumerate() {
        if defined.vars.contains(&Var(i as u32)) {
            continue;
        }
        match var {
            IndexVar::Domain(extent) => writeln!(f, "{pad}unused i{i} for < {}", inner(extent))?,
            IndexVar::Loop(extent) => writeln!(f, "{pad}unused i{i} loop < {}", inner(extent))?,
            IndexVar::Runtime {
                value,
                lower,
                upper,
            } => {
                writeln!(f, "{pad}unused i{i} = {value} in [{lower}, {upper}]")?;
            }
            IndexVar::Symbol { .. } => {}
        }
    }
    for id in (0..kernel.scalars.len()).map(Kernel::scalar) {
        if !defined.scalars.contains(&id) {
            writeln!(f, "{pad}unused {}", typed(kernel, &[id]))?;
        }
    }
    Ok(())
}

/// What the statements of a kernel define.
#[derive(Default)]
struct Defined {
    vars: FxHashSet<Var>,
    scalars: FxHashSet<ScalarId>,
}

impl Defined {
    fn block(&mut self, block: &Block) {
        for statement in &block.statements {
            match statement {
                Statement::Compute { result, .. } | Statement::Load { result, .. } => {
                    self.scalars.insert(*result);
                }
                Statement::Store { .. } => {}
                Statement::Bind { var } => {
                    self.vars.insert(*var);
                }
                Statement::Loop {
                    var,
                    carried,
                    body,
                    results,
                    ..
                } => {
                    self.vars.insert(*var);
                    self.scalars.extend(carried.iter().chain(results));
                    self.block(body);
                }
                Statement::If {
                    then,
                    otherwise,
                    results,
                    ..
                } => {
                    self.scalars.extend(results);
                    self.block(then);
                    self.block(otherwise);
                }
            }
        }
    }
}

fn typed(kernel: &Kernel, ids: &[ScalarId]) -> String {
    let one = |&id: &ScalarId| match kernel.scalars.get(id) {
        Some(element_type) => format!("{id}:{element_type}"),
        None => format!("{id}:?"),
    };
    ids.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn write_block(f: &mut Formatter<'_>, kernel: &Kernel, block: &Block, depth: usize) -> fmt::Result {
    let pad = "  ".repeat(depth);
    for statement in &block.statements {
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => {
                write!(f, "{pad}{} = {}", typed(kernel, &[*result]), operation(op))?;
                let separator = if operands.is_empty() { "" } else { " " };
                writeln!(f, "{separator}{}", scalars(operands))?;
            }
            Statement::Load {
                result,
                param,
                index,
            } => {
                let result = typed(kernel, &[*result]);
                writeln!(f, "{pad}{result} = load {param}[{}]", terms(index))?;
            }
            Statement::Store {
                param,
                index,
                value,
            } => {
                writeln!(f, "{pad}store {param}[{}] = {value}", terms(index))?;
            }
            Statement::Bind { var } => {
                if let Some(IndexVar::Runtime {
                    value,
                    lower,
                    upper,
                }) = kernel.var(*var)
                {
                    writeln!(f, "{pad}bind i{} = {value} in [{lower}, {upper}]", var.0)?;
                }
            }
            Statement::Loop {
                var,
                init,
                carried,
                body,
                results,
            } => {
                let extent = match kernel.var(*var) {
                    Some(IndexVar::Loop(extent)) => inner(extent),
                    _ => "?".to_owned(),
                };
                writeln!(
                    f,
                    "{pad}loop i{} < {extent} ({}) = ({}) -> ({}) {{",
                    var.0,
                    typed(kernel, carried),
                    scalars(init),
                    typed(kernel, results)
                )?;
                write_block(f, kernel, body, depth + 1)?;
                writeln!(f, "{pad}}}")?;
            }
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => {
                writeln!(
                    f,
                    "{pad}if {} -> ({}) {{",
                    inner(condition),
                    typed(kernel, results)
                )?;
                write_block(f, kernel, then, depth + 1)?;
                writeln!(f, "{pad}}} else {{")?;
                write_block(f, kernel, otherwise, depth + 1)?;
                writeln!(f, "{pad}}}")?;
            }
        }
    }
    if !block.results.is_empty() {
        writeln!(f, "{pad}yield {}", scalars(&block.results))?;
    }
    Ok(())
}

fn operation(op: &ScalarOp) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match op {
        ScalarOp::Constant(bits) => write!(text, "constant {bits:#x}"),
        ScalarOp::Index(term) => write!(text, "index {}", inner(term)),
        ScalarOp::Unary(op) => write!(text, "{}", op.opcode()),
        ScalarOp::Binary(op) => write!(text, "{}", op.opcode()),
        ScalarOp::Compare(direction, order) => {
            let order = match order {
                tegula_ir::Order::Partial => "partial",
                tegula_ir::Order::Total => "total",
            };
            write!(text, "compare {direction} {order}")
        }
        ScalarOp::Select => write!(text, "select"),
        ScalarOp::Clamp => write!(text, "clamp"),
        ScalarOp::Convert => write!(text, "convert"),
        ScalarOp::BitcastConvert => write!(text, "bitcast-convert"),
        ScalarOp::ReducePrecision {
            exponent_bits,
            mantissa_bits,
        } => {
            write!(text, "reduce-precision {exponent_bits} {mantissa_bits}")
        }
    };
    text
}
