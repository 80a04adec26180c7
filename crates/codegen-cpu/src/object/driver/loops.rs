//! Loops: state that changes between two memories is swapped, not copied, and slabs of arrays are read
//! where they lie, as in a run ([`double_buffer`], [`slice_aliasing`](crate::program::slice_aliasing)).

use super::{Driver, bug};
use crate::error::Error;
use crate::program::double_buffer;
use crate::program::effects::{location, span};
use crate::program::ir::{Exchange, Location};
use crate::program::slice_aliasing::{View, Views};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value, types};
use rustc_hash::FxHashMap;
use tegula_fusion::kernel::Access;
use tegula_ir::ElementType;
use tegula_plan::{KernelId, Place, Plan, Step, ValueId};

/// The slabs of arrays that are read where they lie.
pub(super) struct Slabs {
    /// By the copy that is not made.
    views: FxHashMap<ValueId, View>,
    /// The view that a value is.
    entries: FxHashMap<ValueId, usize>,
}

impl Slabs {
    /// Those of a plan.
    pub(super) fn new(plan: &Plan) -> Self {
        let mut found = Views::new(plan);
        let (mut views, mut next) = (FxHashMap::default(), 0);
        find_slabs(plan, &plan.steps, &mut found, &mut next, &mut views);
        Self {
            views,
            entries: found.entries,
        }
    }

    /// The slab that a kernel's step would copy.
    pub(super) fn of(&self, plan: &Plan, kernel: KernelId, args: &[ValueId]) -> Option<&View> {
        self.views.get(&copy_of(plan, kernel, args)?)
    }

    /// The view that a value is, by number.
    pub(super) fn entry(&self, value: ValueId) -> Option<usize> {
        self.entries.get(&value).copied()
    }
}

/// What a kernel writes.
fn copy_of(plan: &Plan, kernel: KernelId, args: &[ValueId]) -> Option<ValueId> {
    let params = plan.kernels[kernel].params.iter().zip(args);
    let mut written = params.filter(|(param, _)| param.access == Access::Write);
    written.next().map(|(_, &arg)| arg)
}

fn find_slabs(
    plan: &Plan,
    steps: &[Step],
    found: &mut Views<'_>,
    next: &mut usize,
    views: &mut FxHashMap<ValueId, View>,
) {
    // What is given away for a result is written over.
    let is_given = |value: &ValueId| match plan.buffers[plan.values[*value].buffer].place {
        Place::Parameter(number) => plan.aliases.iter().any(|alias| alias.parameter == number),
        _ => false,
    };
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Kernel { kernel, args } if !args.iter().any(is_given) => {
                let view = found.view((*kernel, args), &steps[at + 1..], next);
                if let (Some(view), Some(copy)) = (view, copy_of(plan, *kernel, args)) {
                    views.insert(copy, view);
                }
            }
            Step::While {
                condition, body, ..
            } => {
                find_slabs(plan, condition, found, next, views);
                find_slabs(plan, body, found, next, views);
            }
            Step::Conditional { branches, .. } => {
                for branch in branches {
                    find_slabs(plan, branch, found, next, views);
                }
            }
            Step::Strips { steps, .. } => find_slabs(plan, steps, found, next, views),
            Step::Kernel { .. } | Step::Copy { .. } | Step::Library { .. } => {}
        }
    }
}

impl Driver<'_, '_> {
    /// Finds a slab, in whose place nothing is copied.
    pub(super) fn slab(&mut self, view: &View) -> Result<(), Error> {
        let mut address = self.address(view.source)?;
        address = self.builder.ins().iadd_imm_s(address, view.bytes);
        for index in &view.indices {
            let place = self.address(index.place)?;
            let flags = MemFlagsData::trusted();
            let ins = self.builder.ins();
            let number = match index.element_type {
                ElementType::S64 => ins.load(types::I64, flags, place, 0),
                ElementType::U32 => ins.uload32(flags, place, 0),
                _ => ins.sload32(flags, place, 0),
            };
            let [least, most] =
                [index.least, index.most].map(|n| self.builder.ins().iconst(types::I64, n));
            let raised = self.builder.ins().smax(number, least);
            let number = self.builder.ins().smin(raised, most);
            let offset = self.builder.ins().imul_imm_s(number, index.stride);
            address = self.builder.ins().iadd(address, offset);
        }
        self.found_slabs.insert(view.entry, address);
        Ok(())
    }

    pub(super) fn while_loop(
        &mut self,
        condition: &[Step],
        predicate: ValueId,
        body: &[Step],
    ) -> Result<(), Error> {
        let is_view = |value| self.slabs.entry(value).is_some();
        let exchanges = double_buffer::find(self.plan, [condition, body], is_view);
        let [head, inside, exit] = [(); 3].map(|()| self.builder.create_block());
        // Of each exchange, where the state and the next one are at first, and in an iteration.
        let (mut first, mut now) = (Vec::new(), Vec::new());
        for exchange in &exchanges {
            let places = [exchange.state, exchange.next];
            let [state, next] = places.map(|at| self.address_of(at).ok_or_else(|| bug("a loop")));
            first.push([state?, next?]);
            now.push([(); 2].map(|()| self.builder.append_block_param(head, types::I64)));
        }
        let args: Vec<BlockArg> = first.iter().flatten().map(|&at| at.into()).collect();
        self.builder.ins().jump(head, &args);
        self.builder.switch_to_block(head);
        let outside = self.buffers.clone();
        for (exchange, now) in exchanges.iter().zip(&now) {
            self.lead(exchange, *now);
        }
        self.inside(condition)?;
        let address = self.address(predicate)?;
        let flags = MemFlagsData::trusted();
        let goes_on = self.builder.ins().load(types::I8, flags, address, 0);
        self.builder.ins().brif(goes_on, inside, &[], exit, &[]);
        self.builder.switch_to_block(inside);
        let known = self.terms.clone();
        for step in body {
            if !exchanges.iter().any(|e| self.is_copy_of(e, step)) {
                self.step(step)?;
            }
        }
        self.terms = known;
        let swapped = now.iter().flat_map(|&[state, next]| [next, state]);
        let args: Vec<BlockArg> = swapped.map(Into::into).collect();
        self.builder.ins().jump(head, &args);
        self.builder.switch_to_block(exit);
        self.buffers = outside;
        for ((exchange, [own, _]), [state, _]) in exchanges.iter().zip(first).zip(now) {
            self.put_back(own, state, exchange.bytes);
        }
        Ok(())
    }

    /// Copies what a loop left in the other memory.
    fn put_back(&mut self, own: Value, state: Value, bytes: usize) {
        let [copy, done] = [(); 2].map(|()| self.builder.create_block());
        let differ = self.builder.ins().icmp(IntCC::NotEqual, own, state);
        self.builder.ins().brif(differ, copy, &[], done, &[]);
        self.builder.switch_to_block(copy);
        let bytes = self.builder.ins().iconst(types::I64, bytes as i64);
        self.builder.call_memcpy(self.config, own, state, bytes);
        self.builder.ins().jump(done, &[]);
        self.builder.switch_to_block(done);
    }

    /// The address of a place where a buffer begins.
    fn address_of(&self, place: Location) -> Option<Value> {
        let mut buffers = self.plan.buffers.iter();
        let (id, _) = buffers.find(|(_, buffer)| location(&buffer.place) == Some(place))?;
        self.buffers.get(&id).copied()
    }

    /// Leads all buffers in the memories of an exchange to where these are now.
    fn lead(&mut self, exchange: &Exchange, now: [Value; 2]) {
        for (id, buffer) in &self.plan.buffers {
            let Some(own) = location(&buffer.place) else {
                continue;
            };
            for (place, now) in [exchange.state, exchange.next].into_iter().zip(now) {
                let inside = place.offset..place.offset + exchange.bytes;
                if own.area == place.area && inside.contains(&own.offset) {
                    let offset = (own.offset - place.offset) as i64;
                    let address = match offset {
                        0 => now,
                        _ => self.builder.ins().iadd_imm_s(now, offset),
                    };
                    self.buffers.insert(id, address);
                }
            }
        }
    }

    /// Whether a step is the copy in whose place an exchange is.
    fn is_copy_of(&self, exchange: &Exchange, step: &Step) -> bool {
        let Step::Copy { from, to } = step else {
            return false;
        };
        let is = |value, place| {
            span(self.plan, value).is_some_and(|s| s.at == place && s.bytes == exchange.bytes)
        };
        is(*from, exchange.next) && is(*to, exchange.state)
    }

    pub(super) fn conditional(
        &mut self,
        selector: ValueId,
        branches: &[Vec<Step>],
    ) -> Result<(), Error> {
        let address = self.address(selector)?;
        let flags = MemFlagsData::trusted();
        let is_pred = self.plan.values[selector].shape.element_type == ElementType::Pred;
        let selected = match is_pred {
            // Branch 0 if it is true.
            true => {
                let truth = self.builder.ins().load(types::I8, flags, address, 0);
                let not = self.builder.ins().icmp_imm_s(IntCC::Equal, truth, 0);
                self.builder.ins().uextend(types::I32, not)
            }
            false => self.builder.ins().load(types::I32, flags, address, 0),
        };
        let exit = self.builder.create_block();
        for (number, steps) in branches.iter().enumerate() {
            // The last is what every other number selects.
            if number + 1 < branches.len() {
                let [here, next] = [(); 2].map(|()| self.builder.create_block());
                let is_it = self.builder.ins();
                let is_it = is_it.icmp_imm_s(IntCC::Equal, selected, number as i64);
                self.builder.ins().brif(is_it, here, &[], next, &[]);
                self.builder.switch_to_block(here);
                self.inside(steps)?;
                self.builder.ins().jump(exit, &[]);
                self.builder.switch_to_block(next);
            } else {
                self.inside(steps)?;
            }
        }
        self.builder.ins().jump(exit, &[]);
        self.builder.switch_to_block(exit);
        Ok(())
    }
}
