//! Emits the program of one device.
//!
//! The partitioned program is the same for all devices: it looks up the device's part in tables by
//! partition-id. Each value is computed with the sharding that propagation chose for it. [`choose`]
//! selects by cost how an operation is computed on parts, [`operation`] emits it, [`reshard`]
//! converts arrays from one sharding to another, [`window`] exchanges halos: the elements of
//! neighbouring parts that a window reads, [`rotation`] shifts parts in a circle. [`control`]
//! handles loops, branches and the boundaries of manual computations, [`custom_partitioning`]
//! custom calls that a [`CallPartitioner`](crate::CallPartitioner) partitions.

mod choose;
mod combine;
mod control;
mod cost;
mod create;
mod custom_partitioning;
mod indexed;
mod local;
mod once;
mod operation;
mod plan;
mod pooling;
mod prepare;
mod reshard;
mod rotation;
mod unreduced;
mod window;

use crate::Options;
use crate::axes::AxisFinder;
use crate::call_partitioner::Calls;
use crate::error::Error;
use crate::graph::{Graph, Node, ScopeId, ValueId};
use crate::propagate::Propagated;
use crate::read::Unreduced;
use crate::report::{Exchanged, Note, Report};
use crate::sharding::{Cut, Sharding};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use tegula_ir::{
    ArrayShape, Binary, Collective, ComputationId, Dim, DimNumbers, Dims, Direction, Draft,
    DraftId, ElementType, Literal, Module, ModuleBuilder, Op, Order, PadDim, ReplicaGroups, Scalar,
    Shape, SliceDim, TO_END,
};

/// A device's part of an array, with the sharding.
#[derive(Clone, Debug)]
struct Local {
    id: DraftId,
    sharding: Sharding,
}

/// The key of a resharded array: the array, its sharding, the new sharding, the sizes of the whole
/// array, and the scope.
type Moved = (DraftId, Sharding, Sharding, Vec<Option<i64>>, ScopeId);

/// A computation of the partitioned program under construction.
struct Frame {
    draft: Draft,
    values: FxHashMap<ValueId, Local>,
    /// Values of which devices hold partial results that are not combined yet.
    partial: FxHashMap<ValueId, Unreduced>,
    /// Tables by device that were looked up already in this computation.
    looked_up: FxHashMap<Vec<i64>, DraftId>,
    /// Resharded arrays, for reuse.
    moved: FxHashMap<Moved, DraftId>,
    partition: Option<DraftId>,
}

impl Frame {
    fn new(name: &str) -> Self {
        Self {
            draft: Draft::new(name),
            values: FxHashMap::default(),
            partial: FxHashMap::default(),
            looked_up: FxHashMap::default(),
            moved: FxHashMap::default(),
            partition: None,
        }
    }

    fn array(&self, id: DraftId) -> ArrayShape {
        let array = self.draft.shape(id).as_array().cloned();
        array.unwrap_or_else(|| ArrayShape::new(ElementType::Pred, &[]))
    }
}

struct Emitter<'a> {
    module: &'a Module,
    graph: &'a Graph,
    axes: &'a AxisFinder<'a>,
    found: &'a Propagated,
    calls: &'a Calls,
    builder: ModuleBuilder,
    /// Copies of the computations on single elements.
    copied: FxHashMap<ComputationId, ComputationId>,
    reducers: FxHashMap<(Binary, ElementType), ComputationId>,
    replicas: i64,
    next_channel: i64,
    report: Report,
    /// The instruction that is being partitioned.
    site: Arc<str>,
    /// The purpose of the exchange that is being emitted.
    reason: String,
}

/// The partitioned program, with the shardings of its results and the report.
pub(crate) struct Emitted {
    pub(crate) module: Module,
    pub(crate) results: Vec<Sharding>,
    /// For each result, the axes over which devices hold partial results, if any.
    pub(crate) unreduced_results: Vec<Option<Unreduced>>,
    pub(crate) report: Report,
}

/// Emits the program of each device.
pub(crate) fn emit(
    module: &Module,
    graph: &Graph,
    axes: &AxisFinder<'_>,
    found: &Propagated,
    options: &Options,
) -> Result<Emitted, Error> {
    let mut builder = ModuleBuilder::new(&module.name);
    for symbol in &module.symbols {
        builder.symbol(&symbol.name, symbol.lower, symbol.upper);
    }
    let emitter = Emitter {
        module,
        graph,
        axes,
        found,
        calls: &options.calls,
        builder,
        copied: FxHashMap::default(),
        reducers: FxHashMap::default(),
        replicas: module.attributes.replica_count.unwrap_or(1),
        next_channel: first_channel(module),
        report: Report::default(),
        site: "".into(),
        reason: String::new(),
    };
    emitter.entry(&options.results)
}

/// A channel number above all that the program uses.
fn first_channel(module: &Module) -> i64 {
    let channels = module
        .instructions
        .values()
        .filter_map(|instruction| match &instruction.op {
            Op::Channel { channel_id, .. } => *channel_id,
            op => op.collective_channel(),
        });
    channels.max().unwrap_or(0).max(0).saturating_add(1)
}

/// A dimension number as an attribute.
fn number(dim: usize) -> i64 {
    i64::try_from(dim).unwrap_or(i64::MAX)
}

impl Emitter<'_> {
    fn scope(&self, scope: ScopeId) -> &Cut {
        &self.graph.scopes[scope].cut
    }

    /// The scope of a node, which is that of its results.
    fn scope_of(&self, node: &Node) -> ScopeId {
        let mut values = node.results.iter().chain(&node.operands);
        values
            .next()
            .map_or(0, |value| self.graph.values[*value].scope)
    }

    fn note(&mut self, text: impl Into<String>) {
        let name = Arc::clone(&self.site);
        self.report.notes.push(Note {
            name,
            text: text.into(),
        });
    }

    fn exchanged(&mut self, operation: &'static str, bytes: i64) {
        self.report.exchanges.push(Exchanged {
            operation,
            site: Arc::clone(&self.site),
            bytes,
            reason: self.reason.clone(),
        });
    }

    fn bug(&self, what: &str) -> Error {
        Error::build(&self.site, tegula_ir::Error::bug(what))
    }

    fn push(
        &self,
        frame: &mut Frame,
        op: Op,
        operands: &[DraftId],
        shape: Option<Shape>,
    ) -> Result<DraftId, Error> {
        let pushed = frame.draft.push(self.builder.module(), op, operands, shape);
        pushed.map_err(|error| Error::build(&self.site, error))
    }

    fn scalar(&self, frame: &mut Frame, ty: ElementType, value: Scalar) -> Result<DraftId, Error> {
        let shape = ArrayShape::new(ty, &[]);
        let literal = Literal::from_scalars(&shape, [value.convert(ty)]);
        let literal = literal.map_err(|_| {
            self.bug(&format!(
                "a constant cannot be represented as {}",
                ty.name()
            ))
        })?;
        self.push(
            frame,
            Op::Constant([literal].into()),
            &[],
            Some(Shape::Array(shape)),
        )
    }

    fn zero(&self, frame: &mut Frame, ty: ElementType) -> Result<DraftId, Error> {
        let shape = ArrayShape::new(ty, &[]);
        let literal = Literal::zeros(&shape).map_err(|_| {
            self.bug(&format!(
                "a constant cannot be represented as {}",
                ty.name()
            ))
        })?;
        self.push(
            frame,
            Op::Constant([literal].into()),
            &[],
            Some(Shape::Array(shape)),
        )
    }

    fn binary(
        &self,
        frame: &mut Frame,
        op: Binary,
        a: DraftId,
        b: DraftId,
    ) -> Result<DraftId, Error> {
        self.push(frame, Op::Binary(op), &[a, b], None)
    }

    fn compare(
        &self,
        frame: &mut Frame,
        direction: Direction,
        a: DraftId,
        b: DraftId,
    ) -> Result<DraftId, Error> {
        let op = Op::Compare {
            direction,
            order: Order::Partial,
        };
        self.push(frame, op, &[a, b], None)
    }

    /// An array filled with a scalar.
    fn filled(&self, frame: &mut Frame, element: DraftId, dims: &Dims) -> Result<DraftId, Error> {
        let shape = ArrayShape {
            element_type: frame.array(element).element_type,
            dims: dims.clone(),
            layout: None,
        };
        self.push(
            frame,
            Op::Broadcast(DimNumbers::new()),
            &[element],
            Some(Shape::Array(shape)),
        )
    }

    /// This device's entry in a table with one number for each device.
    fn by_device(&self, frame: &mut Frame, numbers: &[i64]) -> Result<DraftId, Error> {
        if let Some(known) = frame.looked_up.get(numbers) {
            return Ok(*known);
        }
        let int = ElementType::S32;
        let found = match numbers {
            [first, rest @ ..] if rest.iter().all(|number| number == first) => {
                self.scalar(frame, int, Scalar::Int(*first))?
            }
            _ => {
                let shape = ArrayShape::new(int, &[number(numbers.len())]);
                let table = Literal::from_scalars(
                    &shape,
                    numbers.iter().map(|number| Scalar::Int(*number)),
                );
                let table = table.map_err(|_| {
                    self.bug("the table of per-device numbers does not fit its type")
                })?;
                let table = self.push(
                    frame,
                    Op::Constant([table].into()),
                    &[],
                    Some(Shape::Array(shape)),
                )?;
                let partition = match frame.partition {
                    Some(partition) => partition,
                    None => {
                        let shape = Shape::array(ElementType::U32, &[]);
                        self.push(frame, Op::PartitionId, &[], Some(shape))?
                    }
                };
                frame.partition = Some(partition);
                let sizes = DimNumbers::from_slice(&[1]);
                let own = self.push(frame, Op::DynamicSlice(sizes), &[table, partition], None)?;
                self.push(frame, Op::Reshape, &[own], Some(Shape::array(int, &[])))?
            }
        };
        frame.looked_up.insert(numbers.to_vec(), found);
        Ok(found)
    }

    /// Elements `start..start + size` of a dimension; `start` is a scalar value.
    fn dynamic_slice(
        &self,
        frame: &mut Frame,
        array: DraftId,
        dim: usize,
        start: DraftId,
        size: i64,
    ) -> Result<DraftId, Error> {
        let shape = frame.array(array);
        let mut sizes: DimNumbers = shape
            .dims
            .iter()
            .map(|dim| dim.as_static().unwrap_or(TO_END))
            .collect();
        if let Some(own) = sizes.get_mut(dim) {
            *own = size;
        }
        let zero = self.scalar(frame, frame.array(start).element_type, Scalar::Int(0))?;
        let mut operands = vec![array];
        operands.extend((0..shape.rank()).map(|own| if own == dim { start } else { zero }));
        self.push(frame, Op::DynamicSlice(sizes), &operands, None)
    }

    /// Elements `start..limit` of a dimension.
    fn slice(
        &self,
        frame: &mut Frame,
        array: DraftId,
        dim: usize,
        start: i64,
        limit: i64,
    ) -> Result<DraftId, Error> {
        let shape = frame.array(array);
        if start == 0 && shape.dims.get(dim).and_then(Dim::as_static) == Some(limit) {
            return Ok(array);
        }
        let dims = shape
            .dims
            .iter()
            .enumerate()
            .map(|(own, size)| match own == dim {
                true => SliceDim {
                    start,
                    limit,
                    stride: 1,
                },
                false => SliceDim {
                    start: 0,
                    limit: size.as_static().unwrap_or(TO_END),
                    stride: 1,
                },
            });
        self.push(frame, Op::Slice(dims.collect()), &[array], None)
    }

    /// Pads the array before and after along one dimension.
    fn padded(
        &self,
        frame: &mut Frame,
        array: DraftId,
        dim: usize,
        (low, high): (i64, i64),
        fill: Option<DraftId>,
    ) -> Result<DraftId, Error> {
        if low == 0 && high == 0 {
            return Ok(array);
        }
        let shape = frame.array(array);
        let fill = match fill {
            Some(fill) => fill,
            None => self.zero(frame, shape.element_type)?,
        };
        let dims = (0..shape.rank()).map(|own| match own == dim {
            true => PadDim {
                low,
                high,
                interior: 0,
            },
            false => PadDim {
                low: 0,
                high: 0,
                interior: 0,
            },
        });
        self.push(frame, Op::Pad(dims.collect()), &[array, fill], None)
    }

    /// For an array of these sizes, whether `first + i` is in `valid`, where `i` is the index along
    /// `dim`.
    fn inside(
        &self,
        frame: &mut Frame,
        dims: &Dims,
        dim: usize,
        first: DraftId,
        valid: std::ops::Range<i64>,
    ) -> Result<DraftId, Error> {
        let ty = frame.array(first).element_type;
        let shape = ArrayShape {
            element_type: ty,
            dims: dims.clone(),
            layout: None,
        };
        let index = self.push(frame, Op::Iota(number(dim)), &[], Some(Shape::Array(shape)))?;
        let first = self.filled(frame, first, dims)?;
        let index = self.binary(frame, Binary::Add, index, first)?;
        let low = self.scalar(frame, ty, Scalar::Int(valid.start))?;
        let low = self.filled(frame, low, dims)?;
        let high = self.scalar(frame, ty, Scalar::Int(valid.end))?;
        let high = self.filled(frame, high, dims)?;
        let above = self.compare(frame, Direction::Ge, index, low)?;
        let below = self.compare(frame, Direction::Lt, index, high)?;
        self.binary(frame, Binary::And, above, below)
    }

    /// The array where [`inside`](Self::inside) is true, and `fill` elsewhere.
    fn masked(
        &self,
        frame: &mut Frame,
        array: DraftId,
        dim: usize,
        first: DraftId,
        valid: std::ops::Range<i64>,
        fill: DraftId,
    ) -> Result<DraftId, Error> {
        let dims = frame.array(array).dims;
        let inside = self.inside(frame, &dims, dim, first, valid)?;
        let fill = self.filled(frame, fill, &dims)?;
        self.push(frame, Op::Select, &[inside, array, fill], None)
    }

    /// The attributes of a collective over groups of partitions with global device ids.
    fn collective(&mut self, groups: &[Vec<i64>]) -> Collective {
        let partitions = number(self.graph.devices);
        let replicas = 0..self.replicas.max(1);
        let all = replicas.flat_map(|replica| {
            let global = move |partition: &i64| replica * partitions + partition;
            groups
                .iter()
                .map(move |group| group.iter().map(global).collect())
        });
        let lists = all.collect();
        Collective {
            replica_groups: ReplicaGroups::Lists(lists),
            channel_id: Some(self.channel()),
            use_global_device_ids: true,
            constrain_layout: false,
        }
    }

    /// The attributes of a collective over groups of partitions in each replica, without global
    /// device ids.
    fn collective_of_partitions(&mut self, groups: &[Vec<i64>]) -> Collective {
        Collective {
            replica_groups: ReplicaGroups::Lists(groups.to_vec()),
            channel_id: Some(self.channel()),
            use_global_device_ids: false,
            constrain_layout: false,
        }
    }

    fn channel(&mut self) -> i64 {
        self.next_channel += 1;
        self.next_channel - 1
    }

    /// Emits an all-reduce of an array over groups.
    fn all_reduce(
        &mut self,
        frame: &mut Frame,
        array: DraftId,
        op: Binary,
        groups: &[Vec<i64>],
    ) -> Result<DraftId, Error> {
        let shape = frame.array(array);
        let to_apply = self.reducer(op, shape.element_type)?;
        let collective = self.collective(groups);
        let members = groups.first().map_or(1, |group| number(group.len()));
        let bytes = shape.representative().byte_size().unwrap_or(0);
        self.exchanged("all-reduce", cost::all_reduce(bytes, members));
        let op = Op::AllReduce {
            collective,
            to_apply,
            start: false,
        };
        self.push(frame, op, &[array], Some(Shape::Array(shape)))
    }

    fn reducer(&mut self, op: Binary, ty: ElementType) -> Result<ComputationId, Error> {
        if let Some(known) = self.reducers.get(&(op, ty)) {
            return Ok(*known);
        }
        let mut computation = self.builder.computation(op.opcode().name());
        let scalar = Shape::array(ty, &[]);
        let (a, b) = (
            computation.parameter(scalar.clone()),
            computation.parameter(scalar),
        );
        let made = computation
            .binary(op, a, b)
            .and_then(|root| computation.finish(root));
        let made = made.map_err(|error| Error::build(&self.site, error))?;
        self.reducers.insert((op, ty), made);
        Ok(made)
    }

    /// A copy of a computation on single elements.
    fn copied(&mut self, id: ComputationId) -> Result<ComputationId, Error> {
        let mut known = std::mem::take(&mut self.copied);
        let made = self.copied_from(self.module, id, &mut known);
        self.copied = known;
        made
    }

    /// Copies a computation of a module and its callees, except for those that are `known` already.
    fn copied_from(
        &mut self,
        module: &Module,
        id: ComputationId,
        known: &mut FxHashMap<ComputationId, ComputationId>,
    ) -> Result<ComputationId, Error> {
        if let Some(known) = known.get(&id) {
            return Ok(*known);
        }
        let source = &module[id];
        let mut draft = Draft::new(&source.name);
        let mut ids = FxHashMap::default();
        // Parameters are copied in the order of their numbers, because the text may have them in
        // any order.
        for &parameter in &source.parameters {
            let data = &module[parameter];
            let made = draft.parameter(data.shape.clone(), Some(&data.name));
            if let Some(annotations) = &data.annotations {
                *draft.annotations_mut(made) = operation::kept(annotations);
            }
            ids.insert(parameter, made);
        }
        for &instruction in &source.instructions {
            if ids.contains_key(&instruction) {
                continue;
            }
            let data = &module[instruction];
            let mut op = data.op.clone();
            let mut callees = FxHashMap::default();
            for callee in op.called_computations() {
                callees.insert(callee, self.copied_from(module, callee, known)?);
            }
            op.map_computations(|callee| callees.get(&callee).copied().unwrap_or(callee));
            let operands = data.operands.iter().map(|id| ids.get(id).copied());
            let operands: Option<Vec<DraftId>> = operands.collect();
            let operands = operands.unwrap_or_default();
            let shape = Some(data.shape.clone());
            let pushed = draft.push(self.builder.module(), op, &operands, shape);
            let made = pushed.map_err(|error| Error::build(&self.site, error))?;
            draft.set_name(made, &data.name);
            if let Some(annotations) = &data.annotations {
                *draft.annotations_mut(made) = operation::kept(annotations);
            }
            ids.insert(instruction, made);
        }
        let root = ids.get(&source.root).copied();
        let root = root.ok_or_else(|| self.bug("expected a computation with a root"))?;
        let made = draft.finish(&mut self.builder, root);
        let made = made.map_err(|error| Error::build(&self.site, error))?;
        known.insert(id, made);
        Ok(made)
    }
}
