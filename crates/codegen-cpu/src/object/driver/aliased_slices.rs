//! Dynamic slices of arrays, read in place as in a run
//! ([`slice_aliasing`](crate::program::slice_aliasing)): the step computes the slice's address
//! instead of copying it.

use super::Driver;
use crate::error::Error;
use crate::program::slice_aliasing::{View, Views};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, types};
use rustc_hash::FxHashMap;
use tegula_fusion::kernel::Access;
use tegula_ir::ElementType;
use tegula_plan::{KernelId, Place, Plan, Step, ValueId};

/// The slices of a plan that are read in place.
pub(crate) struct AliasedSlices {
    /// The views, by the values that would be copies.
    views: FxHashMap<ValueId, View>,
    /// The number of the slice for each value that is one, under any of its names.
    pub entries: FxHashMap<ValueId, usize>,
}

impl AliasedSlices {
    /// Finds the slices of a plan.
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut found = Views::new(plan);
        let (mut views, mut next) = (FxHashMap::default(), 0);
        find(plan, &plan.steps, &mut found, &mut next, &mut views);
        Self {
            views,
            entries: found.entries,
        }
    }

    /// The slice that a kernel's step would copy.
    pub(super) fn of(&self, plan: &Plan, kernel: KernelId, args: &[ValueId]) -> Option<&View> {
        self.views.get(&copy_of(plan, kernel, args)?)
    }

    /// The number of a value's slice, if it is one.
    pub(super) fn entry(&self, value: ValueId) -> Option<usize> {
        self.entries.get(&value).copied()
    }
}

/// The value that a kernel writes.
fn copy_of(plan: &Plan, kernel: KernelId, args: &[ValueId]) -> Option<ValueId> {
    let params = plan.kernels[kernel].params.iter().zip(args);
    let mut written = params.filter(|(param, _)| param.access == Access::Write);
    written.next().map(|(_, &arg)| arg)
}

fn find(
    plan: &Plan,
    steps: &[Step],
    found: &mut Views<'_>,
    next: &mut usize,
    views: &mut FxHashMap<ValueId, View>,
) {
    // A parameter that is donated for a result may be overwritten before the last read.
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
                find(plan, condition, found, next, views);
                find(plan, body, found, next, views);
            }
            Step::Conditional { branches, .. } => {
                for branch in branches {
                    find(plan, branch, found, next, views);
                }
            }
            Step::Strips { steps, .. } => find(plan, steps, found, next, views),
            Step::Kernel { .. } | Step::Copy { .. } | Step::Library { .. } => {}
        }
    }
}

impl Driver<'_, '_> {
    /// Computes the address of a slice instead of copying it.
    pub(super) fn alias_slice(&mut self, view: &View) -> Result<(), Error> {
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
        self.slice_addresses.insert(view.entry, address);
        Ok(())
    }
}
