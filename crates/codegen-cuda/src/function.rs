//! Functions of a device program: their text and how they are launched.

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
    /// How its work is spread over threads, and why so.
    pub reason: String,
    /// Its definition.
    pub text: String,
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks, as terms over the plan's symbols.
    pub grid: [Term; 3],
    /// The plan's symbols whose values it takes after its arrays.
    pub symbols: Vec<u32>,
    /// Whether its last parameter is where a flag is, or nowhere: it does nothing where
    /// the flag is 0.
    pub guarded: bool,
}

impl Function {
    /// Adds the parameter that makes the function do nothing where a flag is 0.
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
    /// Bytes of each array of its own, by which one function hands something on to
    /// another, as terms over the plan's symbols.
    pub scratch: Vec<Term>,
    pub steps: Vec<Work>,
}

/// An array of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// One that it is given, by number.
    Given(usize),
    /// One of its own, by number.
    Scratch(usize),
}

/// A step of a series. Functions have numbers among the series', later the program's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    Launch {
        function: usize,
        arrays: Vec<Slot>,
    },
    /// Passes of a function that reads one set of arrays and writes another, and whose
    /// last parameter is the length of the runs that are sorted: at first `run`, then
    /// doubled until they have the length of all.
    Passes {
        function: usize,
        run: i64,
        length: Term,
        from: Vec<Slot>,
        to: Vec<Slot>,
        /// What passes in between write, in turn with `to`.
        between: Vec<Slot>,
        /// Bytes of each array.
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
    /// One function on `given` arrays.
    pub(crate) fn one(function: Function, given: usize) -> Self {
        Self::in_turn(vec![function], given, Vec::new())
    }

    /// Functions in turn, each on all `given` arrays, then all of the series' own.
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

/// Blocks along one dimension.
pub(crate) fn linear(blocks: Term) -> [Term; 3] {
    [blocks, Term::constant(1), Term::constant(1)]
}

/// Symbols that a kernel's terms use, in ascending order.
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

/// A term over a kernel's variables, which uses symbols only, as one over the plan's
/// symbols.
pub(crate) fn over_symbols(kernel: &Kernel, term: &Term) -> Term {
    term.substitute(&mut |var| match kernel.var(var) {
        Some(IndexVar::Symbol { symbol, .. }) => Some(Term::var(tegula_expr::Var(*symbol))),
        _ => None,
    })
}

/// The number of points of a kernel's domain, over the kernel's variables.
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

/// The head of a kernel's function: its arrays `p0`, ..., those that functions hand on
/// `q0`, ... of these types, and sizes `s0`, ....
/// `apart`: none of the arrays that it reads lies where it writes.
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

/// Whether a kernel has no points whatever the sizes are.
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

/// Names the domain's variables from the number of a point, `name`, an `unsigned int`
/// or, if `wide`, an `unsigned long long`.
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
