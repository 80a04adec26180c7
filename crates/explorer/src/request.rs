//! The page's requests and their responses, as JSON.

use crate::code::Isa;
use crate::layouts::draw_layout;
use crate::reads::Scope;
use crate::session::{SizeInfo, Sizes};
use crate::{Problem, Session};
use serde::{Deserialize, Serialize};

/// A request from the page.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// Opens a program, to which later requests refer. If its text cannot be read, the previous
    /// program stays open. The response is [`Opened`].
    Open {
        /// The program.
        text: String,
        /// The values of its symbolic sizes.
        #[serde(flatten)]
        sizes: Sizes,
    },
    /// The graph: [`Graph`](crate::graph::Graph).
    Graph,
    /// The maps of an edge: [`EdgeInfo`](crate::edges::EdgeInfo).
    Edge {
        /// The node that reads.
        node: u32,
        /// Which of its operands.
        operand: usize,
    },
    /// The elements that given elements are computed from: [`Reads`](crate::reads::Reads).
    Reads {
        /// The array.
        value: u32,
        /// Row-major numbers of its elements.
        elements: Vec<i64>,
        /// How far the search follows elements.
        scope: Scope,
        /// The iteration to describe, for each loop's node number. A loop that is not listed is
        /// described by its last iteration.
        #[serde(default)]
        iterations: Vec<(u32, usize)>,
    },
    /// The layout of a shape in memory: [`LayoutInfo`](crate::layouts::LayoutInfo).
    Layout {
        /// The shape.
        shape: String,
        /// The chip whose default layout is used if the shape has none.
        chip: Option<String>,
    },
    /// The layouts chosen for a chip: [`Assignment`](crate::layouts::Assignment).
    Assignment {
        /// The chip.
        chip: String,
    },
    /// The kernels: a list of [`KernelInfo`](crate::code::KernelInfo).
    Kernels,
    /// A kernel's code: [`KernelCode`](crate::code::KernelCode).
    Code {
        /// The kernel.
        kernel: u32,
        /// The instruction set.
        isa: Isa,
    },
    /// The CPU's arena and steps: [`Memory`](crate::memory::Memory).
    Memory,
    /// The simulation on a TPU: [`TpuReport`](crate::tpu::TpuReport).
    Tpu {
        /// The chip.
        chip: String,
    },
}

/// The response to [`Request::Open`].
#[derive(Clone, Debug, Serialize)]
pub struct Opened {
    /// Whether the text is a kernel for the simulated TPU, for which only the TPU view exists.
    pub is_kernel: bool,
    /// Why the program cannot be planned, although it is valid.
    pub problem: Option<Problem>,
    /// The program's symbolic sizes.
    pub sizes: Vec<SizeInfo>,
}

/// Answers a request about the program that was opened last. The response is JSON:
/// `{"ok": ...}`, or `{"error": ...}` with a [`Problem`].
pub fn answer(session: &mut Option<Session>, request: Request) -> String {
    let answered = reply(session, request);
    answered.unwrap_or_else(|problem| json(&serde_json::json!({ "error": problem })))
}

fn reply(session: &mut Option<Session>, request: Request) -> Result<String, Problem> {
    if let Request::Open { text, sizes } = request {
        // If the text cannot be read, `?` returns here and the previous program stays open.
        let opened = session.insert(Session::open_at(&text, &sizes)?);
        let is_kernel = matches!(opened.source, crate::session::Source::Kernel(_));
        let problem = match is_kernel {
            true => None,
            false => opened.planned().err(),
        };
        let sizes = opened.sizes.clone();
        return Ok(ok(&Opened {
            is_kernel,
            problem,
            sizes,
        }));
    }
    if let Request::Layout { shape, chip } = &request {
        return draw_layout(shape, chip.as_deref()).map(|layout| ok(&layout));
    }
    let opened = session.as_ref();
    let opened =
        opened.ok_or_else(|| Problem::new("no program is open: send an `open` request first"))?;
    Ok(match request {
        Request::Open { .. } | Request::Layout { .. } | Request::Graph => ok(&opened.graph()?),
        Request::Edge { node, operand } => ok(&opened.edge(node, operand)?),
        Request::Reads {
            value,
            elements,
            scope,
            iterations,
        } => {
            let iterations = iterations.into_iter().collect();
            ok(&opened.reads(value, &elements, scope, &iterations)?)
        }
        Request::Assignment { chip } => ok(&opened.assignment(&chip)?),
        Request::Kernels => ok(&opened.kernels()?),
        Request::Code { kernel, isa } => ok(&opened.kernel_code(kernel, isa)?),
        Request::Memory => ok(&opened.memory()?),
        Request::Tpu { chip } => ok(&opened.tpu(&chip)?),
    })
}

#[derive(Serialize)]
struct Answered<'a, T> {
    ok: &'a T,
}

fn ok<T: Serialize>(value: &T) -> String {
    json(&Answered { ok: value })
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| {
        let message = e.to_string().replace(['"', '\\'], "'");
        format!(r#"{{"error":{{"message":"{message}","line":0,"column":0,"from":0,"to":0}}}}"#)
    })
}
