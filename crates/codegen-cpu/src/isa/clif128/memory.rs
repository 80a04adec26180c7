//! Loads and stores: of whole vectors, of single lanes, and of a few lanes under a mask.

use super::{Emitter, LANES, Parts, bytes_of, parts_of, scalar_type, vector_type};
use crate::simd::ir::{Storage, Type, V};
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value, types};
use smallvec::{SmallVec, smallvec};

/// Flags of accesses that may be unaligned and do not trap.
fn unaligned() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Emitter<'_, '_> {
    /// The address of the vector's first lane.
    pub(super) fn address(&mut self, access: u32) -> Value {
        let a = self.body.accesses[access as usize];
        let pointer = self.pointers[access as usize];
        if a.splat {
            return pointer;
        }
        let shift = i64::from(a.storage.bytes.trailing_zeros());
        let offset = self.builder.ins().ishl_imm_s(self.lane, shift);
        self.builder.ins().iadd(pointer, offset)
    }

    /// The address of one lane.
    pub(super) fn lane_address(&mut self, access: u32, index: Option<V>, lane: u8) -> Value {
        let a = self.body.accesses[access as usize];
        let bytes = i64::from(a.storage.bytes);
        match index {
            None if a.splat => self.pointers[access as usize],
            None => {
                let first = self.address(access);
                self.builder
                    .ins()
                    .iadd_imm_s(first, bytes * i64::from(lane))
            }
            Some(index) => {
                let index = self.one(index);
                let index = self.builder.ins().extractlane(index, lane);
                let index = self.builder.ins().sextend(types::I64, index);
                let offset = self
                    .builder
                    .ins()
                    .ishl_imm_s(index, i64::from(bytes.trailing_zeros()));
                self.builder
                    .ins()
                    .iadd(self.pointers[access as usize], offset)
            }
        }
    }

    pub(super) fn load(
        &mut self,
        access: u32,
        ty: Type,
        index: Option<V>,
        mask: Option<V>,
    ) -> Parts {
        let a = self.body.accesses[access as usize];
        if index.is_none() && a.splat && mask.is_none() {
            let address = self.address(access);
            let scalar = self.load_scalar(a.storage, ty, address);
            let value = self.builder.ins().splat(vector_type(ty), scalar);
            return SmallVec::from_elem(value, parts_of(ty));
        }
        let mask = self.effective(mask);
        match mask {
            None if index.is_none() => self.load_all(access, ty),
            Some(mask) if index.is_none() && !a.splat && self.tail.is_none() => {
                self.load_all_or_lanes(access, ty, mask)
            }
            _ => self.load_lanes(access, ty, index, mask),
        }
    }

    /// Loads a whole vector if all lanes are active, else lane by lane.
    pub(super) fn load_all_or_lanes(&mut self, access: u32, ty: Type, mask: Value) -> Parts {
        let [all, some, join] = [(); 3].map(|()| self.builder.create_block());
        for _ in 0..parts_of(ty) {
            self.builder.append_block_param(join, vector_type(ty));
        }
        let full = self.builder.ins().vall_true(mask);
        self.builder.ins().brif(full, all, &[], some, &[]);
        for block in [all, some] {
            self.builder.switch_to_block(block);
            self.builder.seal_block(block);
            let parts = match block == all {
                true => self.load_all(access, ty),
                false => self.load_lanes(access, ty, None, Some(mask)),
            };
            let parts: Vec<BlockArg> = parts.into_iter().map(BlockArg::from).collect();
            self.builder.ins().jump(join, &parts);
        }
        self.builder.switch_to_block(join);
        self.builder.seal_block(join);
        self.builder.block_params(join).into()
    }

    pub(super) fn load_all(&mut self, access: u32, ty: Type) -> Parts {
        let a = self.body.accesses[access as usize];
        let address = self.address(access);
        match a.storage.bytes {
            1 => smallvec![self.load_bytes(address, a.storage.signed)],
            2 if a.storage.signed => {
                smallvec![self.builder.ins().sload16x4(unaligned(), address, 0)]
            }
            2 => smallvec![self.builder.ins().uload16x4(unaligned(), address, 0)],
            _ => (0..parts_of(ty))
                .map(|i| {
                    self.builder
                        .ins()
                        .load(vector_type(ty), unaligned(), address, 16 * i as i32)
                })
                .collect(),
        }
    }

    pub(super) fn load_bytes(&mut self, address: Value, signed: bool) -> Value {
        let word = self.builder.ins().load(types::I32, unaligned(), address, 0);
        let vector = self.builder.ins().scalar_to_vector(types::I32X4, word);
        let bytes = self.bitcast(types::I8X16, vector);
        if signed {
            let halves = self.builder.ins().swiden_low(bytes);
            return self.builder.ins().swiden_low(halves);
        }
        let halves = self.builder.ins().uwiden_low(bytes);
        self.builder.ins().uwiden_low(halves)
    }

    pub(super) fn load_scalar(&mut self, storage: Storage, ty: Type, address: Value) -> Value {
        let narrow = match storage.bytes {
            1 => types::I8,
            2 => types::I16,
            _ => {
                return self
                    .builder
                    .ins()
                    .load(scalar_type(ty), unaligned(), address, 0);
            }
        };
        let value = self.builder.ins().load(narrow, unaligned(), address, 0);
        if storage.signed {
            self.builder.ins().sextend(types::I32, value)
        } else {
            self.builder.ins().uextend(types::I32, value)
        }
    }

    /// Loads lane by lane; an inactive lane loads from the safe address, and is 0.
    pub(super) fn load_lanes(
        &mut self,
        access: u32,
        ty: Type,
        index: Option<V>,
        mask: Option<Value>,
    ) -> Parts {
        self.load_parts_of_lanes((access, 0), ty, index, mask)
    }

    /// Loads lane by lane, each at a byte offset from the start of its element.
    fn load_parts_of_lanes(
        &mut self,
        (access, offset): (u32, i64),
        ty: Type,
        index: Option<V>,
        mask: Option<Value>,
    ) -> Parts {
        let storage = self.body.accesses[access as usize].storage;
        let zero = self.constant(ty, 0);
        let mut out = zero.clone();
        for lane in 0..LANES as u8 {
            let mut address = self.lane_address(access, index, lane);
            if offset != 0 {
                address = self.builder.ins().iadd_imm_s(address, offset);
            }
            if let Some(mask) = mask {
                let bit = self.builder.ins().extractlane(mask, lane);
                address = self.builder.ins().select(bit, address, self.safe);
            }
            let value = self.load_scalar(storage, ty, address);
            self.set_lane(ty, &mut out, lane, value);
        }
        match mask {
            Some(mask) => self.select(mask, ty, &out, &zero),
            None => out,
        }
    }

    /// One half of pairs: 64-bit ones are loaded as words.
    pub(super) fn load_half(&mut self, access: u32, high: bool, mask: Option<V>) -> Parts {
        if self.body.accesses[access as usize].storage.bytes == 16 {
            let mask = self.effective(mask);
            let offset = if high { 8 } else { 0 };
            return self.load_parts_of_lanes((access, offset), Type::F64, None, mask);
        }
        let pairs = self.load(access, Type::I64, None, mask);
        let first = if high { 4 } else { 0 };
        let words = [first, first + 8, first + 16, first + 24];
        let half = self.shuffle(pairs[0], pairs[1], bytes_of(words, 4));
        smallvec![self.bitcast(types::F32X4, half)]
    }

    pub(super) fn store_pair(&mut self, access: u32, halves: [V; 2], mask: Option<V>) {
        if self.body.accesses[access as usize].storage.bytes == 16 {
            let mask = self.effective(mask);
            for (half, offset) in halves.into_iter().zip([0, 8]) {
                let parts = self.parts(half);
                self.store_parts_of_lanes((access, offset), Type::F64, &parts, None, mask);
            }
            return;
        }
        let [low, high] = halves.map(|v| self.one(v));
        let pairs = [[0, 16, 4, 20], [8, 24, 12, 28]].map(|words| {
            let pair = self.shuffle(low, high, bytes_of(words, 4));
            self.bitcast(types::I64X2, pair)
        });
        self.store_parts(access, Type::I64, &SmallVec::from_slice(&pairs), None, mask);
    }

    pub(super) fn store(&mut self, access: u32, value: V, index: Option<V>, mask: Option<V>) {
        let parts = self.parts(value);
        self.store_parts(access, self.body.type_of(value), &parts, index, mask);
    }

    fn store_parts(
        &mut self,
        access: u32,
        ty: Type,
        parts: &Parts,
        index: Option<V>,
        mask: Option<V>,
    ) {
        let storage = self.body.accesses[access as usize].storage;
        let mask = self.effective(mask);
        match mask {
            None if index.is_none() => self.store_all(access, storage, parts),
            Some(mask) if index.is_none() && self.tail.is_none() => {
                let [all, some, join] = [(); 3].map(|()| self.builder.create_block());
                let full = self.builder.ins().vall_true(mask);
                self.builder.ins().brif(full, all, &[], some, &[]);
                self.builder.switch_to_block(all);
                self.builder.seal_block(all);
                self.store_all(access, storage, parts);
                self.builder.ins().jump(join, &[]);
                self.builder.switch_to_block(some);
                self.builder.seal_block(some);
                self.store_lanes(access, ty, parts, None, Some(mask));
                self.builder.ins().jump(join, &[]);
                self.builder.switch_to_block(join);
                self.builder.seal_block(join);
            }
            _ => self.store_lanes(access, ty, parts, index, mask),
        }
    }

    pub(super) fn store_all(&mut self, access: u32, storage: Storage, parts: &Parts) {
        let address = self.address(access);
        match storage.bytes {
            1 => {
                let packed = self.shuffle(parts[0], parts[0], bytes_of([0, 4, 8, 12], 1));
                let packed = self.bitcast(types::I32X4, packed);
                let word = self.builder.ins().extractlane(packed, 0);
                self.builder.ins().store(unaligned(), word, address, 0);
            }
            2 => {
                let packed = self.shuffle(parts[0], parts[0], bytes_of([0, 4, 8, 12], 2));
                let packed = self.bitcast(types::I64X2, packed);
                let word = self.builder.ins().extractlane(packed, 0);
                self.builder.ins().store(unaligned(), word, address, 0);
            }
            _ => {
                for (i, &part) in parts.iter().enumerate() {
                    self.builder
                        .ins()
                        .store(unaligned(), part, address, 16 * i as i32);
                }
            }
        }
    }

    pub(super) fn store_lanes(
        &mut self,
        access: u32,
        ty: Type,
        parts: &Parts,
        index: Option<V>,
        mask: Option<Value>,
    ) {
        self.store_parts_of_lanes((access, 0), ty, parts, index, mask);
    }

    /// Stores lane by lane, each at a byte offset from the start of its element.
    fn store_parts_of_lanes(
        &mut self,
        (access, offset): (u32, i32),
        ty: Type,
        parts: &Parts,
        index: Option<V>,
        mask: Option<Value>,
    ) {
        let storage = self.body.accesses[access as usize].storage;
        for lane in 0..LANES as u8 {
            let address = self.lane_address(access, index, lane);
            let value = self.lane_of(ty, parts, lane);
            let done = self.builder.create_block();
            if let Some(mask) = mask {
                let bit = self.builder.ins().extractlane(mask, lane);
                let there = self.builder.create_block();
                self.builder.ins().brif(bit, there, &[], done, &[]);
                self.builder.switch_to_block(there);
                self.builder.seal_block(there);
            }
            let value = match storage.bytes {
                1 => self.builder.ins().ireduce(types::I8, value),
                2 => self.builder.ins().ireduce(types::I16, value),
                _ => value,
            };
            self.builder
                .ins()
                .store(unaligned(), value, address, offset);
            self.builder.ins().jump(done, &[]);
            self.builder.switch_to_block(done);
            self.builder.seal_block(done);
        }
    }
}
