//! Loops along a dimension: reductions over windows whose size is known only at run time
//! (`stablehlo.dynamic_reduce_window`), and `chlo.scan`.
//!
//! HLO's windows have fixed sizes. What front ends leave open is the running reduction along a
//! whole dimension (`jax.numpy.cumsum` and its kin): element `i` is the reduction of elements 0 to
//! `i`, or of `i` to the last. That is a loop which carries the reduction so far.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use crate::mlir::Attribute;
use std::sync::Arc;
use tegula_expr::Term;
use tegula_ir::{
    Binary, ComputationId, Dim, DimNumbers, Direction, Literal, Op, Order, Shape, TO_END, WindowDim,
};

/// Operands after the arrays and their initial values: sizes, strides, dilations of the operand
/// and of the window, and padding.
const WINDOW_OPERANDS: usize = 5;

/// The dimensions of a window that are known, and the one along which a reduction runs, with whether
/// it does so from the end.
type Window = (Vec<WindowDim>, Option<(usize, bool)>);

/// A running reduction.
#[derive(Clone, Copy)]
struct Running {
    dimension: usize,
    from_end: bool,
    reducer: ComputationId,
}

impl<'m> Lowerer<'m> {
    /// Translates the custom call `stablehlo.dynamic_reduce_window`: arrays, their initial values,
    /// then the sizes of the window as operands.
    ///
    /// # Errors
    /// A window of open size that is not a running reduction along one dimension.
    pub(super) fn dynamic_reduce_window(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let count = access.operation.operands.len();
        let arrays = count.saturating_sub(WINDOW_OPERANDS) / 2;
        if arrays == 0 || 2 * arrays + WINDOW_OPERANDS != count {
            return Err(access.error(format!(
                "expected arrays, as many initial values, and {WINDOW_OPERANDS} descriptions of \
                 the window; found {count} operands"
            )));
        }
        let reducer = access
            .operation
            .attribute("called_computations")
            .and_then(Attribute::as_array)
            .and_then(|names| names.first()?.as_symbol());
        let reducer = reducer.ok_or_else(|| access.error("expected the function that reduces"))?;
        let reducer = self.called_computation(access, reducer)?;
        let operands: Result<Vec<Local>, Error> = (0..2 * arrays)
            .map(|place| self.operand(access, frame, place))
            .collect();
        let operands = operands?;
        let (window, running) = self.dynamic_window(access, frame, operands[0], 2 * arrays)?;
        let mut values = operands[..arrays].to_vec();
        let init = &operands[arrays..];
        if window.iter().any(|dim| *dim != WindowDim::TRIVIAL) {
            let op = Op::ReduceWindow {
                window,
                to_apply: reducer,
            };
            values = self.push_several(frame, op, &[&values, init].concat(), arrays)?;
        }
        if let Some((dimension, from_end)) = running {
            let running = Running {
                dimension,
                from_end,
                reducer,
            };
            values = self.running(access, frame, &values, init, running)?;
        }
        self.bind_all(access, frame, &values)
    }

    /// The window that the operands from `first` on describe.
    fn dynamic_window(
        &self,
        access: &Access<'_>,
        frame: &Frame,
        array: Local,
        first: usize,
    ) -> Result<Window, Error> {
        let dims = self.array(access, frame, array)?.dims.clone();
        let rank = dims.len();
        let mut parts: Vec<Arc<[Term]>> = Vec::new();
        for place in 0..WINDOW_OPERANDS {
            parts.push(self.sizes_of(access, first + place)?);
        }
        let lengths = parts.iter().map(|part| part.len());
        if !lengths.eq([rank, rank, rank, rank, 2 * rank]) {
            return Err(access.error(format!(
                "expected {rank} numbers in each description of the window"
            )));
        }
        let mut window = Vec::new();
        let mut running = None;
        for (dim, size) in dims.iter().enumerate() {
            let terms = [
                &parts[0][dim],
                &parts[1][dim],
                &parts[2][dim],
                &parts[3][dim],
                &parts[4][2 * dim],
                &parts[4][2 * dim + 1],
            ];
            let known: Option<Vec<i64>> = terms.iter().map(|term| term.as_constant()).collect();
            window.push(match known.as_deref() {
                Some(&[size, stride, base_dilation, window_dilation, low, high]) => WindowDim {
                    size,
                    stride,
                    padding_low: low,
                    padding_high: high,
                    base_dilation,
                    window_dilation,
                    reversal: false,
                },
                _ => {
                    let from_end = runs_along(&size.term(), terms);
                    let (Some(from_end), None) = (from_end, running) else {
                        return Err(access.unsupported(format!(
                            "a window of a size that is not known, in dimension {dim}: only a \
                             running reduction along one whole dimension has a translation"
                        )));
                    };
                    running = Some((dim, from_end));
                    WindowDim::TRIVIAL
                }
            });
        }
        Ok((window, running))
    }

    /// Appends an operation of `count` results.
    fn push_several(
        &self,
        frame: &mut Frame,
        op: Op,
        operands: &[Local],
        count: usize,
    ) -> Result<Vec<Local>, Error> {
        let result = self.push(frame, op, operands, None)?;
        match count {
            1 => Ok(vec![result]),
            _ => self.elements(frame, result),
        }
    }

    /// The running reductions of arrays of one shape.
    fn running(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        arrays: &[Local],
        init: &[Local],
        running: Running,
    ) -> Result<Vec<Local>, Error> {
        let mut state = vec![self.counter(frame, 0)?];
        state.extend(arrays);
        for is_slice in [false, true] {
            for (array, init) in arrays.iter().zip(init) {
                let mut shape = self.array(access, frame, *array)?.clone();
                if is_slice {
                    shape.dims[running.dimension] = Dim::Static(1);
                }
                let none = Op::Broadcast(DimNumbers::new());
                state.push(self.push(frame, none, &[*init], Some(Shape::Array(shape)))?);
            }
        }
        let shapes: Vec<Shape> = state.iter().map(|l| frame.shape(*l).clone()).collect();
        let condition = self.along_condition(&shapes, running.dimension)?;
        let body = self.running_body(access, &shapes, running)?;
        let init = self.tuple(frame, &state)?;
        let result = self.push(frame, Op::While { condition, body }, &[init], None)?;
        let count = arrays.len() as i64;
        (1 + count..1 + 2 * count)
            .map(|place| self.push(frame, Op::GetTupleElement(place), &[result], None))
            .collect()
    }

    fn counter(&self, frame: &mut Frame, value: i32) -> Result<Local, Error> {
        let op = Op::Constant([Literal::from_value(value)].into());
        self.push(frame, op, &[], None)
    }

    /// Whether the counter is below the size of the dimension.
    fn along_condition(
        &mut self,
        shapes: &[Shape],
        dimension: usize,
    ) -> Result<ComputationId, Error> {
        let mut frame = Frame::new("along_condition");
        let state = frame.parameter(Shape::Tuple(shapes.to_vec()), None);
        let step = self.push(&mut frame, Op::GetTupleElement(0), &[state], None)?;
        let array = self.push(&mut frame, Op::GetTupleElement(1), &[state], None)?;
        let size = Op::GetDimensionSize(dimension as i64);
        let size = self.push(&mut frame, size, &[array], None)?;
        let below = Op::Compare {
            direction: Direction::Lt,
            order: Order::Partial,
        };
        let root = self.push(&mut frame, below, &[step, size], None)?;
        self.finish_frame(frame, root)
    }

    /// One step: reduces the next slice into what is carried, and writes that.
    fn running_body(
        &mut self,
        access: &Access<'_>,
        shapes: &[Shape],
        running: Running,
    ) -> Result<ComputationId, Error> {
        let mut frame = Frame::new("running_body");
        let frame = &mut frame;
        let state = frame.parameter(Shape::Tuple(shapes.to_vec()), None);
        let state = self.elements(frame, state)?;
        let (step, state) = (state[0], &state[1..]);
        let count = state.len() / 3;
        let (arrays, rest) = state.split_at(count);
        let (results, carried) = rest.split_at(count);
        let one = self.counter(frame, 1)?;
        let mut place = step;
        if running.from_end {
            let size = Op::GetDimensionSize(running.dimension as i64);
            let size = self.push(frame, size, &[arrays[0]], None)?;
            let left = self.push(frame, Op::Binary(Binary::Subtract), &[size, step], None)?;
            place = self.push(frame, Op::Binary(Binary::Subtract), &[left, one], None)?;
        }
        let zero = self.counter(frame, 0)?;
        let dims = self.array(access, frame, arrays[0])?.dims.clone();
        let mut starts = vec![zero; dims.len()];
        starts[running.dimension] = place;
        let sizes = dims
            .iter()
            .enumerate()
            .map(|(dim, size)| match dim == running.dimension {
                true => 1,
                false => size.as_static().unwrap_or(TO_END),
            });
        let sizes: DimNumbers = sizes.collect();
        let mut operands = carried.to_vec();
        for array in arrays {
            let slice = Op::DynamicSlice(sizes.clone());
            operands.push(self.push(frame, slice, &[&[*array], &starts[..]].concat(), None)?);
        }
        let map = Op::Map {
            dimensions: (0..dims.len() as i64).collect(),
            to_apply: running.reducer,
        };
        let carried = self.push_several(frame, map, &operands, count)?;
        let mut after = vec![self.next_step(frame, step)?];
        after.extend(arrays);
        for (result, carried) in results.iter().zip(&carried) {
            after.push(self.written_at(
                access,
                frame,
                *result,
                *carried,
                running.dimension,
                place,
            )?);
        }
        after.extend(carried);
        let root = self.tuple(frame, &after)?;
        self.finish_frame(std::mem::replace(frame, Frame::new("")), root)
    }

    fn next_step(&self, frame: &mut Frame, step: Local) -> Result<Local, Error> {
        let one = self.counter(frame, 1)?;
        self.push(frame, Op::Binary(Binary::Add), &[step, one], None)
    }

    /// The place along a dimension that a step is about.
    fn step_place(
        &self,
        frame: &mut Frame,
        step: Local,
        array: Local,
        dimension: usize,
        from_end: bool,
    ) -> Result<Local, Error> {
        if !from_end {
            return Ok(step);
        }
        let one = self.counter(frame, 1)?;
        let size = Op::GetDimensionSize(dimension as i64);
        let size = self.push(frame, size, &[array], None)?;
        let left = self.push(frame, Op::Binary(Binary::Subtract), &[size, step], None)?;
        self.push(frame, Op::Binary(Binary::Subtract), &[left, one], None)
    }

    /// The slice of one element along a dimension.
    fn slice_at(
        &self,
        access: &Access<'_>,
        frame: &mut Frame,
        array: Local,
        dimension: usize,
        place: Local,
    ) -> Result<Local, Error> {
        let dims = self.array(access, frame, array)?.dims.clone();
        let sizes = dims
            .iter()
            .enumerate()
            .map(|(dim, size)| match dim == dimension {
                true => 1,
                false => size.as_static().unwrap_or(TO_END),
            });
        let op = Op::DynamicSlice(sizes.collect());
        let zero = self.counter(frame, 0)?;
        let mut operands = vec![zero; 1 + dims.len()];
        operands[0] = array;
        operands[1 + dimension] = place;
        self.push(frame, op, &operands, None)
    }

    /// An array with a slice of one element along a dimension written.
    fn written_at(
        &self,
        access: &Access<'_>,
        frame: &mut Frame,
        array: Local,
        slice: Local,
        dimension: usize,
        place: Local,
    ) -> Result<Local, Error> {
        let rank = self.array(access, frame, array)?.rank();
        let zero = self.counter(frame, 0)?;
        let mut operands = vec![zero; 2 + rank];
        (operands[0], operands[1]) = (array, slice);
        operands[2 + dimension] = place;
        self.push(frame, Op::DynamicUpdateSlice, &operands, None)
    }

    /// Translates `chlo.scan`: inputs are taken apart along a dimension, what each step gives is put
    /// together along it, and the rest goes on to the next step.
    pub(super) fn scan(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let block = access.region(0)?.block();
        let block = block.ok_or_else(|| access.error("expected a region of one block"))?;
        let segments = access.integers("operandSegmentSizes")?;
        let inputs = segments
            .first()
            .and_then(|count| usize::try_from(*count).ok());
        let results = &access.operation.results;
        let counts = inputs.and_then(|inputs| {
            let carries = operands.len().checked_sub(inputs)?;
            Some((inputs, results.len().checked_sub(carries)?))
        });
        let (inputs, outputs) = counts.ok_or_else(|| access.error("its operands do not add up"))?;
        if inputs == 0 || block.arguments.len() != operands.len() {
            return Err(access.unsupported("a scan of no inputs, or with other arguments"));
        }
        let rank = self.array(access, frame, operands[0])?.rank();
        let dimension = usize::try_from(access.integer("dimension")?).ok();
        let dimension = dimension.filter(|dimension| *dimension < rank);
        let dimension = dimension.ok_or_else(|| access.error("there is no such dimension"))?;
        let mut state = vec![self.counter(frame, 0)?];
        state.extend(&operands);
        for place in 0..outputs {
            let shape = self.result_shape(access, place, None)?;
            let zero = self.zero_of(frame, &shape)?;
            let none = Op::Broadcast(DimNumbers::new());
            state.push(self.push(frame, none, &[zero], Some(shape))?);
        }
        let shapes: Vec<Shape> = state.iter().map(|l| frame.shape(*l).clone()).collect();
        let condition = self.along_condition(&shapes, dimension)?;
        let from_end = access.flag("is_reverse")?;
        let mut body = Frame::new("scan_body");
        let parameter = body.parameter(Shape::Tuple(shapes), None);
        let elements = self.elements(&mut body, parameter)?;
        let (step, arrays) = (elements[0], &elements[1..=inputs]);
        let (carried, stacked) = elements[1 + inputs..].split_at(operands.len() - inputs);
        let place = self.step_place(&mut body, step, arrays[0], dimension, from_end)?;
        for (argument, array) in block.arguments.iter().zip(arrays) {
            let slice = self.slice_at(access, &mut body, *array, dimension, place)?;
            let shape = super::types::shape(self.source.type_of(*argument));
            let shape = shape.map_err(|why| access.unsupported(why))?;
            let slice = self.push(&mut body, Op::Reshape, &[slice], Some(shape))?;
            body.bind(*argument, slice);
        }
        for (argument, carried) in block.arguments[inputs..].iter().zip(carried) {
            body.bind(*argument, *carried);
        }
        let given = self.block(block, &mut body)?;
        if given.len() != results.len() {
            return Err(access.error("the body gives another number of results"));
        }
        let mut after = vec![self.next_step(&mut body, step)?];
        after.extend(arrays);
        after.extend(&given[outputs..]);
        for (array, value) in stacked.iter().zip(&given) {
            let mut shape = self.array(access, &body, *array)?.clone();
            shape.dims[dimension] = Dim::Static(1);
            let slice = Some(Shape::Array(shape));
            let slice = self.push(&mut body, Op::Reshape, &[*value], slice)?;
            after.push(self.written_at(access, &mut body, *array, slice, dimension, place)?);
        }
        let root = self.tuple(&mut body, &after)?;
        let body = self.finish_frame(body, root)?;
        let init = self.tuple(frame, &state)?;
        let done = self.push(frame, Op::While { condition, body }, &[init], None)?;
        let elements = self.elements(frame, done)?;
        let (carried, stacked) = elements[1 + inputs..].split_at(operands.len() - inputs);
        self.bind_all(access, frame, &[stacked, carried].concat())
    }

    /// A zero of an array's element type.
    fn zero_of(&self, frame: &mut Frame, shape: &Shape) -> Result<Local, Error> {
        let element = shape.as_array().map(|array| array.element_type);
        let element = element.ok_or_else(|| Error::input("expected a tensor"))?;
        let zero = self.counter(frame, 0)?;
        let scalar = Some(Shape::array(element, &[]));
        self.push(frame, Op::Convert, &[zero], scalar)
    }
}

/// Whether a window over a dimension of this size makes a running reduction, and if so whether it
/// runs from the end: sizes, strides, dilations of both and padding on both sides.
fn runs_along(size: &Term, window: [&Term; 6]) -> Option<bool> {
    let [length, stride, base, dilation, low, high] = window;
    let is_one = |term: &&Term| term.as_constant() == Some(1);
    if length != size || ![stride, base, dilation].iter().all(is_one) {
        return None;
    }
    let before = size.sub(&Term::constant(1));
    match (low.as_constant(), high.as_constant()) {
        (None, Some(0)) if *low == before => Some(false),
        (Some(0), None) if *high == before => Some(true),
        _ => None,
    }
}
