//! Loops and branches. A loop's state is swapped with the next one, not copied, as in a run
//! ([`double_buffer`]): two block parameters hold the addresses of both memories.

use super::{Driver, bug};
use crate::compile::LoopFunction;
use crate::error::Error;
use crate::program::double_buffer;
use crate::program::effects::{location, span};
use crate::program::ir::{Area, Exchange, Location};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value, types};
use tegula_ir::ElementType;
use tegula_plan::{Step, ValueId};

impl Driver<'_, '_> {
    pub(super) fn while_loop(
        &mut self,
        condition: &[Step],
        predicate: ValueId,
        body: &[Step],
    ) -> Result<(), Error> {
        let is_slice = |value| self.slices.entry(value).is_some();
        let exchanges = double_buffer::find(self.plan, [condition, body], is_slice);
        let [head, inside, exit] = [(); 3].map(|()| self.builder.create_block());
        // For each exchange, the addresses of the state and the next one: initially, and in an
        // iteration.
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

    /// Calls the function of an outlined loop.
    pub(super) fn loop_function(&mut self, looped: &LoopFunction) -> Result<(), Error> {
        let places = looped.table.iter().map(|&place| match place.area {
            Area::Exchanged(slice) => self.slice_addresses.get(&slice).copied(),
            _ => self.address_of(place),
        });
        let addresses: Option<Vec<Value>> = places.collect();
        let table = self.table_of(&addresses.ok_or_else(|| bug("a loop's table"))?);
        // Calls of an object cannot be stopped.
        let flag = self.builder.ins().iconst(types::I64, 0);
        let flag = self.table_of(&[flag]);
        let function = self.function(looped.function);
        let unused = self.builder.ins().iconst(types::I64, 0);
        self.builder.ins().call(function, &[table, flag, unused]);
        Ok(())
    }

    /// Copies the state back if a loop left it in the other buffer.
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

    /// The address of the buffer that begins at a location.
    fn address_of(&self, place: Location) -> Option<Value> {
        let mut buffers = self.plan.buffers.iter();
        let (id, _) = buffers.find(|(_, buffer)| location(&buffer.place) == Some(place))?;
        self.buffers.get(&id).copied()
    }

    /// Sets the addresses of all buffers in an exchange's memory to the current ones.
    fn lead(&mut self, exchange: &Exchange, now: [Value; 2]) {
        for (id, buffer) in &self.plan.buffers {
            let Some(own) = location(&buffer.place) else {
                continue;
            };
            if let Some((number, offset)) = exchange.part(own) {
                let address = match offset {
                    0 => now[number],
                    _ => self.builder.ins().iadd_imm_s(now[number], offset as i64),
                };
                self.buffers.insert(id, address);
            }
        }
    }

    /// Whether a step is the copy that an exchange replaces.
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
            // Branch 0 is taken if the selector is true.
            true => {
                let truth = self.builder.ins().load(types::I8, flags, address, 0);
                let not = self.builder.ins().icmp_imm_s(IntCC::Equal, truth, 0);
                self.builder.ins().uextend(types::I32, not)
            }
            false => self.builder.ins().load(types::I32, flags, address, 0),
        };
        let exit = self.builder.create_block();
        for (number, steps) in branches.iter().enumerate() {
            // The last branch is also taken for every other number.
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
