//! Emits an outlined loop as Cranelift instructions.

use super::{Loop, MAX_COPY, Made, Promoted, Step};
use crate::clif::lower::{Imports, lower_in_place};
use crate::clif::mem2reg::{Element, Registers, size_of_copied};
use crate::error::Error;
use crate::program::ir::Location;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{FuncRef, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::FunctionBuilder;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Emits loops.
struct Emitter<'e, 'f> {
    builder: &'e mut FunctionBuilder<'f>,
    config: TargetFrontendConfig,
    /// The functions of kernels' pieces that are called.
    functions: FxHashMap<(usize, usize), FuncRef>,
    /// The address of the table, and the locations whose addresses it holds.
    table: Value,
    /// The address of the run's stop flag.
    flag: Value,
    places: &'e [Location],
    /// Addresses that were loaded from the table.
    addresses: FxHashMap<usize, Value>,
    promoted: &'e [Promoted],
    registers: Registers,
}

/// Emits the function that `builder` builds: loads addresses and promoted elements, then runs the
/// loop. `functions` are those that it [calls](Loop::calls).
pub(crate) fn emit(
    made: &Made,
    functions: FxHashMap<(usize, usize), FuncRef>,
    config: TargetFrontendConfig,
    builder: &mut FunctionBuilder<'_>,
    imports: &mut dyn Imports,
) -> Result<(), Error> {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let [table, flag, _] = builder.block_params(entry)[..] else {
        return Err(Error::Bug(
            "an outlined loop's function has an unexpected number of parameters".to_owned(),
        ));
    };
    let mut addresses = FxHashMap::default();
    let mut places = Vec::new();
    made.looped.places(&mut places);
    for place in places {
        let flags = MemFlagsData::trusted().with_readonly();
        let load = || {
            builder
                .ins()
                .load(types::I64, flags, table, 8 * place as i32)
        };
        addresses.entry(place).or_insert_with(load);
    }
    let mut emitter = Emitter {
        builder,
        config,
        functions,
        table,
        flag,
        places: &made.table,
        addresses,
        promoted: &made.promoted,
        registers: Registers::default(),
    };
    emitter.promote()?;
    emitter.nest(&made.looped, imports)?;
    emitter.store_back()?;
    builder.ins().return_(&[]);
    builder.seal_all_blocks();
    Ok(())
}

impl Loop {
    /// Collects the pieces of kernels that are called.
    pub(crate) fn calls(&self, calls: &mut Vec<(usize, usize)>) {
        self.each(&mut |step| {
            if let Step::Call { kernel, piece, .. } = step {
                calls.push((*kernel, *piece));
            }
        });
    }

    /// Collects the table indices that the function accesses itself.
    fn places(&self, places: &mut Vec<usize>) {
        places.push(self.predicate);
        self.each(&mut |step| match step {
            Step::Call { .. } => {}
            Step::Loop(inner) => places.push(inner.predicate),
            Step::Kernel { args, .. } => places.extend(args),
            Step::Copy { from, to, .. } => places.extend([from, to]),
            Step::Branch { selector, .. } => places.push(*selector),
        });
    }

    fn each(&self, visit: &mut dyn FnMut(&Step)) {
        each(&self.condition, visit);
        each(&self.body, visit);
    }
}

/// Visits steps, including nested ones.
fn each(steps: &[Step], visit: &mut dyn FnMut(&Step)) {
    for step in steps {
        visit(step);
        match step {
            Step::Loop(inner) => inner.each(visit),
            Step::Branch { branches, .. } => {
                for branch in branches {
                    each(branch, visit);
                }
            }
            Step::Kernel { .. } | Step::Call { .. } | Step::Copy { .. } => {}
        }
    }
}

impl Emitter<'_, '_> {
    /// Loads the promoted elements.
    fn promote(&mut self) -> Result<(), Error> {
        for promoted in self.promoted {
            let Element { at, ty, .. } = promoted.element;
            let (address, offset) = self.address_of(at)?;
            let flags = MemFlagsData::trusted();
            let value = self.builder.ins().load(ty, flags, address, offset);
            let variable = self.builder.declare_var(ty);
            self.builder.def_var(variable, value);
            self.registers.declare(at, variable, ty);
        }
        Ok(())
    }

    /// Stores the promoted elements that code after the loop may read from memory.
    fn store_back(&mut self) -> Result<(), Error> {
        for promoted in self.promoted {
            let Element { at, ty, .. } = promoted.element;
            if !promoted.stored {
                continue;
            }
            let (address, offset) = self.address_of(at)?;
            if let Some(value) = self.registers.load(self.builder, at, ty) {
                let flags = MemFlagsData::trusted();
                self.builder.ins().store(flags, value, address, offset);
            }
        }
        Ok(())
    }

    /// The nearest known address at or before a location, and the distance from it.
    fn address_of(&self, at: Location) -> Result<(Value, i32), Error> {
        let before = self.addresses.iter().filter_map(|(&place, &address)| {
            let from = self.places.get(place)?;
            let offset = at.offset.checked_sub(from.offset)?;
            (from.area == at.area).then_some((offset, place, address))
        });
        let nearest = before.min_by_key(|&(offset, place, _)| (offset, place));
        let found =
            nearest.and_then(|(offset, _, address)| Some((address, i32::try_from(offset).ok()?)));
        found.ok_or_else(|| Error::Bug("a promoted element of a loop has no address".to_owned()))
    }

    fn nest(&mut self, nest: &Loop, imports: &mut dyn Imports) -> Result<(), Error> {
        let [header, inside, exit] = [(); 3].map(|()| self.builder.create_block());
        self.builder.ins().jump(header, &[]);
        self.builder.switch_to_block(header);
        self.steps(&nest.condition, imports)?;
        let goes_on = self.load(nest.predicate, types::I8)?;
        self.builder.ins().brif(goes_on, inside, &[], exit, &[]);
        self.builder.switch_to_block(inside);
        let turn = self.builder.create_block();
        // An atomic load is not moved out of the loop.
        let flags = MemFlagsData::trusted();
        let stopped = self.builder.ins().atomic_load(types::I8, flags, self.flag);
        self.builder.ins().brif(stopped, exit, &[], turn, &[]);
        self.builder.switch_to_block(turn);
        self.steps(&nest.body, imports)?;
        self.builder.ins().jump(header, &[]);
        self.builder.switch_to_block(exit);
        Ok(())
    }

    fn steps(&mut self, steps: &[Step], imports: &mut dyn Imports) -> Result<(), Error> {
        for step in steps {
            match step {
                Step::Kernel {
                    kernel,
                    vectors,
                    args,
                } => {
                    let bases = args.iter().map(|&arg| self.address(arg));
                    let bases: Vec<Value> = bases.collect::<Result<_, _>>()?;
                    let places: Vec<Location> = args.iter().map(|&arg| self.places[arg]).collect();
                    let registers = (&self.registers, &places[..]);
                    lower_in_place(kernel, vectors, (bases, registers), self.builder, imports)?;
                }
                Step::Call {
                    kernel,
                    piece,
                    first,
                    part,
                } => {
                    let function = self.functions.get(&(*kernel, *piece)).copied();
                    let function = function.ok_or_else(|| Error::Bug("a call".to_owned()))?;
                    let first = 8 * *first as i64;
                    let args = self.builder.ins().iadd_imm_s(self.table, first);
                    let [begin, end] = part.map(|at| self.builder.ins().iconst(types::I64, at));
                    self.builder.ins().call(function, &[args, begin, end]);
                }
                Step::Copy { from, to, bytes } => self.copy(*from, *to, *bytes)?,
                Step::Branch {
                    selector,
                    is_pred,
                    branches,
                } => self.branch(*selector, *is_pred, branches, imports)?,
                Step::Loop(inner) => self.nest(inner, imports)?,
            }
        }
        Ok(())
    }

    /// A pred selects the first branch if it is true, else the second; an s32 selects the branch
    /// with its number, or the last one if there is none.
    fn branch(
        &mut self,
        selector: usize,
        is_pred: bool,
        branches: &[Vec<Step>],
        imports: &mut dyn Imports,
    ) -> Result<(), Error> {
        let Some((last, others)) = branches.split_last() else {
            return Ok(());
        };
        let ty = if is_pred { types::I8 } else { types::I32 };
        let selector = self.load(selector, ty)?;
        let join = self.builder.create_block();
        for (number, branch) in others.iter().enumerate() {
            let [inside, next] = [(); 2].map(|()| self.builder.create_block());
            let condition = if is_pred {
                IntCC::NotEqual
            } else {
                IntCC::Equal
            };
            let against = if is_pred { 0 } else { number as i64 };
            let taken = self.builder.ins().icmp_imm_s(condition, selector, against);
            self.builder.ins().brif(taken, inside, &[], next, &[]);
            self.builder.switch_to_block(inside);
            self.steps(branch, imports)?;
            self.builder.ins().jump(join, &[]);
            self.builder.switch_to_block(next);
        }
        self.steps(last, imports)?;
        self.builder.ins().jump(join, &[]);
        self.builder.switch_to_block(join);
        Ok(())
    }

    /// Everything is loaded before it is stored: the two may overlap.
    fn copy(&mut self, from: usize, to: usize, bytes: usize) -> Result<(), Error> {
        let places = [from, to].map(|place| self.places[place]);
        let promoted = self.promoted.iter().map(|p| &p.element);
        if let Some(size) = size_of_copied(promoted, places, bytes) {
            return self.copy_elements([from, to], bytes, size);
        }
        let (from, to) = (self.address(from)?, self.address(to)?);
        if bytes > MAX_COPY {
            let size = self.builder.ins().iconst(types::I64, bytes as i64);
            self.builder.call_memmove(self.config, to, from, size);
            return Ok(());
        }
        let flags = MemFlagsData::trusted();
        let mut parts: SmallVec<[(Value, i32); 8]> = SmallVec::new();
        let mut at = 0;
        for ty in [types::I64, types::I32, types::I16, types::I8] {
            let size = ty.bytes() as usize;
            while bytes - at >= size {
                let value = self.builder.ins().load(ty, flags, from, at as i32);
                parts.push((value, at as i32));
                at += size;
            }
        }
        for (value, at) in parts {
            self.builder.ins().store(flags, value, to, at);
        }
        Ok(())
    }

    /// Copies elements of a size, some of which are promoted.
    fn copy_elements(&mut self, ends: [usize; 2], bytes: usize, size: usize) -> Result<(), Error> {
        let [from, to] = ends.map(|place| self.places[place]);
        let addresses = [self.address(ends[0])?, self.address(ends[1])?];
        let flags = MemFlagsData::trusted();
        let mut values = Vec::with_capacity(bytes / size);
        for at in (0..bytes).step_by(size) {
            let [source, target] = [from, to].map(|place| Location {
                offset: place.offset + at,
                ..place
            });
            let known = |place| self.registers.type_of(place);
            let of_size = Type::int_with_byte_size(size as u16).unwrap_or(types::I64);
            let ty = known(source).or(known(target)).unwrap_or(of_size);
            let value = match self.registers.load(self.builder, source, ty) {
                Some(value) => value,
                None => self.builder.ins().load(ty, flags, addresses[0], at as i32),
            };
            values.push((at, target, value));
        }
        for (at, target, value) in values {
            if !self.registers.store(self.builder, target, value) {
                let address = addresses[1];
                self.builder.ins().store(flags, value, address, at as i32);
            }
        }
        Ok(())
    }

    /// Loads the value at a place.
    fn load(&mut self, place: usize, ty: Type) -> Result<Value, Error> {
        let at = self.places[place];
        if let Some(value) = self.registers.load(self.builder, at, ty) {
            return Ok(value);
        }
        let address = self.address(place)?;
        let flags = MemFlagsData::trusted();
        Ok(self.builder.ins().load(ty, flags, address, 0))
    }

    fn address(&self, place: usize) -> Result<Value, Error> {
        let known = self.addresses.get(&place).copied();
        known.ok_or_else(|| {
            Error::Bug("an outlined loop uses an address that was not computed".to_owned())
        })
    }
}
