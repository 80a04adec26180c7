//! Steps that are calls: of routines of `crates/rt`, with a description in words and the addresses
//! of their arrays, and of functions that the user supplies when linking the object.

use super::{Driver, WORD, bug, prepared_offset};
use crate::error::Error;
use crate::image::libcalls::Helper;
use crate::image::{FunctionId, constant_address};
use crate::object::arrays::{ArrayCall, Data};
use crate::object::calls::open_convolution::{Function, OpenConvolution};
use crate::object::calls::{Call, Calls, Convolved, Images, Prepared, Repair};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use tegula_expr::Term;
use tegula_ir::{CustomCall, ElementType};
use tegula_plan::ValueId;
use tegula_rt::Kind;

impl Driver<'_, '_> {
    pub(super) fn is_called(&self, results: &[ValueId]) -> bool {
        let calls = &self.library.calls;
        results
            .first()
            .is_some_and(|result| calls.contains_key(result))
    }

    /// Emits a step that consists of calls of routines.
    pub(super) fn routines(
        &mut self,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Result<(), Error> {
        let &[out, ..] = results else {
            return Err(bug("a call"));
        };
        // Taken out while it is emitted, and put back afterwards.
        let calls = self
            .library
            .calls
            .remove(&out)
            .ok_or_else(|| bug("a call"))?;
        match (&calls, operands) {
            (Calls::Array(call), _) => self.array_call(call, operands, results)?,
            (Calls::Product(call), &[lhs, rhs, ref added @ ..]) => {
                if let Some(&added) = added.first() {
                    self.copy(added, out)?;
                }
                let scratch = self.scratch.unwrap_or(self.arena);
                let addresses = self.three_addresses([lhs, rhs, out])?;
                self.product(call, addresses, scratch)?;
            }
            (Calls::Convolution(convolved), &[input, kernel]) => {
                let addresses = self.three_addresses([input, kernel, out])?;
                self.convolution(convolved, addresses)?;
            }
            (Calls::OpenConvolution(call), &[input, kernel]) => {
                let addresses = self.three_addresses([input, kernel, out])?;
                self.open_convolution(call, addresses)?;
            }
            _ => return Err(bug("a call")),
        }
        self.library.calls.insert(out, calls);
        Ok(())
    }

    /// Emits the call of a routine on whole arrays.
    fn array_call(
        &mut self,
        call: &ArrayCall,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Result<(), Error> {
        let mut words = self.words(&call.words)?;
        let mut data = match call.data {
            Data::Nothing => self.builder.ins().iconst(types::I64, 0),
            Data::Constant(number) => self.constant(number),
            Data::Sort => {
                let functions = results.first().and_then(|out| self.code.sorts.get(out));
                let &(comparator, key) = functions.ok_or_else(|| bug("a sort"))?;
                let comparator = self.function_address(comparator);
                let key = key.map(|key| self.function_address(key));
                let both: Vec<Value> = [comparator].into_iter().chain(key).collect();
                self.table_of(&both)
            }
        };
        for few in &call.for_few {
            let lines = self.term(&few.lines);
            let above = self.builder.ins().iadd_imm_s(lines, -few.least);
            let range = few.most - few.least;
            let ins = self.builder.ins();
            let suits = ins.icmp_imm_s(IntCC::UnsignedLessThanOrEqual, above, range);
            let (others, constant) = (self.words(&few.words)?, self.constant(few.constant));
            words = self.builder.ins().select(suits, others, words);
            data = self.builder.ins().select(suits, constant, data);
        }
        let (given, gives) = (self.addresses(operands)?, self.addresses(results)?);
        let scratch = self.scratch.unwrap_or(self.arena);
        let args = [words, data, given, gives, scratch];
        self.call(call.routine, &[types::I64; 5], &[], &args);
        Ok(())
    }

    /// The address of one of the program's functions.
    fn function_address(&mut self, id: FunctionId) -> Value {
        let function = self.function(id);
        self.builder.ins().func_addr(types::I64, function)
    }

    fn three_addresses(&mut self, [a, b, c]: [ValueId; 3]) -> Result<[Value; 3], Error> {
        Ok([self.address(a)?, self.address(b)?, self.address(c)?])
    }

    /// The address of a table with the addresses of values.
    fn addresses(&mut self, values: &[ValueId]) -> Result<Value, Error> {
        let all: Result<Vec<Value>, Error> =
            values.iter().map(|&value| self.address(value)).collect();
        Ok(self.table_of(&all?))
    }

    /// The address of a table of words on the stack.
    pub(super) fn table_of(&mut self, words: &[Value]) -> Value {
        let bytes = (WORD * words.len().max(1)) as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
        let slot = self.builder.create_sized_stack_slot(slot);
        for (number, &word) in words.iter().enumerate() {
            let at = (WORD * number) as i32;
            self.builder.ins().stack_store(types::I64, word, slot, at);
        }
        self.builder.ins().stack_addr(types::I64, slot, 0)
    }

    fn convolution(
        &mut self,
        convolved: &Convolved,
        [input, kernel, out]: [Value; 3],
    ) -> Result<(), Error> {
        match &convolved.images {
            Some(images) => self.images(convolved, images, [input, kernel, out])?,
            None => self.products(convolved, [input, kernel, out])?,
        }
        match &convolved.repair {
            Some(repair) => self.repair(repair, kernel, out),
            None => Ok(()),
        }
    }

    /// Emits a convolution with open sizes.
    fn open_convolution(
        &mut self,
        call: &OpenConvolution,
        [input, kernel, out]: [Value; 3],
    ) -> Result<(), Error> {
        let words = self.words(&call.words)?;
        let functions = self.function_table(&call.functions);
        let scratch = self.scratch.unwrap_or(self.arena);
        let args = [words, functions, input, kernel, out, scratch];
        let (params, returns) = (&[types::I64; 6], &[types::I64]);
        let status = self.call("tegula_rt_convolution", params, returns, &args);
        let status = status.ok_or_else(|| bug("a convolution"))?;
        let [instead, computed, check, done] = [(); 4].map(|()| self.builder.create_block());
        let is_none = self.builder.ins().icmp_imm_s(IntCC::Equal, status, 2);
        self.builder
            .ins()
            .brif(is_none, instead, &[], computed, &[]);
        self.builder.switch_to_block(instead);
        self.inside(std::slice::from_ref(&call.instead))?;
        self.builder.ins().jump(done, &[]);
        self.builder.switch_to_block(computed);
        self.builder.ins().brif(status, check, &[], done, &[]);
        self.builder.switch_to_block(check);
        if let Some(repair) = &call.repair {
            let known = self.terms.clone();
            self.repair(repair, kernel, out)?;
            self.terms = known;
        }
        self.builder.ins().jump(done, &[]);
        self.builder.switch_to_block(done);
        Ok(())
    }

    /// The address of a table with the addresses of routines.
    pub(super) fn function_table(&mut self, functions: &[Function]) -> Value {
        let addresses = functions.iter().map(|&(name, params, returns)| {
            let routine = Helper {
                name,
                address: std::ptr::null(),
                params,
                returns,
            };
            let routine = self.image.refer_to_routine(&routine, self.builder.func);
            self.builder.ins().func_addr(types::I64, routine)
        });
        let addresses: Vec<Value> = addresses.collect();
        self.table_of(&addresses)
    }

    /// Emits a loop that computes a convolution image by image.
    fn images(
        &mut self,
        convolved: &Convolved,
        images: &Images,
        [input, kernel, out]: [Value; 3],
    ) -> Result<(), Error> {
        let count = self.term(&images.count);
        let [head, inside, exit] = [(); 3].map(|()| self.builder.create_block());
        let [left, from, to] = [(); 3].map(|()| self.builder.append_block_param(head, types::I64));
        self.builder
            .ins()
            .jump(head, &[count, input, out].map(Into::into));
        self.builder.switch_to_block(head);
        let more = self
            .builder
            .ins()
            .icmp_imm_s(IntCC::SignedGreaterThan, left, 0);
        self.builder.ins().brif(more, inside, &[], exit, &[]);
        self.builder.switch_to_block(inside);
        // Terms that are computed inside are not available after the loop.
        let known = self.terms.clone();
        self.products(convolved, [from, kernel, to])?;
        self.terms = known;
        let left = self.builder.ins().iadd_imm_s(left, -1);
        let [from, to] = [(from, 0), (to, 1)]
            .map(|(at, array)| self.builder.ins().iadd_imm_s(at, images.bytes[array]));
        self.builder
            .ins()
            .jump(head, &[left, from, to].map(Into::into));
        self.builder.switch_to_block(exit);
        Ok(())
    }

    /// Emits the products of a convolution, which may read a copy with a border.
    fn products(
        &mut self,
        convolved: &Convolved,
        [input, kernel, out]: [Value; 3],
    ) -> Result<(), Error> {
        let mut scratch = self.scratch.unwrap_or(self.arena);
        let mut base = input;
        if let Some((words, bytes)) = &convolved.padding {
            let words = self
                .library
                .constant(words)
                .ok_or_else(|| bug("a border"))?;
            let words = constant_address(self.builder, words as u32);
            self.call(
                "tegula_rt_pad",
                &[types::I64; 3],
                &[],
                &[words, input, scratch],
            );
            base = scratch;
            scratch = self.builder.ins().iadd_imm_s(scratch, *bytes as i64);
        }
        for product in &convolved.products {
            self.product(product, [base, kernel, out], scratch)?;
        }
        Ok(())
    }

    /// Recomputes a result that has NaN if the kernel is not finite.
    fn repair(&mut self, repair: &Repair, kernel: Value, out: Value) -> Result<(), Error> {
        let [again, done] = [(); 2].map(|()| self.builder.create_block());
        let [of_kernel, of_out] = repair.elements.each_ref().map(|count| self.term(count));
        let [kernel_type, out_type] = repair.types;
        let mut arrays = [
            (kernel, of_kernel, kernel_type, 0),
            (out, of_out, out_type, 1),
        ];
        // The smaller array is examined first, which is usually sufficient.
        let known = repair.elements.each_ref().map(Term::as_constant);
        if let [Some(of_kernel), Some(of_out)] = known
            && of_kernel >= of_out
        {
            arrays.reverse();
        }
        for (array, count, ty, beyond) in arrays {
            let (routine, infinity) = match ty {
                ElementType::F64 => ("tegula_rt_special_64", f64::INFINITY.to_bits() as i64),
                ElementType::F32 => ("tegula_rt_special_32", i64::from(f32::INFINITY.to_bits())),
                ElementType::BF16 => ("tegula_rt_special_16", 0x7f80),
                _ => ("tegula_rt_special_16", 0x7c00),
            };
            let first = self.builder.ins().iconst(types::I64, infinity + beyond);
            let (params, returns) = (&[types::I64; 3], &[types::I64]);
            let any = self.call(routine, params, returns, &[array, count, first]);
            let any = any.ok_or_else(|| bug("a check"))?;
            let next = self.builder.create_block();
            self.builder.ins().brif(any, next, &[], done, &[]);
            self.builder.switch_to_block(next);
        }
        self.builder.ins().jump(again, &[]);
        self.builder.switch_to_block(again);
        self.inside(std::slice::from_ref(&repair.step))?;
        self.builder.ins().jump(done, &[]);
        self.builder.switch_to_block(done);
        Ok(())
    }

    /// Calls a function that the user supplies when linking the object:
    /// `int32_t TARGET(const void *const *operands, void *const *results, const int64_t *sizes,
    /// const char *config)`. A return value other than 0 ends the run. Operands that share memory
    /// with results are first copied there.
    pub(super) fn custom_call(
        &mut self,
        call: &CustomCall,
        number: usize,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Result<(), Error> {
        let mut places = operands.to_vec();
        for (operand, result) in call.in_place() {
            let place = places.get_mut(operand).zip(results.get(result));
            let (place, &result) = place.ok_or_else(|| {
                bug("a custom call works in place on an operand or result that does not exist")
            })?;
            self.copy(*place, result)?;
            *place = result;
        }
        let given = self.addresses(&places)?;
        let gives = self.addresses(results)?;
        let dims = operands.iter().chain(results).flat_map(|&value| {
            let shape = &self.plan.values[value].shape;
            shape.dims.iter().map(tegula_ir::Dim::term)
        });
        let sizes: Vec<Term> = dims.collect();
        let sizes = self.words(&sizes)?;
        let config = call.extra.iter().rev();
        let mut config = config.filter(|(name, _)| &**name == "backend_config");
        let config = config.next().map_or("", |(_, text)| &**text);
        let config = self.library.text(config).ok_or_else(|| bug("a text"))?;
        let config = constant_address(self.builder, config as u32);
        let (image, builder) = (&mut *self.image, &mut *self.builder);
        let signature = (&[types::I64; 4][..], &[types::I32][..]);
        let function = image.refer_to_outside(&call.target, signature, builder.func);
        let called = builder.ins().call(function, &[given, gives, sizes, config]);
        let status = builder.inst_results(called)[0];
        let [fails, on] = [(); 2].map(|()| builder.create_block());
        builder.ins().brif(status, fails, &[], on, &[]);
        builder.switch_to_block(fails);
        let status = (self.checks + 1 + number) as i64;
        let status = builder.ins().iconst(types::I32, status);
        builder.ins().return_(&[status]);
        builder.switch_to_block(on);
        Ok(())
    }

    /// Emits the call of one product.
    fn product(
        &mut self,
        call: &Call,
        [lhs, rhs, out]: [Value; 3],
        scratch: Value,
    ) -> Result<(), Error> {
        let kept = match call.kept {
            Some((constant, before)) => {
                let start = self.constant(constant);
                self.builder.ins().iadd_imm_s(start, before as i64)
            }
            None => self.builder.ins().iconst(types::I64, 0),
        };
        let (routine, first, scratch) = match (call.kind, call.prepared) {
            (Kind::Product, Some(number)) => {
                let ready = self.prepared.get(number).copied();
                let ready = ready.ok_or_else(|| bug("a prepared product was not set up"))?;
                ("tegula_rt_product", ready, scratch)
            }
            (Kind::Product, None) => {
                let words = self.words(&call.words)?;
                let taken = self.make_ready(call.routine, words, scratch)?;
                let rest = self.builder.ins().iadd(scratch, taken);
                ("tegula_rt_product", scratch, rest)
            }
            _ => (call.routine, self.words(&call.words)?, scratch),
        };
        let args = [first, lhs, rhs, kept, out, scratch];
        self.call(routine, &[types::I64; 6], &[], &args);
        Ok(())
    }

    /// Prepares a product in memory; returns the bytes that this takes.
    fn make_ready(
        &mut self,
        routine: &'static str,
        words: Value,
        memory: Value,
    ) -> Result<Value, Error> {
        let (params, returns) = (&[types::I64; 2], &[types::I64]);
        let taken = self.call(routine, params, returns, &[words, memory]);
        taken.ok_or_else(|| bug("a product"))
    }

    /// Prepares the products that are computed several times.
    pub(super) fn prepare(&mut self) -> Result<(), Error> {
        if self.library.ready.all.is_empty() {
            return Ok(());
        }
        let start = self.term(&prepared_offset(self.plan));
        let start = self.builder.ins().iadd(self.arena, start);
        for number in 0..self.library.ready.all.len() {
            let Prepared {
                routine,
                ref words,
                offset,
            } = self.library.ready.all[number];
            let words: Vec<Term> = words.iter().copied().map(Term::constant).collect();
            let words = self.words(&words)?;
            let memory = self.builder.ins().iadd_imm_s(start, offset as i64);
            self.make_ready(routine, words, memory)?;
            self.prepared.push(memory);
        }
        Ok(())
    }

    /// The address of a call's description: a constant, or words on the stack.
    pub(super) fn words(&mut self, words: &[Term]) -> Result<Value, Error> {
        let known: Option<Vec<i64>> = words.iter().map(Term::as_constant).collect();
        if let Some(known) = known {
            let constant = self.library.constant(&known).ok_or_else(|| bug("a call"))?;
            return Ok(constant_address(self.builder, constant as u32));
        }
        let words: Vec<Value> = words.iter().map(|word| self.term(word)).collect();
        Ok(self.table_of(&words))
    }

    /// Calls a routine; returns its result, if it has one.
    pub(super) fn call(
        &mut self,
        name: &'static str,
        params: &'static [types::Type],
        returns: &'static [types::Type],
        args: &[Value],
    ) -> Option<Value> {
        let routine = Helper {
            name,
            address: std::ptr::null(),
            params,
            returns,
        };
        let routine = self.image.refer_to_routine(&routine, self.builder.func);
        let call = self.builder.ins().call(routine, args);
        self.builder.inst_results(call).first().copied()
    }
}
