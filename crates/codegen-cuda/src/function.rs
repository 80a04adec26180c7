//! Functions of a device program: their source and how they are launched.

use crate::body::Body;
use crate::error::Error;
use crate::types::storage;
use tegula_expr::Term;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, IndexVar};

/// A `__global__` function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function {
    /// Its name in the program.
    pub name: String,
    /// How its work is spread over threads, and the reason for that.
    pub reason: String,
    /// Its definition.
    pub text: String,
    /// The number of threads of a block.
    pub block: [u32; 3],
    /// The number of blocks, as terms over the plan's symbols.
    pub grid: [Term; 3],
    /// The plan's symbols whose values it takes after its arrays.
    pub symbols: Vec<u32>,
    /// Whether its last parameter is a guard: a pointer to a flag, or null. The function does
    /// nothing if the flag is 0.
    pub guarded: bool,
}

impl Function {
    /// Adds the guard parameter, with which the function does nothing if a flag is 0.
    pub(crate) fn guard(&mut self) {
        if self.guarded {
            return;
        }
        let name = format!(" {}(", self.name);
        let lines = self.text.lines().map(|line| {
            let is_head = line.starts_with("extern \"C\" __global__") && line.contains(&name);
            match line.rsplit_once(") {").filter(|_| is_head) {
                Some((head, rest)) => {
                    let comma = if head.ends_with('(') { "" } else { ", " };
                    format!(
                        "{head}{comma}const unsigned char *__restrict__ guard) {{\n    \
                         if (guard != 0 && *guard == 0) return;{rest}\n"
                    )
                }
                None => format!("{line}\n"),
            }
        });
        self.text = lines.collect();
        self.guarded = true;
    }
}

/// Functions, and how they are launched one after the other on the same arrays.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KernelSequence {
    pub functions: Vec<Function>,
    /// The size in bytes of each scratch array, which passes data from one function to another, as
    /// terms over the plan's symbols.
    pub scratch: Vec<Term>,
    pub steps: Vec<Work>,
}

/// An array of a kernel sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// An argument, by number.
    Given(usize),
    /// A scratch array, by number.
    Scratch(usize),
}

/// A step of a kernel sequence. Functions are numbered within the sequence, and later within the
/// program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    Launch {
        function: usize,
        arrays: Vec<Slot>,
    },
    /// Passes of a function that reads one set of arrays and writes another. Its last parameter is
    /// the length of the sorted runs: `run` at first, then doubled until runs have the full length.
    Passes {
        function: usize,
        run: i64,
        length: Term,
        from: Vec<Slot>,
        to: Vec<Slot>,
        /// The scratch arrays that intermediate passes write, alternating with `to`.
        between: Vec<Slot>,
        /// The size of each array in bytes.
        bytes: Vec<Term>,
    },
}

impl Work {
    /// The function's number.
    pub(crate) fn function(&mut self) -> &mut usize {
        match self {
            Self::Launch { function, .. } | Self::Passes { function, .. } => function,
        }
    }
}

impl KernelSequence {
    /// A single function with `given` arguments.
    pub(crate) fn one(function: Function, given: usize) -> Self {
        Self::in_turn(vec![function], given, Vec::new())
    }

    /// Functions one after the other, each with all `given` arguments followed by all scratch
    /// arrays.
    pub(crate) fn in_turn(functions: Vec<Function>, given: usize, scratch: Vec<Term>) -> Self {
        let arrays: Vec<Slot> = (0..given)
            .map(Slot::Given)
            .chain((0..scratch.len()).map(Slot::Scratch))
            .collect();
        let steps = (0..functions.len()).map(|function| Work::Launch {
            function,
            arrays: arrays.clone(),
        });
        Self {
            steps: steps.collect(),
            functions,
            scratch,
        }
    }
}

/// A one-dimensional grid of blocks.
pub(crate) fn linear(blocks: Term) -> [Term; 3] {
    [blocks, Term::constant(1), Term::constant(1)]
}

/// The symbols that a kernel's terms use, in ascending order.
pub(crate) fn symbols(kernel: &Kernel) -> Vec<u32> {
    let used = kernel.vars.iter().filter_map(|var| match var {
        IndexVar::Symbol { symbol, .. } => Some(*symbol),
        _ => None,
    });
    let mut used: Vec<u32> = used.collect();
    used.sort_unstable();
    used.dedup();
    used
}

/// Rewrites a term over a kernel's symbols as one over the plan's symbols.
pub(crate) fn over_symbols(kernel: &Kernel, term: &Term) -> Term {
    term.substitute(&mut |var| match kernel.var(var) {
        Some(IndexVar::Symbol { symbol, .. }) => Some(Term::var(tegula_expr::Var(*symbol))),
        _ => None,
    })
}

/// The number of points of a kernel's domain, as a term over the kernel's variables.
pub(crate) fn points(kernel: &Kernel) -> Term {
    let extents = kernel
        .domain
        .iter()
        .filter_map(|&var| match kernel.var(var) {
            Some(IndexVar::Domain(extent)) => Some(extent),
            _ => None,
        });
    extents.fold(Term::constant(1), |all, extent| all.mul(extent))
}

/// The head of a kernel's function: its arrays `p0`, ..., its scratch arrays `q0`, ... of these
/// types, and sizes `s0`, .... `apart` (no-alias) means that none of the arrays that it reads
/// overlaps one that it writes.
pub(crate) fn head(
    name: &str,
    kernel: &Kernel,
    scratch: &[&str],
    apart: bool,
    threads: u32,
) -> String {
    let mut parameters = Vec::new();
    for (i, param) in kernel.params.iter().take(kernel.given()).enumerate() {
        let constant = if param.access == Access::Read {
            "const "
        } else {
            ""
        };
        let restrict = if apart { "__restrict__ " } else { "" };
        let ty = storage(param.element_type);
        parameters.push(format!("{constant}{ty} *{restrict}p{i}"));
    }
    for (i, ty) in scratch.iter().enumerate() {
        parameters.push(format!("{ty} *__restrict__ q{i}"));
    }
    for symbol in symbols(kernel) {
        parameters.push(format!("const long long s{symbol}"));
    }
    format!(
        "extern \"C\" __global__ void __launch_bounds__({threads}) {name}({})",
        parameters.join(", ")
    )
}

/// Whether a kernel has no points for all sizes.
pub(crate) fn is_empty(kernel: &Kernel) -> bool {
    points(kernel).as_constant() == Some(0)
}

/// A function that does nothing, for a kernel without points.
pub(crate) fn empty(name: &str, kernel: &Kernel) -> Function {
    let head = head(name, kernel, &[], false, 32);
    Function {
        name: name.to_owned(),
        reason: "no points".to_owned(),
        text: format!("{head} {{}}\n"),
        block: [32, 1, 1],
        grid: linear(Term::constant(0)),
        symbols: symbols(kernel),
        guarded: false,
    }
}

/// Declares the domain's variables, computed from the number of a point: the variable `name`, an
/// `unsigned int` or, if `wide`, an `unsigned long long`.
///
/// # Errors
/// The kernel breaks its invariants.
pub(crate) fn name_domain(body: &mut Body<'_>, name: &str, wide: bool) -> Result<(), Error> {
    let ty = if wide {
        "unsigned long long"
    } else {
        "unsigned int"
    };
    let mut rest = name.to_owned();
    for (level, &var) in body.kernel.domain.iter().enumerate().rev() {
        let extent = body.extent(var)?;
        if extent.as_constant() == Some(1) {
            body.declare_index(var, "0");
        } else if level == 0 {
            body.declare_index(var, &rest);
        } else {
            let extent = body.term(extent);
            body.declare_index(var, &format!("{rest} % ({ty})({extent})"));
            let next = format!("{}n{level}", body.prefix);
            body.line(&format!("const {ty} {next} = {rest} / ({ty})({extent});"));
            rest = next;
        }
    }
    Ok(())
}
