//! Lowers the decoded messages of a file to a module.
//!
//! [`Lowerer`] holds the computation under construction and defines operations on [`Value`]s at a
//! slightly higher level than HLO's: they broadcast as numpy does, fold constants, and represent
//! shapes as terms. [`graph`] translates the nodes in order, with the operators' translations in
//! [`crate::ops`].

mod array;
mod basic;
mod control;
mod cut;
mod gather;
mod graph;
mod known;
mod reduce;
mod sampled;
mod value;

use crate::tensor::Tensors;
use crate::{Error, read};
pub use cut::{SizeSource, Stage, Take};
pub(crate) use graph::{Call, input_shape, lower_model, lower_stages};
pub(crate) use reduce::Fold;
use rustc_hash::FxHashMap;
pub(crate) use sampled::are_different;
use tegula_expr::{Interval, Term, Var, canonicalize, range_of};
use tegula_ir::{Binary, ComputationId, Draft, ElementType, ModuleBuilder, Op, Shape};
use value::Source;
pub(crate) use value::{Item, MAX_FOLLOWED, Quantized, Value, shape_of, sizes};

pub(crate) type Local = tegula_ir::DraftId;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The upper bound of open sizes, chosen so that products of two sizes fit an `i64`.
const MAX_SIZE: i64 = i32::MAX as i64;

/// Translates a model.
pub(crate) struct Lowerer<'a> {
    pub(crate) builder: ModuleBuilder,
    /// The computation under construction.
    draft: Draft,
    /// Constants that the computation contains already, by the address of their bytes.
    constants: FxHashMap<(usize, ElementType, Vec<Term>), Local>,
    reducers: FxHashMap<(Binary, ElementType), ComputationId>,
    /// The range of each open size.
    ranges: FxHashMap<Var, Interval>,
    /// Open sizes by name.
    names: FxHashMap<String, Term>,
    tensors: Tensors<'a>,
    functions: FxHashMap<(String, String, String), &'a read::Function<'a>>,
    /// The depth of functions that are being inlined.
    depth: u32,
    /// The number of computations around the one under construction.
    nesting: u32,
    /// Open sizes as instructions of the computation under construction.
    size_locals: FxHashMap<Var, Local>,
    /// The cuts into several programs; `None` if the model must be a single program.
    cuts: Option<cut::Cuts>,
    /// The shapes of the outermost graph's node outputs, by name.
    shapes: NodeShapes,
}

/// The shapes of node outputs, by name.
pub(crate) type NodeShapes = Vec<(String, Shape)>;

impl<'a> Lowerer<'a> {
    fn new(name: &str, tensors: Tensors<'a>) -> Self {
        Self {
            builder: ModuleBuilder::new(name),
            draft: Draft::new("main"),
            constants: FxHashMap::default(),
            reducers: FxHashMap::default(),
            ranges: FxHashMap::default(),
            names: FxHashMap::default(),
            tensors,
            functions: FxHashMap::default(),
            depth: 0,
            nesting: 0,
            size_locals: FxHashMap::default(),
            cuts: None,
            shapes: Vec::new(),
        }
    }

    /// The open size with this name, which is created if it is new.
    fn named_size(&mut self, name: &str) -> Term {
        if let Some(term) = self.names.get(name) {
            return term.clone();
        }
        let term = self.builder.symbol(name, 0, MAX_SIZE);
        if let Some(var) = term.as_var() {
            self.ranges.insert(var, Interval::new(0, MAX_SIZE));
        }
        self.names.insert(name.to_owned(), term.clone());
        term
    }

    /// The canonical form of a term, given the ranges of the sizes.
    pub(crate) fn canonical(&self, term: &Term) -> Term {
        canonicalize(term, &self.ranges)
    }

    /// The range of a term's values. Both the given and the canonical form are used, because the
    /// canonical form may have lost a bound: it drops a `max` with 0 that is proved to have no
    /// effect.
    pub(crate) fn range(&self, term: &Term) -> Interval {
        let written = range_of(term, &self.ranges);
        written.intersect(&range_of(&self.canonical(term), &self.ranges))
    }

    /// Appends an instruction with this shape.
    pub(crate) fn push(
        &mut self,
        op: Op,
        operands: &[Local],
        ty: ElementType,
        dims: &[Term],
    ) -> Result<Value> {
        let dims: Vec<Term> = dims.iter().map(|size| self.canonical(size)).collect();
        let stated = shape_of(ty, &dims);
        let local = self.push_local(op, operands, Some(stated))?;
        Ok(Value {
            ty,
            dims,
            source: Source::Local(local),
            quantized: None,
        })
    }

    /// Appends a contraction that accumulates in this type; the operands determine its sizes.
    pub(crate) fn push_as(&mut self, op: Op, operands: &[Local], ty: ElementType) -> Result<Value> {
        let arrays = operands
            .iter()
            .filter_map(|id| self.draft.shape(*id).as_array());
        let shapes = arrays.map(|array| Shape::Array(array.with_element_type(ty)));
        let shapes: Vec<Shape> = shapes.collect();
        let shapes: Vec<&Shape> = shapes.iter().collect();
        let stated = tegula_ir::infer_shape(self.builder.module(), &op, &shapes, None)?;
        let local = self.push_local(op, operands, Some(stated))?;
        self.value_of(local)
    }

    /// Appends an instruction whose operands determine its shape.
    pub(crate) fn push_inferred(&mut self, op: Op, operands: &[Local]) -> Result<Value> {
        let local = self.push_local(op, operands, None)?;
        self.value_of(local)
    }

    pub(crate) fn push_local(
        &mut self,
        op: Op,
        operands: &[Local],
        stated: Option<Shape>,
    ) -> Result<Local> {
        let module = self.builder.module();
        Ok(self.draft.push(module, op, operands, stated)?)
    }

    /// The result of an instruction as a value.
    pub(crate) fn value_of(&self, local: Local) -> Result<Value> {
        let array = self.draft.shape(local).as_array();
        let array = array.ok_or_else(|| Error::input("expected an array"))?;
        Ok(Value {
            ty: array.element_type,
            dims: array.dims.iter().map(tegula_ir::Dim::term).collect(),
            source: Source::Local(local),
            quantized: None,
        })
    }

    /// The elements of a tuple as values.
    pub(crate) fn elements(&mut self, tuple: Local) -> Result<Vec<Value>> {
        let count = self.draft.shape(tuple).as_tuple().map_or(0, <[Shape]>::len);
        (0..count)
            .map(|at| self.push_inferred(Op::GetTupleElement(at as i64), &[tuple]))
            .collect()
    }

    /// The instruction that gives a value.
    pub(crate) fn local(&mut self, value: &Value) -> Result<Local> {
        match &value.source {
            Source::Local(local) => Ok(*local),
            Source::Literal(literal) => {
                let key = (
                    std::ptr::from_ref(literal.bytes()).addr(),
                    value.ty,
                    value.dims.clone(),
                );
                if let Some(local) = self.constants.get(&key) {
                    return Ok(*local);
                }
                let op = Op::Constant([literal.clone()].into());
                let local = self.push_local(op, &[], None)?;
                self.constants.insert(key, local);
                Ok(local)
            }
            Source::Terms(terms) => {
                let terms = terms.clone();
                self.terms_as_data(value.ty, &value.dims, &terms)
            }
        }
    }

    /// A value of integers that are terms over sizes.
    pub(crate) fn of_terms(&self, ty: ElementType, dims: &[i64], terms: &[Term]) -> Result<Value> {
        let terms: Vec<Term> = terms.iter().map(|term| self.canonical(term)).collect();
        let known: Option<Vec<i64>> = terms.iter().map(Term::as_constant).collect();
        match known {
            Some(values) => Value::of_integers(ty, dims, &values),
            None => Ok(Value {
                ty,
                dims: sizes(dims),
                source: Source::Terms(terms.into()),
                quantized: None,
            }),
        }
    }
}
