//! Lowers running reductions along a dimension: reductions over windows whose size is known only at
//! run time (`stablehlo.dynamic_reduce_window`), and `chlo.scan`.
//!
//! HLO's windows have constant sizes. Front ends use open ones for running reductions along a whole
//! dimension (`jax.numpy.cumsum` and the like): element `i` is the reduction of elements 0 to `i`,
//! or of `i` to the last. This is a loop that carries the reduction so far.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use crate::mlir::Attribute;
use std::sync::Arc;
use tegula_expr::Term;
use tegula_ir::{ArrayShape, ComputationId, DimNumbers, Op, Shape, WindowDim};

/// The number of operands after the arrays and their initial values: sizes, strides, dilations of
/// the operand and of the window, and padding.
const WINDOW_OPERANDS: usize = 5;

/// The constant dimensions of a window, and the dimension of a running reduction, with whether it
/// runs from the end.
type Window = (Vec<WindowDim>, Option<(usize, bool)>);

/// A running reduction.
#[derive(Clone, Copy)]
struct Running {
    dimension: usize,
    from_end: bool,
    reducer: ComputationId,
}

impl<'m> Lowerer<'m> {
    /// Lowers the custom call `stablehlo.dynamic_reduce_window`, whose operands are arrays, their
    /// initial values, and the parameters of the window.
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
                            "a window of unknown size in dimension {dim} is not supported, except for a running reduction along one whole dimension"
                        )));
                    };
                    running = Some((dim, from_end));
                    WindowDim::TRIVIAL
                }
            });
        }
        Ok((window, running))
    }

    /// Appends an operation with `count` results.
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

    /// The running reductions of arrays of the same shape: a scan that outputs its carries.
    fn running(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        arrays: &[Local],
        init: &[Local],
        running: Running,
    ) -> Result<Vec<Local>, Error> {
        let mut operands = arrays.to_vec();
        let mut shapes = Vec::new();
        for (array, init) in arrays.iter().zip(init) {
            let mut shape = self.array(access, frame, *array)?.clone();
            shape.dims.remove(running.dimension);
            let none = Op::Broadcast(DimNumbers::new());
            let shape = Shape::Array(shape);
            operands.push(self.push(frame, none, &[*init], Some(shape.clone()))?);
            shapes.push(shape);
        }
        let op = Op::Scan {
            dimension: running.dimension as i64,
            num_carries: arrays.len() as i64,
            is_reverse: running.from_end,
            is_associative: false,
            to_apply: self.running_step(&shapes, running.reducer)?,
        };
        let done = self.push(frame, op, &operands, None)?;
        let mut elements = self.elements(frame, done)?;
        elements.truncate(arrays.len());
        Ok(elements)
    }

    /// The scan's step, which reduces the next slices into the carries and returns these twice.
    fn running_step(
        &mut self,
        shapes: &[Shape],
        reducer: ComputationId,
    ) -> Result<ComputationId, Error> {
        let mut frame = Frame::new("running_step");
        let parameters = |frame: &mut Frame| -> Vec<Local> {
            let shapes = shapes.iter().cloned();
            shapes.map(|shape| frame.parameter(shape, None)).collect()
        };
        let (slices, carried) = (parameters(&mut frame), parameters(&mut frame));
        let rank = shapes[0].as_array().map_or(0, ArrayShape::rank);
        let map = Op::Map {
            dimensions: (0..rank as i64).collect(),
            to_apply: reducer,
        };
        let operands = [carried, slices].concat();
        let given = self.push_several(&mut frame, map, &operands, shapes.len())?;
        let root = self.tuple(&mut frame, &[&given[..], &given].concat())?;
        self.finish_frame(frame, root)
    }

    /// Lowers `chlo.scan`: inputs are sliced along a dimension, the outputs of each step are
    /// concatenated along it, and the other results are carried to the next step.
    pub(super) fn scan(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let block = access.region(0)?.block();
        let block = block.ok_or_else(|| access.error("expected a region of one block"))?;
        let segments = access.integers("operandSegmentSizes")?;
        let inputs = segments
            .first()
            .and_then(|count| usize::try_from(*count).ok());
        let carries = inputs.and_then(|inputs| operands.len().checked_sub(inputs));
        let carries = carries.ok_or_else(|| {
            access.error("`operandSegmentSizes` does not fit the number of operands")
        })?;
        let mut step = Frame::new("scan_region");
        for argument in &block.arguments {
            let shape = super::types::shape(self.source.type_of(*argument));
            let shape = shape.map_err(|why| access.unsupported(why))?;
            let parameter = step.parameter(shape, None);
            step.bind(*argument, parameter);
        }
        let given = self.block(block, &mut step)?;
        let root = self.tuple(&mut step, &given)?;
        let op = Op::Scan {
            dimension: access.integer("dimension")?,
            num_carries: carries as i64,
            is_reverse: access.flag("is_reverse")?,
            is_associative: access.flag("is_associative")?,
            to_apply: self.finish_frame(step, root)?,
        };
        let results = access.operation.results.len();
        let stated: Result<Vec<Shape>, Error> = (0..results)
            .map(|place| self.result_shape(access, place, None))
            .collect();
        let done = self.push(frame, op, &operands, Some(Shape::Tuple(stated?)))?;
        let elements = self.elements(frame, done)?;
        self.bind_all(access, frame, &elements)
    }
}

/// Whether a window over a dimension of this size is a running reduction, and if so, whether it
/// runs from the end. `window` has size, stride, both dilations and padding on both sides.
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
