//! Layout assignment: chooses the order of dimensions of every array in memory so that the modelled
//! cost of the whole program is minimal.
//!
//! The program is divided into kernels (`tpu_fusion`). Inside a kernel, arrays that are computed
//! from one another elementwise share an order. Each such set (a *space*) has candidate orders.
//! Each order has a cost in seconds (traffic with padding, and preferences of operations). Each
//! link between two spaces has a cost for every pair of orders (nothing if they agree or if the
//! difference is a bitcast, else a copy or an in-kernel transposition). [`pbqp`] minimises the sum.
//! Parameters, results and layouts that the program states are fixed. Where two spaces disagree in
//! the end, the array is copied, or read with strides where that is cheaper.
//!
//! The machine model determines how an order is laid out (tiles of a TPU, dense rows of a CPU or
//! GPU) and the cost of bytes; nothing else depends on the machine.

mod cost;
mod dense;
mod layout_preferences;
mod machine;
mod orders;
pub mod pbqp;
mod problem;
mod tpu_fusion;
mod worth_choosing;

use crate::apply_layouts::{Permutation, to_layout};
use cost::Cache;
pub use dense::{Ordered, Reason, dense_orders, stated_orders};
pub use machine::{Machine, Order};
pub use orders::reshaped;
use problem::{Place, Relation, Spaces};
use rustc_hash::FxHashMap;
use tegula_fusion::{NodeId, Program, ShortLoops, ValueId};
use tegula_ir::{ArrayShape, Layout, Module, PassManager, Shape};
use tpu_fusion::{Group, Kind};

/// The reason why a program gets no layouts.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AssignError {
    /// The program cannot be flattened.
    #[error(transparent)]
    Program(#[from] tegula_fusion::Error),
    /// A size is known only at run time.
    #[error("the size of `{0}` is known only at run time: give it with --dim")]
    Size(String),
    /// The chip's layouts are not known.
    #[error("the layouts of the chip {0} are not known")]
    Chip(String),
}

/// How a kernel reads an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The array.
    pub value: ValueId,
    /// The layout in which it is read; [`None`] for arrays of at most one dimension.
    pub layout: Option<Layout>,
    /// Whether this requires a copy of the array.
    pub copied: bool,
}

/// A kernel, with the layouts inside it.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The operation whose results it writes, its root.
    pub root: NodeId,
    /// All its operations, the root last.
    pub nodes: Vec<NodeId>,
    /// The arrays that it reads, in the order of first use.
    pub reads: Vec<Read>,
    /// The layouts of the values inside, which are in registers.
    pub inside: FxHashMap<ValueId, Layout>,
    /// Whether it contains a product.
    pub has_product: bool,
    /// Whether it is a view of its operand, which needs no kernel unless something is copied.
    pub is_view: bool,
    /// Whether it is a view that moves no bytes.
    pub is_bitcast: bool,
}

/// A region's kernels, in order.
#[derive(Clone, Debug)]
pub struct Region {
    /// The loop or conditional and the number of its region; [`None`] for the program itself.
    pub of: Option<(NodeId, usize)>,
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// The results of the region.
    pub results: Vec<ValueId>,
}

/// An order that was considered for an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The layout.
    pub layout: Layout,
    /// The seconds of traffic, including padding.
    pub traffic: f64,
    /// The seconds for preferences that are not met.
    pub wishes: f64,
    /// The seconds of copies and transpositions, if the neighbours keep their orders.
    pub links: f64,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// The reasons for an array's layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The reason why there was no choice, if there was none.
    pub fixed: Option<&'static str>,
    /// The preferences of operations.
    pub wishes: Vec<String>,
    /// The orders that were considered, the cheapest first.
    pub alternatives: Vec<Alternative>,
    /// The number of other arrays that share its order or are linked with it.
    pub neighbours: usize,
}

/// The layouts of a program.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The machine that they were chosen for.
    pub machine: Machine,
    /// The flat program.
    pub program: Program,
    /// Its kernels, by region; the program's own region is last.
    pub regions: Vec<Region>,
    /// The layout of each array in memory.
    pub layouts: FxHashMap<ValueId, Layout>,
    /// The layouts of the program's results, in order.
    pub results: Vec<Layout>,
    /// The total cost, in seconds.
    pub cost: f64,
    /// Whether the assignment is known to be optimal.
    pub is_best: bool,
    /// The explanation for each array in memory.
    pub explanations: FxHashMap<ValueId, Explanation>,
}

impl Assignment {
    /// The layout of an array to which none was assigned: one with at most one dimension.
    pub fn flat(&self, value: ValueId) -> Layout {
        flat_layout(&self.machine, &self.program, value)
    }
}

/// Assigns layouts to a verified, [expanded](tegula_fusion::expand) module. Explanations are made
/// for the arrays that `explain` selects by name.
///
/// # Errors
/// The program cannot be flattened, or sizes are known only at run time.
pub fn assign(
    module: &Module,
    machine: &Machine,
    explain: &dyn Fn(&str) -> bool,
    passes: &mut PassManager<'_>,
) -> Result<Assignment, AssignError> {
    let program = tegula_fusion::flatten(module, ShortLoops::Kept, passes)?;
    check_sizes(module, &program)?;
    Ok(passes.run("assign-layouts", || {
        assign_program(module, program, machine, explain)
    }))
}

/// Like [`assign`], for the module's flat program of static sizes.
fn assign_program(
    module: &Module,
    program: Program,
    machine: &Machine,
    explain: &dyn Fn(&str) -> bool,
) -> Assignment {
    let stated = stated(module, &program, machine);
    let orders = stated
        .iter()
        .map(|(at, layout)| (*at, layout.minor_to_major.clone()));
    let spaces = Spaces::new(module, &program, machine, &orders.collect());
    let (problem, variables) = build(machine, &spaces);
    let answer = problem.solve();
    let chosen = Chosen {
        spaces: &spaces,
        machine,
        program: &program,
        variables: &variables,
        choices: &answer.choices,
    };
    let mut layouts = FxHashMap::default();
    let mut explanations = FxHashMap::default();
    for value in program.values.keys() {
        // A stated layout is kept completely, whatever the machine's rule is for its order.
        let kept = stated.get(&(Place::Memory, value)).cloned();
        if let Some(layout) = kept.or_else(|| chosen.layout(Place::Memory, value)) {
            layouts.insert(value, layout);
            let name = name_of(module, &program, value);
            if name.is_some_and(explain) {
                explanations.insert(value, chosen.explain(Place::Memory, value));
            }
        }
    }
    let regions = spaces.regions.iter().map(|region| Region {
        of: region.of,
        kernels: region
            .groups
            .groups
            .iter()
            .map(|group| chosen.kernel(module, group, &layouts))
            .collect(),
        results: region.results.clone(),
    });
    let regions: Vec<Region> = regions.collect();
    let results = program.entry.results.iter();
    let results = results
        .map(|&value| {
            let kept = stated.get(&(Place::Result, value)).cloned();
            let layout = kept.or_else(|| chosen.layout(Place::Result, value));
            layout.unwrap_or_else(|| flat_layout(machine, &program, value))
        })
        .collect();
    Assignment {
        machine: machine.clone(),
        regions,
        layouts,
        results,
        cost: answer.cost,
        is_best: answer.is_best,
        explanations,
        program,
    }
}

/// The name of the instruction that computes a value.
pub fn name_of<'a>(module: &'a Module, program: &Program, value: ValueId) -> Option<&'a str> {
    match program.values[value].def {
        tegula_fusion::Def::Node(node, _) => Some(&module[program.nodes[node].origin].name),
        tegula_fusion::Def::Parameter(number) => {
            let parameters = &module.entry_computation().parameters;
            parameters.get(number).map(|&id| &*module[id].name)
        }
        _ => None,
    }
}

fn check_sizes(module: &Module, program: &Program) -> Result<(), AssignError> {
    for (value, data) in &program.values {
        if data.shape.static_dims().is_none() {
            let name = name_of(module, program, value).unwrap_or("a value");
            return Err(AssignError::Size(name.to_owned()));
        }
    }
    Ok(())
}

/// The layouts that the program states for its parameters and results. For a machine with tiles, a
/// mere order does not count, because every printer writes one; for a machine with dense arrays,
/// the order is all that a layout says.
fn stated(
    module: &Module,
    program: &Program,
    machine: &Machine,
) -> FxHashMap<(Place, ValueId), Layout> {
    let entry = module.entry_computation();
    let (parameters, results) = if machine.has_lanes() {
        let mut leaves: Vec<&ArrayShape> = Vec::new();
        for &parameter in &entry.parameters {
            leaves.extend(tegula_fusion::array_leaves(&module[parameter].shape));
        }
        let results = tegula_fusion::array_leaves(&module[entry.root].shape);
        let tiled = |shape: &ArrayShape| {
            let layout = shape.layout.as_deref()?;
            let says = !layout.tiles.is_empty() || layout.memory_space != 0;
            says.then(|| layout.clone())
        };
        (
            leaves.into_iter().map(tiled).collect(),
            results.into_iter().map(tiled).collect(),
        )
    } else {
        let (parameters, results) = crate::apply_layouts::stated(module);
        let layouts = |orders: Vec<Permutation>| -> Vec<Option<Layout>> {
            orders.iter().map(|order| Some(to_layout(order))).collect()
        };
        (layouts(parameters), layouts(results))
    };
    let inputs = program.parameters.iter().map(|&v| (Place::Memory, v));
    let outputs = program.entry.results.iter().map(|&v| (Place::Result, v));
    let all = inputs.zip(parameters).chain(outputs.zip(results));
    all.filter_map(|(at, layout)| Some((at, layout?))).collect()
}

/// The layout of an array without a choice: one with at most one dimension.
fn flat_layout(machine: &Machine, program: &Program, value: ValueId) -> Layout {
    let shape = &program.values[value].shape;
    let dims = shape.static_dims().unwrap_or_default();
    let bits = shape.element_type.bits();
    machine.layout(bits, &dims, &machine.default_order(bits, &dims))
}

/// Builds the optimisation problem; also returns the variable of each space.
fn build(machine: &Machine, spaces: &Spaces<'_>) -> (pbqp::Problem, Vec<usize>) {
    let mut problem = pbqp::Problem::default();
    let mut variables = vec![usize::MAX; spaces.len()];
    for id in (0..spaces.len()).filter(|&id| spaces.is_root(id)) {
        let space = spaces.get(id);
        let costs = (0..space.orders.len()).map(|number| {
            let parts = cost::of_space(machine, space, number);
            parts.traffic + parts.wishes
        });
        variables[id] = problem.variable(costs.collect());
    }
    let mut cache = Cache::default();
    for link in &spaces.links {
        if link.from == link.to {
            continue;
        }
        let (from, to) = (spaces.get(link.from), spaces.get(link.to));
        let costs = cache.once(machine, link, from, to);
        let columns = to.orders.len();
        problem.pair(variables[link.from], variables[link.to], &mut |i, j| {
            link.times * costs[i * columns + j]
        });
    }
    (problem, variables)
}

struct Chosen<'a> {
    spaces: &'a Spaces<'a>,
    machine: &'a Machine,
    program: &'a Program,
    variables: &'a [usize],
    choices: &'a [usize],
}

impl Chosen<'_> {
    fn order(&self, id: usize) -> Option<&Order> {
        let variable = *self.variables.get(id)?;
        let choice = *self.choices.get(variable)?;
        self.spaces.get(id).orders.get(choice)
    }

    fn layout(&self, place: Place, value: ValueId) -> Option<Layout> {
        let shape = &self.program.values[value].shape;
        let order = self.order(self.spaces.find(place, value)?)?;
        let dims = shape.static_dims()?;
        Some(self.machine.layout(shape.element_type.bits(), &dims, order))
    }

    fn kernel(
        &self,
        module: &Module,
        group: &Group,
        layouts: &FxHashMap<ValueId, Layout>,
    ) -> Kernel {
        let place = Place::Kernel(group.root);
        let root = &self.program.nodes[group.root];
        let mut inside = FxHashMap::default();
        let mut reads: Vec<Read> = Vec::new();
        let mut has_product = false;
        let own_kind = tpu_fusion::kind(module, self.program, root);
        let control = own_kind == Kind::Control;
        let read_values: Vec<ValueId> = if control {
            problem::control_reads(self.program, root)
        } else {
            Vec::new()
        };
        for value in read_values {
            let layout = layouts.get(&value).cloned();
            reads.push(Read {
                value,
                layout,
                copied: false,
            });
        }
        for &id in &group.nodes {
            let node = &self.program.nodes[id];
            has_product |= tpu_fusion::kind(module, self.program, node) == Kind::Product;
            if control {
                continue;
            }
            for &operand in &node.operands {
                if inside.contains_key(&operand) || reads.iter().any(|r| r.value == operand) {
                    continue;
                }
                let layout = self.layout(place, operand);
                let copied = match (&layout, layouts.get(&operand)) {
                    (Some(read), Some(written)) => !self.is_same(operand, read, written),
                    _ => false,
                };
                reads.push(Read {
                    value: operand,
                    layout,
                    copied,
                });
            }
            for &result in &node.results {
                let layout = self.layout(place, result);
                let flat = || flat_layout(self.machine, self.program, result);
                inside.insert(result, layout.unwrap_or_else(flat));
            }
        }
        let is_view = own_kind == Kind::View && group.nodes.len() == 1;
        Kernel {
            root: group.root,
            nodes: group.nodes.clone(),
            is_bitcast: is_view && self.is_free(group, &reads),
            reads,
            inside,
            has_product,
            is_view,
        }
    }

    /// Whether an array has the same bytes in two layouts.
    fn is_same(&self, value: ValueId, a: &Layout, b: &Layout) -> bool {
        let with = |layout: &Layout| ArrayShape {
            layout: Some(Box::new(layout.clone())),
            ..self.program.values[value].shape.clone()
        };
        a == b || crate::physical::is_bitcast(&with(a), &with(b))
    }

    /// Whether a view needs no work: its operand and result have the same bytes.
    fn is_free(&self, group: &Group, reads: &[Read]) -> bool {
        let node = &self.program.nodes[group.root];
        let (Some(read), Some(&result)) = (reads.first(), node.results.first()) else {
            return false;
        };
        let place = Place::Kernel(group.root);
        let ids = (
            self.spaces.find(place, read.value),
            self.spaces.find(place, result),
        );
        let (Some(from), Some(to)) = ids else {
            // If an array has at most one dimension, only the bytes are compared.
            let shape = |value: ValueId, layout: Option<Layout>| ArrayShape {
                layout: Some(Box::new(
                    layout.unwrap_or_else(|| flat_layout(self.machine, self.program, value)),
                )),
                ..self.program.values[value].shape.clone()
            };
            let from = shape(read.value, read.layout.clone());
            return crate::physical::is_bitcast(&from, &shape(result, self.layout(place, result)));
        };
        let mut links = self.spaces.links.iter();
        links
            .find(|link| {
                (link.from, link.to) == (from, to)
                    && matches!(
                        link.relation,
                        Relation::Reshape(_) | Relation::Transpose(..)
                    )
            })
            .is_some_and(|link| self.link_cost(link) == 0.0)
    }

    fn link_cost(&self, link: &problem::Link) -> f64 {
        let (from, to) = (self.spaces.get(link.from), self.spaces.get(link.to));
        let number = |id: usize| {
            let variable = self.variables.get(id).copied().unwrap_or(0);
            self.choices.get(variable).copied().unwrap_or(0)
        };
        let costs = cost::of_link(self.machine, link, from, to);
        let at = number(link.from) * to.orders.len() + number(link.to);
        costs.get(at).copied().unwrap_or(0.0)
    }

    fn explain(&self, place: Place, value: ValueId) -> Explanation {
        let Some(id) = self.spaces.find(place, value) else {
            return Explanation {
                fixed: Some("it has one order only"),
                wishes: Vec::new(),
                alternatives: Vec::new(),
                neighbours: 0,
            };
        };
        let space = self.spaces.get(id);
        let links: Vec<&problem::Link> = self
            .spaces
            .links
            .iter()
            .filter(|link| link.from != link.to && (link.from == id || link.to == id))
            .collect();
        let chosen = self.order(id);
        let shape = &self.program.values[value].shape;
        let dims = shape.static_dims().unwrap_or_default();
        let mut alternatives: Vec<Alternative> = (0..space.orders.len())
            .map(|number| {
                let parts = cost::of_space(self.machine, space, number);
                let around = links
                    .iter()
                    .map(|link| self.link_if(link, id, number))
                    .sum();
                let order = &space.orders[number];
                Alternative {
                    layout: self.machine.layout(shape.element_type.bits(), &dims, order),
                    traffic: parts.traffic,
                    wishes: parts.wishes,
                    links: around,
                    chosen: Some(order) == chosen,
                }
            })
            .collect();
        let total = |a: &Alternative| a.traffic + a.wishes + a.links;
        alternatives.sort_by(|a, b| total(a).total_cmp(&total(b)));
        let mut wishes: Vec<String> = Vec::new();
        for (wish, ..) in &space.wishes {
            let reason = wish.reason();
            if !wishes.contains(&reason) {
                wishes.push(reason);
            }
        }
        Explanation {
            fixed: space.fixed.as_ref().map(|(_, why)| *why),
            wishes,
            alternatives,
            neighbours: links.len(),
        }
    }

    /// The cost of a link if space `id` had its order number `number`.
    fn link_if(&self, link: &problem::Link, id: usize, number: usize) -> f64 {
        let (from, to) = (self.spaces.get(link.from), self.spaces.get(link.to));
        let own = |space: usize| {
            if space == id {
                return number;
            }
            let variable = self.variables.get(space).copied().unwrap_or(0);
            self.choices.get(variable).copied().unwrap_or(0)
        };
        let costs = cost::of_link(self.machine, link, from, to);
        let at = own(link.from) * to.orders.len() + own(link.to);
        costs.get(at).copied().unwrap_or(0.0)
    }
}

/// A shape with a layout.
pub fn with_layout(shape: &ArrayShape, layout: &Layout) -> Shape {
    Shape::Array(ArrayShape {
        layout: Some(Box::new(layout.clone())),
        ..shape.clone()
    })
}
