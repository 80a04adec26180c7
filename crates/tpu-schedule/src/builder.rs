//! Builds a schedule: steps in order, and the buffers that they need.

use super::options::Options;
use super::time::{Speeds, operations};
use super::{Buffer, BufferId, Reason, Schedule, Source, Step};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_fusion::{Def, Program, ValueId};
use tegula_ir::{ArrayShape, Layout, Module, Op};
use tegula_layout::assign::{Assignment, Kernel, Order, reshaped};
use tegula_layout::physical::{PhysicalLayout, is_bitcast};

/// The state of the region that is being scheduled.
#[derive(Clone, Default)]
pub(super) struct Scope {
    /// The buffer that holds each value.
    pub home: FxHashMap<ValueId, BufferId>,
    /// Views that nothing has read yet: the region and the kernel's number.
    pub pending: FxHashMap<ValueId, (usize, usize)>,
    /// Copies of a value in other layouts, by the layout's text.
    pub turned: FxHashMap<(ValueId, String), BufferId>,
    /// The first buffer of the region.
    pub first: BufferId,
    /// The states of the loop whose body this region is.
    pub states: FxHashSet<ValueId>,
}

/// Builds a schedule.
pub(super) struct Builder<'a> {
    pub(super) module: &'a Module,
    pub(super) assignment: &'a Assignment,
    pub(super) options: &'a Options,
    pub(super) speeds: Speeds,
    /// Whether arrays stay in VMEM between kernels. libtpu's compiler (0.0.42.1) does this on all
    /// chips but v2 and v3, which are recognised by their tiles.
    pub(super) keeps_arrays: bool,
    pub(super) schedule: Schedule,
    /// The state of the region that is being scheduled.
    pub(super) scope: Scope,
}

impl<'a> Builder<'a> {
    pub(super) fn program(&self) -> &'a Program {
        &self.assignment.program
    }

    pub(super) fn layout(&self, value: ValueId) -> Layout {
        let layout = self.assignment.layouts.get(&value).cloned();
        layout.unwrap_or_else(|| self.assignment.flat(value))
    }

    pub(super) fn buffer(&mut self, value: ValueId, layout: Layout, source: Source) -> BufferId {
        let shape = ArrayShape {
            layout: Some(Box::new(layout.clone())),
            ..self.program().values[value].shape.clone()
        };
        let bytes = PhysicalLayout::new(&shape).map_or(0, |layout| layout.padded_bytes());
        self.schedule.buffers.push(Buffer {
            value,
            layout,
            bytes,
            source,
            offset: None,
            reason: Reason::Boundary,
        });
        self.schedule.buffers.len() - 1
    }

    /// The buffer of a value. If nothing has written it, it is given from outside; if it is a view,
    /// the view is made here, at its first reader.
    pub(super) fn home(&mut self, value: ValueId) -> BufferId {
        if let Some(&id) = self.scope.home.get(&value) {
            return id;
        }
        let view = self.scope.pending.remove(&value);
        let view = view
            .and_then(|(region, number)| self.assignment.regions.get(region)?.kernels.get(number));
        if let Some(view) = view
            && let [from] = self.reads(view)[..]
        {
            let layout = self.layout(value);
            let to = self.buffer(value, layout, Source::Bitcast(from));
            self.scope.home.insert(value, to);
            let root = view.root;
            self.schedule.steps.push(Step::Bitcast { root, from, to });
            return to;
        }
        let layout = self.layout(value);
        let id = self.buffer(value, layout, Source::Given);
        self.scope.home.insert(value, id);
        id
    }

    /// Adds the steps of a region's kernels.
    pub(super) fn kernels(&mut self, region: usize) {
        let assignment = self.assignment;
        let Some(kernels) = assignment.regions.get(region).map(|region| &region.kernels) else {
            return;
        };
        for (number, kernel) in kernels.iter().enumerate() {
            let node = &assignment.program.nodes[kernel.root];
            let results = &node.results;
            if let (true, [result]) = (kernel.is_bitcast, results.as_slice()) {
                self.scope.pending.insert(*result, (region, number));
                continue;
            }
            if !node.kind.regions().is_empty() {
                self.control(region, kernel);
                continue;
            }
            if let (true, [result]) = (kernel.is_view, results.as_slice())
                && self.view_of_copy(kernel, *result)
            {
                continue;
            }
            let reads = self.reads(kernel);
            let mut writes = Vec::new();
            for &result in results {
                let layout = kernel.inside.get(&result).cloned();
                let layout = layout.unwrap_or_else(|| self.layout(result));
                let id = self.buffer(result, layout, Source::Kernel);
                self.scope.home.insert(result, id);
                writes.push(id);
            }
            let bytes = |ids: &[BufferId]| -> i64 {
                ids.iter().map(|&id| self.schedule.buffers[id].bytes).sum()
            };
            let moved = bytes(&reads) + bytes(&writes);
            let work = operations(self.module, self.program(), &kernel.nodes);
            self.schedule.steps.push(Step::Kernel {
                region,
                kernel: number,
                scoped: self.scoped(moved),
                seconds: self.speeds.kernel(work, moved),
                reads,
                writes,
            });
        }
    }

    /// Schedules a view that moves bytes as a copy to the layout of which it is a bitcast, if there
    /// is one.
    fn view_of_copy(&mut self, kernel: &Kernel, result: ValueId) -> bool {
        let [read] = kernel.reads.as_slice() else {
            return false;
        };
        let program = self.program();
        let shapes = [read.value, result].map(|value| program.values[value].shape.clone());
        let to = self.layout(result);
        let sizes = [0, 1].map(|at| shapes[at].static_dims().unwrap_or_default());
        let op = &self.module[program.nodes[kernel.root].origin].op;
        let order = match op {
            // Dimension `i` of the result is dimension `permutation[i]` of the operand.
            Op::Transpose(permutation) => to
                .minor_to_major
                .iter()
                .map(|&dim| permutation.get(dim as usize).map(|&d| d as u32))
                .collect(),
            _ => reshaped(&to.minor_to_major, &sizes[1], &sizes[0]),
        };
        let bits = shapes[0].element_type.bits();
        let Some(order): Option<Order> = order else {
            return false;
        };
        let layout = self.assignment.machine.layout(bits, &sizes[0], &order);
        let [from, into] =
            [(&shapes[0], &layout), (&shapes[1], &to)].map(|(shape, layout)| ArrayShape {
                layout: Some(Box::new(layout.clone())),
                ..shape.clone()
            });
        // The operand of a transposition was copied to the same order, so the bytes are equal
        // unless the padding differs.
        let same = match op {
            Op::Transpose(_) => {
                let bytes = |shape| PhysicalLayout::new(shape).map(|layout| layout.padded_bytes());
                bytes(&from) == bytes(&into)
            }
            _ => is_bitcast(&from, &into),
        };
        if !same {
            return false;
        }
        let home = self.home(read.value);
        let copy = self.turn(read.value, home, &layout);
        let view = self.buffer(result, to, Source::Bitcast(copy));
        self.scope.home.insert(result, view);
        let root = kernel.root;
        self.schedule.steps.push(Step::Bitcast {
            root,
            from: copy,
            to: view,
        });
        true
    }

    /// The bytes of VMEM for two windows of everything that a kernel moves, up to the limit.
    pub(super) fn scoped(&self, moved: i64) -> i64 {
        moved.saturating_mul(2).min(self.options.scoped_bytes)
    }

    /// The buffers that a kernel reads, with copies to the layouts that it needs.
    pub(super) fn reads(&mut self, kernel: &Kernel) -> Vec<BufferId> {
        let mut reads = Vec::new();
        for read in &kernel.reads {
            if is_immediate(self.program(), read.value) {
                continue;
            }
            let home = self.home(read.value);
            let id = match &read.layout {
                Some(layout) if read.copied => self.turn(read.value, home, layout),
                _ => home,
            };
            reads.push(id);
        }
        reads
    }

    /// The value in another layout, copied once for all kernels that need it.
    pub(super) fn turn(&mut self, value: ValueId, from: BufferId, layout: &Layout) -> BufferId {
        let key = (value, layout.to_string());
        if let Some(&id) = self.scope.turned.get(&key) {
            return id;
        }
        let to = self.buffer(value, layout.clone(), Source::Relayout(from));
        let moved = self.schedule.buffers[from].bytes + self.schedule.buffers[to].bytes;
        self.schedule.steps.push(Step::Relayout {
            from,
            to,
            scoped: self.scoped(moved),
            seconds: self.speeds.kernel(0.0, moved),
        });
        self.scope.turned.insert(key, to);
        to
    }

    pub(super) fn results(&mut self, entry: usize) {
        let assignment = self.assignment;
        let region = assignment.regions.get(entry);
        let results = region.into_iter().flat_map(|region| &region.results);
        for (number, &value) in results.enumerate() {
            let home = self.home(value);
            let wanted = self.assignment.results.get(number).cloned();
            let own = self.schedule.buffers[home].layout.clone();
            let given = self.schedule.base(home);
            let is_given = self.schedule.buffers[given].source == Source::Given;
            let id = match wanted {
                Some(wanted) if !self.same_bytes(value, &own, &wanted) || is_given => {
                    self.turn(value, home, &wanted)
                }
                _ => home,
            };
            self.schedule.results.push(id);
        }
    }

    pub(super) fn same_bytes(&self, value: ValueId, a: &Layout, b: &Layout) -> bool {
        let with = |layout: &Layout| ArrayShape {
            layout: Some(Box::new(layout.clone())),
            ..self.program().values[value].shape.clone()
        };
        a == b || is_bitcast(&with(a), &with(b))
    }
}

/// Whether a value is a constant that is part of the kernels themselves.
pub(crate) fn is_immediate(program: &Program, value: ValueId) -> bool {
    let data = &program.values[value];
    match &data.def {
        Def::Constant(literal) => literal.is_empty() || literal.uniform_element().is_some(),
        _ => false,
    }
}

/// Whether two layouts of one shape put every element at the same position.
pub(super) fn same_bytes(a: &Layout, b: &Layout) -> bool {
    let in_any = |layout: &Layout| Layout {
        memory_space: 0,
        ..layout.clone()
    };
    a == b || in_any(a) == in_any(b)
}

/// Whether the contents of a buffer can be copied to another one byte by byte.
pub(super) fn is_plain(from: &Buffer, to: &Buffer) -> bool {
    let is_view = matches!(from.source, Source::Bitcast(_));
    !is_view && same_bytes(&from.layout, &to.layout)
}
