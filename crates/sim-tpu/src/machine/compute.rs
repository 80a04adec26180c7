//! Execution of computations.

use super::access::{Access, Touch};
use super::code::Input;
use super::matrix::{Product, rounded, to_bf16};
use super::terms::Cut;
use super::{Flow, Here, Machine};
use crate::check::taint::{self, Kind, Kinds};
use crate::finding::Code;
use crate::memory::image::Dense;
use crate::report::Error;
use std::sync::Arc;
use tegula_arena::EntityRef;
use tegula_interp::Value;
use tegula_ir::{ArrayShape, ElementType, Literal, Module, parse_module};

/// The most loop iterations of one computation.
const MAX_ITERATIONS: u64 = 1 << 24;

/// A computation's module prepared for evaluation.
pub(super) struct Plan {
    /// The module with the rounding of the matrix units' operands.
    module: Arc<Module>,
    product: Option<Product>,
    /// For each destination that is added to, the module that adds.
    sums: Vec<Arc<Module>>,
}

impl Plan {
    fn of(module: &Arc<Module>, sums: &[ArrayShape]) -> Result<Self, String> {
        let sums = sums.iter().map(|shape| {
            let text = format!(
                "ENTRY sum {{\n a = {shape} parameter(0)\n b = {shape} parameter(1)\n \
                 ROOT r = {shape} add(a, b)\n}}"
            );
            parse_module(&text).map(Arc::new)
        });
        Ok(Self {
            product: Product::of(module),
            module: rounded(module),
            sums: sums
                .collect::<Result<_, _>>()
                .map_err(|error| error.to_string())?,
        })
    }
}

/// The reason why an operation has no value.
enum Failed {
    Evaluator(tegula_interp::Error),
    Program(String),
}

impl From<String> for Failed {
    fn from(message: String) -> Self {
        Self::Program(message)
    }
}

impl Failed {
    fn at(self, line: u32) -> Error {
        match self {
            Self::Evaluator(reason) => Error::Evaluation { line, reason },
            Self::Program(message) => Error::Program { line, message },
        }
    }
}

fn evaluate(module: &Module, arguments: Vec<Literal>) -> Result<Vec<Literal>, Failed> {
    let arguments: Vec<Value> = arguments.into_iter().map(Value::Array).collect();
    let options = tegula_interp::Options {
        max_iterations: Some(MAX_ITERATIONS),
        ..tegula_interp::Options::default()
    };
    let value = tegula_interp::evaluate_with(module, &arguments, &options);
    let value = value.map_err(Failed::Evaluator)?;
    Ok(value.leaves().into_iter().cloned().collect())
}

impl<'p> Machine<'p> {
    pub(super) fn compute(&mut self, number: usize, here: Here<'p>) -> Result<Flow, Error> {
        let jobs = self.jobs;
        let job = &jobs[number];
        let mut inputs = Vec::with_capacity(job.inputs.len());
        let mut whole = true;
        for input in &job.inputs {
            let access = match input {
                Input::Cut(cut) => self.access(cut, here)?,
                Input::Literal(_) => {
                    inputs.push(None);
                    continue;
                }
            };
            if let Some(access) = &access {
                self.check_races(access, Touch::Read, here);
                self.check_written(access, here);
            }
            // An array without elements counts as whole although no access exists for it.
            let is_empty = matches!(input, Input::Cut(cut) if cut.is_empty());
            whole &= access.is_some() || is_empty;
            inputs.push(access);
        }
        let mut outputs = Vec::with_capacity(job.outputs.len());
        for cut in &job.outputs {
            let access = self.access(cut, here)?;
            if let Some(access) = &access {
                let touch = if job.compute.accumulate {
                    self.check_written(access, here);
                    Touch::Update
                } else {
                    Touch::Write
                };
                self.check_races(access, touch, here);
            }
            outputs.push(access);
        }
        let work = self.work[number];
        self.engines.compute(&work, here.line);
        if self.functional && whole {
            self.compute_values(number, &inputs, &outputs, here)?;
        }
        for access in outputs.iter().flatten() {
            let state = &mut self.states[access.buffer.index()];
            if state.written.missing(&access.region).is_some() {
                state.written.insert(&access.region);
            }
        }
        Ok(Flow::Next)
    }

    fn compute_values(
        &mut self,
        number: usize,
        inputs: &[Option<Access>],
        outputs: &[Option<Access>],
        here: Here<'p>,
    ) -> Result<(), Error> {
        let jobs = self.jobs;
        let job = &jobs[number];
        let failed = |message: String| Failed::from(message).at(here.line);
        let mut work = 0u64;
        let mut values = Vec::with_capacity(inputs.len());
        let mut kinds: Vec<Kinds> = Vec::with_capacity(inputs.len());
        for (input, access) in job.inputs.iter().zip(inputs) {
            match (input, access) {
                (Input::Cut(cut), Some(access)) => {
                    let value = self.fetch(cut, access).map_err(failed)?;
                    work += value.len() as u64 / 16;
                    kinds.push(self.kinds_of(cut, access));
                    values.push(value);
                }
                (Input::Literal(literal), _) => {
                    values.push(literal.clone());
                    kinds.push(Kinds::All(Kind::Neutral));
                }
                (Input::Cut(cut), None) if cut.is_empty() => {
                    let empty = Literal::zeros(&self.shape(cut));
                    values.push(empty.map_err(|error| failed(error.to_string()))?);
                    kinds.push(Kinds::All(Kind::Neutral));
                }
                (Input::Cut(_), None) => return Ok(()),
            }
        }
        if self.plans[number].is_none() {
            let shapes: Vec<ArrayShape> = match job.compute.accumulate {
                true => job.outputs.iter().map(|cut| self.shape(cut)).collect(),
                false => Vec::new(),
            };
            let plan = Plan::of(&job.compute.operation, &shapes).map_err(failed)?;
            self.plans[number] = Some(plan);
        }
        let reached = taint::reach(&job.compute.operation, &values, &kinds);
        if let Some(how) = &reached.mixed {
            let position = kinds.iter().position(Kinds::has_padding).unwrap_or(0);
            self.padding_reaches(number, position, how, here);
        }
        let shapes: Vec<ArrayShape> = job.outputs.iter().map(|cut| self.shape(cut)).collect();
        work += shapes
            .iter()
            .map(|s| s.element_count().unwrap_or(0) as u64 / 16)
            .sum::<u64>();
        self.spend(work, here.line)?;
        let mut existing = Vec::new();
        if job.compute.accumulate {
            for (cut, access) in job.outputs.iter().zip(outputs) {
                let Some(access) = access else { return Ok(()) };
                existing.push(self.fetch(cut, access).map_err(failed)?);
            }
        }
        let results = match &self.plans[number] {
            Some(plan) => {
                results(plan, values, existing, &shapes).map_err(|error| error.at(here.line))?
            }
            None => return Ok(()),
        };
        let targets = job.outputs.iter().zip(outputs).enumerate();
        for ((i, (cut, access)), value) in targets.zip(&results) {
            let Some(access) = access else { continue };
            self.store(cut, access, value);
            let kinds = reached.outputs.get(i).unwrap_or(&Kinds::All(Kind::Real));
            self.mark_kinds(cut, access, kinds, job.compute.accumulate);
        }
        Ok(())
    }

    fn padding_reaches(&mut self, number: usize, position: usize, how: &str, here: Here<'p>) {
        let jobs = self.jobs;
        let Some(Input::Cut(cut)) = jobs[number].inputs.get(position) else {
            return;
        };
        let (id, name) = (cut.buffer, self.name(cut.buffer));
        self.find(Code::Padding, here, Some(id), || {
            (
                format!("the {how} combines elements of `{name}` with others that are padding: the block reaches beyond the edge of its array"),
                "replace the lanes beyond the array by the operation's neutral value first: `select` on a comparison of `iota`".to_owned(),
            )
        });
    }

    fn shape(&self, cut: &Cut) -> ArrayShape {
        let element_type = self.geometry[cut.buffer.index()].element_type;
        ArrayShape::new(element_type, &cut.sizes)
    }

    pub(super) fn dense(cut: &Cut, access: &Access) -> Dense {
        Dense::slice(cut.entries.len(), &cut.kept, &cut.sizes, &access.lead)
    }

    /// The elements of a slice; those that do not exist are filled with poison.
    fn fetch(&self, cut: &Cut, access: &Access) -> Result<Literal, String> {
        let geometry = &self.geometry[access.buffer.index()];
        let zeros = Literal::zeros(&self.shape(cut)).map_err(|error| error.to_string());
        let mut literal = zeros?;
        let out = literal.bytes_mut();
        if access.partial {
            out.fill(self.options.fill);
        }
        let space = self.program.buffers[access.buffer].space as usize;
        let offset = self.states[access.buffer.index()].offset;
        let dense = Self::dense(cut, access);
        self.images[space].read(geometry, offset, &access.region, &dense, out);
        Ok(literal)
    }

    fn store(&mut self, cut: &Cut, access: &Access, value: &Literal) {
        let geometry = &self.geometry[access.buffer.index()];
        let space = self.program.buffers[access.buffer].space as usize;
        let offset = self.states[access.buffer.index()].offset;
        let dense = Self::dense(cut, access);
        let image = &mut self.images[space];
        image.write(geometry, offset, &access.region, &dense, value.bytes());
    }
}

fn results(
    plan: &Plan,
    values: Vec<Literal>,
    existing: Vec<Literal>,
    shapes: &[ArrayShape],
) -> Result<Vec<Literal>, Failed> {
    if let (Some(product), [lhs, rhs], [shape]) = (&plan.product, values.as_slice(), shapes)
        && let Some(mut sums) = product.multiply(lhs, rhs)
    {
        let mut out = Literal::zeros(shape).map_err(|error| error.to_string())?;
        if product.result() == ElementType::BF16 {
            let slots = out.bytes_mut().chunks_exact_mut(2);
            for (slot, sum) in slots.zip(&sums) {
                slot.copy_from_slice(&to_bf16(*sum).to_ne_bytes());
            }
        } else {
            // The values to add to are f32, like the sums.
            if let [existing] = existing.as_slice() {
                let old = existing.bytes().chunks_exact(4);
                for (sum, old) in sums.iter_mut().zip(old) {
                    *sum += f32::from_ne_bytes([old[0], old[1], old[2], old[3]]);
                }
            }
            let slots = out.bytes_mut().chunks_exact_mut(4);
            for (slot, sum) in slots.zip(&sums) {
                slot.copy_from_slice(&sum.to_ne_bytes());
            }
            return Ok(vec![out]);
        }
        return add(plan, vec![out], existing);
    }
    let results = evaluate(&plan.module, values)?;
    add(plan, results, existing)
}

fn add(plan: &Plan, results: Vec<Literal>, existing: Vec<Literal>) -> Result<Vec<Literal>, Failed> {
    if existing.is_empty() {
        return Ok(results);
    }
    let mut sums = Vec::with_capacity(results.len());
    for ((module, new), old) in plan.sums.iter().zip(results).zip(existing) {
        sums.extend(evaluate(module, vec![old, new])?);
    }
    Ok(sums)
}
