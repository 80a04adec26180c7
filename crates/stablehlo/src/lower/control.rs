//! Lowers loops, branches, tuples, and regions.

use super::{Frame, Local, Lowerer, access::Access, types};
use crate::Error;
use crate::mlir::{Block, Operation, Region, ValueId};
use rustc_hash::FxHashSet;
use tegula_ir::{ComputationId, Op, Shape};

impl<'m> Lowerer<'m> {
    pub(super) fn control(
        &mut self,
        name: &str,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        match name {
            "while" => return self.while_loop(access, frame),
            "case" | "if" => return self.branches(name == "if", access, frame),
            _ => {}
        }
        let operands = self.operands(access, frame)?;
        let local = match name {
            "tuple" => self.tuple(frame, &operands)?,
            "get_tuple_element" => {
                let op = Op::GetTupleElement(access.integer("index")?);
                self.push(frame, op, &operands, None)?
            }
            "after_all" | "create_token" => self.push(frame, Op::AfterAll, &operands, None)?,
            // An optimization barrier.
            _ => match operands.as_slice() {
                [] => return Ok(()),
                [only] => self.push(frame, Op::OptBarrier, &[*only], None)?,
                several => {
                    let tuple = self.tuple(frame, several)?;
                    let barrier = self.push(frame, Op::OptBarrier, &[tuple], None)?;
                    let elements = self.elements(frame, barrier)?;
                    return self.bind_all(access, frame, &elements);
                }
            },
        };
        self.bind(access, frame, local)
    }

    /// A region that is applied to single elements, as a computation. Its parameters are its
    /// arguments; it captures only constants.
    pub(super) fn scalar_region(
        &mut self,
        access: &Access<'m>,
        place: usize,
    ) -> Result<ComputationId, Error> {
        self.closed_region(access, place, &region_name(access, place))
    }

    /// A region as a computation of this name. Its parameters are its arguments; it captures only
    /// constants.
    pub(super) fn closed_region(
        &mut self,
        access: &Access<'m>,
        place: usize,
        name: &str,
    ) -> Result<ComputationId, Error> {
        let block = self.only_block(access, access.region(place)?)?;
        let mut frame = Frame::new(name);
        for argument in &block.arguments {
            let shape = types::shape(self.source.type_of(*argument));
            let shape = shape.map_err(|why| access.unsupported(why))?;
            let local = frame.parameter(shape, None);
            frame.bind(*argument, local);
        }
        let results = self.block(block, &mut frame)?;
        let root = match results.as_slice() {
            [only] => *only,
            several => self.tuple(&mut frame, several)?,
        };
        self.finish_frame(frame, root)
    }

    pub(super) fn only_block(
        &self,
        access: &Access<'_>,
        region: &'m Region,
    ) -> Result<&'m Block, Error> {
        let block = region.block();
        block.ok_or_else(|| access.error("expected a region of one block"))
    }

    /// A region as a computation of a tuple parameter: the region's arguments, followed by the
    /// captured values. The result is a tuple if `tuple` is set or there is not exactly one,
    /// followed by the captured values if `keep` is set.
    fn tuple_region(
        &mut self,
        access: &Access<'m>,
        place: usize,
        shapes: &[Shape],
        captured: &[ValueId],
        result: RegionResult,
    ) -> Result<ComputationId, Error> {
        let block = self.only_block(access, access.region(place)?)?;
        let mut frame = Frame::new(&region_name(access, place));
        let parameter = frame.parameter(Shape::Tuple(shapes.to_vec()), None);
        let elements = self.elements(&mut frame, parameter)?;
        let values = block.arguments.iter().chain(captured);
        for (value, local) in values.zip(&elements) {
            frame.bind(*value, *local);
        }
        let mut results = self.block(block, &mut frame)?;
        let root = match (result, results.as_slice()) {
            (RegionResult::State, _) => {
                if results.len() != block.arguments.len() {
                    return Err(access.error(format!(
                        "expected {} results of the body, found {}",
                        block.arguments.len(),
                        results.len()
                    )));
                }
                results.extend(&elements[block.arguments.len()..]);
                self.tuple(&mut frame, &results)?
            }
            (RegionResult::Values, [only]) => *only,
            (RegionResult::Values, several) => self.tuple(&mut frame, several)?,
        };
        self.finish_frame(frame, root)
    }

    /// The values that regions capture, except for constants, and their instructions.
    fn captured(
        &mut self,
        access: &Access<'m>,
        places: &[usize],
        frame: &mut Frame,
    ) -> Result<(Vec<ValueId>, Vec<Local>), Error> {
        let mut captured = Captured::default();
        for place in places {
            captured.region(access.region(*place)?);
        }
        let constants = &self.constants;
        captured.used.retain(|value| !constants.contains_key(value));
        let locals = captured.used.iter().map(|value| self.value(frame, *value));
        let locals: Result<Vec<Local>, Error> = locals.collect();
        Ok((captured.used, locals?))
    }

    fn while_loop(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let mut state = self.operands(access, frame)?;
        let count = state.len();
        for place in [0, 1] {
            let arguments = self
                .only_block(access, access.region(place)?)?
                .arguments
                .len();
            if arguments != count {
                return Err(access.error(format!(
                    "expected {count} arguments of region {place}, found {arguments}"
                )));
            }
        }
        let (captured, mut locals) = self.captured(access, &[0, 1], frame)?;
        state.append(&mut locals);
        let shapes: Vec<Shape> = state.iter().map(|l| frame.shape(*l).clone()).collect();
        let condition = self.tuple_region(access, 0, &shapes, &captured, RegionResult::Values)?;
        let body = self.tuple_region(access, 1, &shapes, &captured, RegionResult::State)?;
        let init = self.tuple(frame, &state)?;
        let result = self.push(frame, Op::While { condition, body }, &[init], None)?;
        let elements = self.elements(frame, result)?;
        self.bind_all(access, frame, &elements[..count])
    }

    fn branches(
        &mut self,
        predicated: bool,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let mut operands = vec![self.operand(access, frame, 0)?];
        let mut branches = Vec::new();
        for place in 0..access.operation.regions.len() {
            let (captured, locals) = self.captured(access, &[place], frame)?;
            let shapes: Vec<Shape> = locals.iter().map(|l| frame.shape(*l).clone()).collect();
            let branch =
                self.tuple_region(access, place, &shapes, &captured, RegionResult::Values)?;
            branches.push(branch);
            operands.push(self.tuple(frame, &locals)?);
        }
        if branches.is_empty() {
            return Err(access.error("expected at least one branch"));
        }
        let op = Op::Conditional {
            branches,
            predicated,
        };
        let local = self.push(frame, op, &operands, None)?;
        if access.operation.results.len() == 1 {
            return self.bind(access, frame, local);
        }
        let elements = self.elements(frame, local)?;
        self.bind_all(access, frame, &elements)
    }
}

/// The result of a loop's or branch's region.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RegionResult {
    /// The values that it returns; a tuple unless there is exactly one.
    Values,
    /// A tuple of the values that it returns and the captured ones, which is a loop's next state.
    State,
}

fn region_name(access: &Access<'_>, place: usize) -> String {
    let (_, name) = access.operation.name.split_once('.').unwrap_or_default();
    match (name, place) {
        ("while", 0) => "condition".to_owned(),
        ("while", _) => "body".to_owned(),
        ("case" | "if", place) => format!("branch{place}"),
        (name, _) => format!("{name}_region"),
    }
}

/// The values that operations use without defining them.
#[derive(Default)]
struct Captured {
    defined: FxHashSet<ValueId>,
    seen: FxHashSet<ValueId>,
    used: Vec<ValueId>,
}

impl Captured {
    fn region(&mut self, region: &Region) {
        for block in &region.blocks {
            self.defined.extend(&block.arguments);
            for operation in &block.operations {
                self.operation(operation);
            }
        }
    }

    fn operation(&mut self, operation: &Operation) {
        for value in &operation.operands {
            if !self.defined.contains(value) && self.seen.insert(*value) {
                self.used.push(*value);
            }
        }
        for region in &operation.regions {
            self.region(region);
        }
        self.defined.extend(&operation.results);
    }
}
