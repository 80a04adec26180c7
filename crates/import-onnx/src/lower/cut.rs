//! Splits a model into several programs where a size, or the choice of operations, depends on data.
//!
//! In a single program, all sizes follow from those of its inputs. If a model has other sizes
//! (`NonZero`, a `Reshape` to computed sizes, a `Loop` with a dynamic condition), it is split into
//! several programs, its *stages*. Each stage returns the values that later stages read. A later
//! stage may depend on data in one of two ways:
//!
//! - *sizes*: integers that one stage computes become open sizes of the next stage, which is
//!   compiled once for all of them;
//! - *elements*: the elements of a value become a constant of the next stage, which is compiled for
//!   them.
//!
//! Translation does not run anything. If it needs elements that are not known yet, it stops; the
//! caller runs the existing stages, and translates again with the elements.

use super::value::{Item, Scope, Source, Value, sizes};
use super::{Local, Lowerer, Result};
use crate::Error;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use tegula_expr::{Term, Var};
use tegula_ir::{Dim, Draft, ElementType, Literal, Module, ModuleBuilder, Shape};

/// One program of a model that is split.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The program. It is not verified, and its open sizes are not related to each other yet.
    pub module: Module,
    /// The sources of its parameters.
    pub takes: Vec<Take>,
}

/// The source of a stage's parameter. Slots hold the model's inputs, followed by the results of
/// each stage in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The array in a slot.
    Slot(usize),
    /// An array of type `pred` whose shape is an open size by 0, which passes the size.
    Size(SizeSource),
}

/// Where an open size is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeSource {
    /// A dimension of the array in a slot.
    Dim {
        /// The slot.
        slot: usize,
        /// The dimension.
        at: usize,
    },
    /// The `s64` scalar in a slot.
    Number(usize),
}

/// The data that a node's translation requests.
enum Wanted {
    Sizes(Vec<Value>),
    Elements(Value),
}

struct Pending {
    wanted: Wanted,
    keep: Vec<Value>,
}

/// The answer to a node's request.
struct Answer {
    keep: Vec<Value>,
    sizes: Vec<Term>,
    elements: Option<Value>,
}

/// The stages so far, and the requests of the node that is being translated.
pub(super) struct Cuts {
    /// The answers to the node's requests, in order. After a cut, the node is translated again from
    /// its beginning.
    answers: Vec<Answer>,
    next: usize,
    pending: Option<Pending>,
    /// Elements that earlier stages have computed, in the order in which they are requested.
    known: VecDeque<Literal>,
    pub(super) stages: Vec<Stage>,
    /// The sources of the current stage's parameters.
    pub(super) takes: Vec<Take>,
    pub(super) slots: usize,
    sources: FxHashMap<Var, SizeSource>,
}

impl Cuts {
    pub(super) fn new(known: &[Literal]) -> Self {
        Self {
            answers: Vec::new(),
            next: 0,
            pending: None,
            known: known.iter().cloned().collect(),
            stages: Vec::new(),
            takes: Vec::new(),
            slots: 0,
            sources: FxHashMap::default(),
        }
    }

    /// Registers the model's next input.
    pub(super) fn input(&mut self, dims: &[Term]) {
        let slot = self.slots;
        for (at, size) in dims.iter().enumerate() {
            if let Some(var) = size.as_var() {
                self.sources
                    .entry(var)
                    .or_insert(SizeSource::Dim { slot, at });
            }
        }
        self.takes.push(Take::Slot(slot));
        self.slots += 1;
    }

    pub(super) fn begin_node(&mut self) {
        self.next = 0;
    }

    pub(super) fn end_node(&mut self) {
        self.answers.clear();
    }

    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }
}

impl<'a> Lowerer<'a> {
    /// Whether the program can be split at this point, which is not within a loop or conditional.
    pub(crate) fn may_cut(&self) -> bool {
        self.cuts.is_some() && self.nesting == 0
    }

    /// Whether the translation is outside of all loops and conditionals.
    pub(crate) fn is_outermost(&self) -> bool {
        self.nesting == 0
    }

    /// Whether a cut has been requested, in which case translating the node in another way does not
    /// help.
    pub(crate) fn asks_for_cut(&self) -> bool {
        self.cuts.as_ref().is_some_and(Cuts::is_pending)
    }

    fn request(&mut self, what: &str) -> Result<&mut Cuts> {
        if self.nesting > 0 {
            return Err(Error::unsupported(format!(
                "{what} depends on data within a loop or conditional, which is not supported"
            )));
        }
        (self.cuts.as_mut()).ok_or_else(|| Error::needs_a_run(format!("{what} depends on data")))
    }

    /// Converts numbers, which are non-negative scalar integers, to open sizes. Returns them with
    /// the values of `keep`, as those are after the cut.
    ///
    /// # Errors
    /// The request itself, which splits the program; the node is then translated again.
    pub(crate) fn sizes_from_data(
        &mut self,
        numbers: &[Value],
        keep: &[Value],
    ) -> Result<(Vec<Term>, Vec<Value>)> {
        let known: Option<Vec<Term>> = (numbers.iter())
            .map(|number| number.terms().and_then(|list| list.into_iter().next()))
            .collect();
        if let Some(known) = known {
            return Ok((known, keep.to_vec()));
        }
        let cuts = self.request("a size")?;
        if let Some(answer) = cuts.answers.get(cuts.next) {
            cuts.next += 1;
            return Ok((answer.sizes.clone(), answer.keep.clone()));
        }
        let mut wanted = Vec::new();
        for number in numbers {
            let number = self.convert(number, ElementType::S64)?;
            wanted.push(self.reshape(&number, &[])?);
        }
        self.ask(Wanted::Sizes(wanted), keep)
    }

    /// The value as a constant whose elements are known to the rest of the translation.
    ///
    /// # Errors
    /// The request itself, as in [`sizes_from_data`](Self::sizes_from_data).
    pub(crate) fn elements_from_data(&mut self, value: &Value) -> Result<Value> {
        if matches!(value.source, Source::Literal(_)) {
            return Ok(value.clone());
        }
        let cuts = self.request("the contents of an input")?;
        if let Some(answer) = cuts.answers.get(cuts.next) {
            cuts.next += 1;
            return Ok(answer.elements.clone().unwrap_or(value.clone()));
        }
        self.ask(Wanted::Elements(value.clone()), &[])
    }

    fn ask<T>(&mut self, wanted: Wanted, keep: &[Value]) -> Result<T> {
        if let Some(cuts) = &mut self.cuts {
            let keep = keep.to_vec();
            cuts.pending = Some(Pending { wanted, keep });
        }
        Err(Error::needs_a_run("a size depends on data"))
    }

    /// Ends the stage with the requested data as results, and begins the next stage. `later` are
    /// the names that the rest of the graph reads. Returns whether there is a next stage: there is
    /// none if the requested elements are not known yet; they are then the last result of the last
    /// stage.
    pub(super) fn cut(&mut self, scope: &mut Scope<'a>, later: &FxHashSet<&str>) -> Result<bool> {
        let Some(mut cuts) = self.cuts.take() else {
            return Ok(true);
        };
        let go_on = self.cut_at(&mut cuts, scope, later);
        self.cuts = Some(cuts);
        go_on
    }

    fn cut_at(
        &mut self,
        cuts: &mut Cuts,
        scope: &mut Scope<'a>,
        later: &FxHashSet<&str>,
    ) -> Result<bool> {
        let Some(Pending { wanted, mut keep }) = cuts.pending.take() else {
            return Ok(true);
        };
        let elements = match &wanted {
            Wanted::Elements(_) => cuts.known.pop_front(),
            Wanted::Sizes(_) => None,
        };
        scope.retain(|name, _| later.contains(name));
        // The live values: those with names that are read later, in a fixed order, and then those
        // that the node keeps.
        let mut live = Live::default();
        let mut names: Vec<&'a str> = scope.keys().copied().collect();
        names.sort_unstable();
        for name in &names {
            if let Some(item) = scope.get_mut(name) {
                live.note_item(item);
            }
        }
        for answer in &mut cuts.answers {
            answer.keep.iter_mut().for_each(|value| live.note(value));
        }
        keep.iter_mut().for_each(|value| live.note(value));
        let kept = live.values.len();
        let mut results = live.values.clone();
        match &wanted {
            Wanted::Sizes(numbers) => results.extend(numbers.iter().cloned()),
            Wanted::Elements(value) => results.push(value.clone()),
        }
        self.end_stage(cuts, &results)?;
        let first_slot = cuts.slots;
        cuts.slots += results.len();
        if matches!(wanted, Wanted::Elements(_)) && elements.is_none() {
            return Ok(false);
        }
        let mut answer = Answer {
            keep,
            sizes: Vec::new(),
            elements: elements.map(Value::of_literal),
        };
        if let Wanted::Sizes(numbers) = &wanted {
            for at in 0..numbers.len() {
                let size = self.data_size(cuts.sources.len());
                if let Some(var) = size.as_var() {
                    let source = SizeSource::Number(first_slot + kept + at);
                    cuts.sources.insert(var, source);
                }
                answer.sizes.push(size);
            }
        }
        let parameters = self.begin_stage(cuts, &live.values, first_slot);
        for name in &names {
            if let Some(item) = scope.get_mut(name) {
                renamed_item(item, &live, &parameters);
            }
        }
        cuts.answers.push(answer);
        for answer in &mut cuts.answers {
            for value in &mut answer.keep {
                renamed(value, &live, &parameters);
            }
        }
        Ok(true)
    }

    /// A new open size, whose value data determines.
    fn data_size(&mut self, number: usize) -> Term {
        let mut name = format!("data_size_{number}");
        while self.names.contains_key(&name) {
            name.push('_');
        }
        self.named_size(&name)
    }

    /// Ends the current stage with these results.
    pub(super) fn end_stage(&mut self, cuts: &mut Cuts, results: &[Value]) -> Result<()> {
        let root = match results {
            [one] => self.local(one)?,
            many => self.tuple(many)?,
        };
        let symbols = self.builder.module().symbols.clone();
        let name = self.builder.module().name.to_string();
        let draft = std::mem::replace(&mut self.draft, Draft::new("main"));
        let entry = draft.finish(&mut self.builder, root)?;
        let mut next = ModuleBuilder::new(&name);
        for symbol in &symbols {
            next.symbol(&symbol.name, symbol.lower, symbol.upper);
        }
        let module = std::mem::replace(&mut self.builder, next).build_unverified(entry);
        self.constants.clear();
        self.reducers.clear();
        self.size_locals.clear();
        let takes = std::mem::take(&mut cuts.takes);
        cuts.stages.push(Stage { module, takes });
        Ok(())
    }

    /// Parameters for the live values of the previous stage, and for open sizes that are not a
    /// dimension of any of them.
    fn begin_stage(&mut self, cuts: &mut Cuts, live: &[Value], first_slot: usize) -> Vec<Local> {
        let mut parameters = Vec::new();
        let mut bound: FxHashSet<Var> = FxHashSet::default();
        for (at, value) in live.iter().enumerate() {
            bound.extend(value.dims.iter().filter_map(Term::as_var));
            parameters.push(self.draft.parameter(value.shape(), None));
            cuts.takes.push(Take::Slot(first_slot + at));
        }
        let mut sources: Vec<(Var, SizeSource)> =
            cuts.sources.iter().map(|(v, s)| (*v, *s)).collect();
        sources.sort_by_key(|(var, _)| *var);
        for (var, source) in sources {
            if bound.insert(var) {
                let dims = [Dim::Symbolic(Term::var(var)), Dim::Static(0)];
                let shape = Shape::Array(tegula_ir::ArrayShape {
                    element_type: ElementType::Pred,
                    dims: dims.into_iter().collect(),
                    layout: None,
                });
                self.draft.parameter(shape, None);
                cuts.takes.push(Take::Size(source));
            }
        }
        parameters
    }

    /// The first `count` elements of a list, which is at least as long; `count` is an open size.
    pub(crate) fn first_of(&mut self, list: &Value, count: &Term) -> Result<Value> {
        let zero = sizes(&[0]).remove(0);
        self.slice(list, 0, &zero, count, 1)
    }
}

/// The instructions that later stages read, without repetition.
#[derive(Default)]
struct Live {
    values: Vec<Value>,
    places: FxHashMap<Local, usize>,
}

impl Live {
    fn note(&mut self, value: &Value) {
        if let Source::Local(local) = value.source
            && !self.places.contains_key(&local)
        {
            self.places.insert(local, self.values.len());
            self.values.push(value.clone());
        }
    }

    fn note_item(&mut self, item: &Item) {
        match item {
            Item::Tensor(value) => self.note(value),
            Item::Sequence(items) => items.iter().for_each(|item| self.note_item(item)),
            Item::Nothing => {}
        }
    }
}

fn renamed(value: &mut Value, live: &Live, parameters: &[Local]) {
    // The quantized operands are instructions of the previous stage.
    value.quantized = None;
    if let Source::Local(local) = value.source
        && let Some(parameter) = live.places.get(&local).and_then(|at| parameters.get(*at))
    {
        value.source = Source::Local(*parameter);
    }
}

fn renamed_item(item: &mut Item, live: &Live, parameters: &[Local]) {
    match item {
        Item::Tensor(value) => renamed(value, live, parameters),
        Item::Sequence(items) => {
            for item in items {
                renamed_item(item, live, parameters);
            }
        }
        Item::Nothing => {}
    }
}
