//! The page's questions and their answers, as JSON.

use crate::code::Isa;
use crate::layouts::draw_layout;
use crate::reads::Scope;
use crate::session::{SizeInfo, Sizes};
use crate::{Problem, Session};
use serde::{Deserialize, Serialize};

/// A question of the page.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// Reads a text; what follows is about it, unless it cannot be read. Answers with [`Opened`].
    Open {
        /// The program.
        text: String,
        /// What sizes that it leaves open are taken to be.
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
    /// What elements are computed from: [`Reads`](crate::reads::Reads).
    Reads {
        /// The array.
        value: u32,
        /// Row-major numbers of its elements.
        elements: Vec<i64>,
        /// How far they are followed.
        scope: Scope,
        /// Which iteration is shown of loops, by number of their node; the last of those that
        /// are not here.
        #[serde(default)]
        iterations: Vec<(u32, usize)>,
    },
    /// A shape in memory: [`LayoutInfo`](crate::layouts::LayoutInfo).
    Layout {
        /// The shape.
        shape: String,
        /// The chip whose default layout it gets if it states none.
        chip: Option<String>,
    },
    /// Layouts on a chip: [`Assignment`](crate::layouts::Assignment).
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
        /// Which instructions.
        isa: Isa,
    },
    /// The arena and the steps: [`Memory`](crate::memory::Memory).
    Memory,
    /// A simulated TPU: [`TpuReport`](crate::tpu::TpuReport).
    Tpu {
        /// The chip.
        chip: String,
    },
}

/// What a text is.
#[derive(Clone, Debug, Serialize)]
pub struct Opened {
    /// Whether it is a kernel for the simulated TPU, which has the TPU view alone.
    pub is_kernel: bool,
    /// Why the program, which is right, cannot be planned.
    pub problem: Option<Problem>,
    /// The sizes that the program leaves open.
    pub sizes: Vec<SizeInfo>,
}

/// Answers a question about the program that was opened last. The answer is JSON:
/// `{"ok": ...}`, or `{"error": ...}` with a [`Problem`].
pub fn answer(session: &mut Option<Session>, request: Request) -> String {
    let answered = reply(session, request);
    answered.unwrap_or_else(|problem| json(&serde_json::json!({ "error": problem })))
}

fn reply(session: &mut Option<Session>, request: Request) -> Result<String, Problem> {
    if let Request::Open { text, sizes } = request {
        // A text that cannot be read leaves the program that was opened before.
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
    let opened = opened.ok_or_else(|| Problem::new("there is no program"))?;
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
