//! Runs SIMD bodies with the interpreter and with every lowering, for tests.

use super::builder::Builder;
use super::interpreter::{Machine, evaluate};
use super::ir::{Access, Body, Input, Storage, Type, V};
use super::mathlib::sine_table;
use super::row_addressing::RowsIn;
use crate::clif::target::target;
use crate::image::{ImageBuilder, PlacedCode, function};
use crate::isa::clif128;
use crate::isa::x64::{InstructionSet, Wide};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, types};
use tegula_target::{Architecture, IsaLevel};

/// `fn(inputs and then results, lanes)`.
type BodyFn = unsafe extern "C" fn(*mut u64, i64);

enum How {
    Evaluate(Machine),
    Code {
        function: BodyFn,
        _placed: PlacedCode,
    },
}

/// A body that can be run.
pub(crate) struct Compiled {
    /// The name of the lowering.
    pub(crate) name: &'static str,
    how: How,
    body: Body,
}

/// Deterministic random 32-bit numbers.
pub(crate) fn random(mut seed: u64) -> impl FnMut() -> u32 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 32) as u32
    }
}

/// A body that applies `f` to the elements of `arity` arrays and stores the results.
pub(crate) fn elementwise(ty: Type, arity: u32, f: &dyn Fn(&mut Builder, &[V]) -> V) -> Body {
    let mut b = Builder::new();
    let access = |b: &mut Builder| {
        let pointer = b.input(Input::Integer);
        b.access(Access {
            pointer,
            storage: Storage {
                bytes: if ty.is_wide() { 8 } else { 4 },
                signed: false,
            },
            splat: false,
        })
    };
    let operands: Vec<V> = (0..arity)
        .map(|_| {
            let access = access(&mut b);
            b.load(access, ty, None)
        })
        .collect();
    let out = access(&mut b);
    let y = f(&mut b, &operands);
    b.store(out, y, None, None);
    b.finish()
}

/// Places code in memory so that it can be run.
fn placed(code: &[u8]) -> (PlacedCode, *const u8) {
    let mut image = ImageBuilder::new(target(IsaLevel::Native).expect("this machine"));
    let id = image.define_bytes(code, 64).expect("small");
    let placed = PlacedCode::new(image.finish().expect("defined")).expect("placed");
    let address = placed.address(id);
    (placed, address)
}

/// The accesses that store past the caches, if `streams`: only the first array, because the others
/// may be aligned differently. `None` if there is none.
fn streamed(body: &Body, streams: bool) -> Option<Vec<u32>> {
    match streams {
        true => Some(vec![*body.stores_in_order().first()?]),
        false => Some(Vec::new()),
    }
}

/// `fn(slots, lanes, rows)`.
type RowsFn = unsafe extern "C" fn(*mut u64, i64, i64);

/// A body of several rows that can be run.
pub(crate) struct CompiledRows {
    /// The name of the lowering.
    pub(crate) name: &'static str,
    function: RowsFn,
    _placed: PlacedCode,
}

impl CompiledRows {
    /// Compiles by every lowering to our own machine code that this machine can run; `lanes` is the
    /// rows' number of lanes, if known.
    pub(crate) fn all(body: &Body, rows: RowsIn<'_>, lanes: Option<i64>) -> Vec<Self> {
        let sets = [
            (InstructionSet::Avx512, false, "rows with AVX-512"),
            (InstructionSet::Avx512, true, "streamed rows with AVX-512"),
            (InstructionSet::Avx2, false, "rows with AVX2"),
            (InstructionSet::Avx2, true, "streamed rows with AVX2"),
        ];
        let supported = sets.into_iter().filter(|(set, ..)| set.is_supported());
        let compiled = supported.filter_map(|(set, streams, name)| {
            let streamed = &streamed(body, streams)?;
            let (code, _) = Wide::new(set).lower(body, lanes, rows, streamed)?;
            let (placed, address) = placed(&code);
            Some(Self {
                name,
                // SAFETY: the function was compiled with this signature.
                function: unsafe { std::mem::transmute::<*const u8, RowsFn>(address) },
                _placed: placed,
            })
        });
        compiled.collect()
    }

    /// Runs iterations that are rows of `n` lanes, from the slots of the first.
    ///
    /// # Safety
    /// The addresses that the iterations compute are valid for the accesses of `n` lanes.
    pub(crate) unsafe fn run_turns(&self, slots: &mut [u64], n: u64, turns: usize) {
        // SAFETY: the caller promises that the addresses that the iterations compute are valid for
        // the accesses of `n` lanes.
        unsafe { (self.function)(slots.as_mut_ptr(), n.cast_signed(), turns as i64) };
    }

    /// Runs rows of `n` lanes with these inputs; returns the reductions of each.
    ///
    /// # Safety
    /// The addresses among the inputs are valid for the accesses of `n` lanes.
    pub(crate) unsafe fn run(&self, body: &Body, inputs: &[Vec<u64>], n: u64) -> Vec<Vec<u64>> {
        let count = body.reductions.len();
        let mut slots: Vec<u64> = Vec::new();
        for row in inputs {
            slots.extend(row);
            slots.resize(slots.len() + count, 0);
        }
        let (n, rows) = (n.cast_signed(), inputs.len() as i64);
        // SAFETY: the caller promises that the addresses among the inputs are valid for the
        // accesses of `n` lanes; there is space for results.
        unsafe { (self.function)(slots.as_mut_ptr(), n, rows) };
        let words = body.inputs.len() + count;
        let of_row = |row: usize| slots[row * words..][words - count..words].to_vec();
        (0..inputs.len()).map(of_row).collect()
    }
}

impl Compiled {
    /// Compiles for the interpreter and by every lowering that this machine can run.
    pub(crate) fn all(body: &Body) -> Vec<Self> {
        let evaluator = |name, fused| Self {
            name,
            how: How::Evaluate(Machine { fused }),
            body: body.clone(),
        };
        let mut all = vec![
            evaluator("the evaluator", false),
            evaluator("the evaluator, fused", true),
            Self::portable(body, "the oldest machines", Architecture::HERE.levels()[0]),
            Self::portable(body, "the portable lowering", IsaLevel::Native),
        ];
        for (set, streams, name) in [
            (InstructionSet::Avx512, false, "the AVX-512 lowering"),
            (InstructionSet::Avx512, true, "AVX-512 past the caches"),
            (InstructionSet::Avx2, false, "the AVX2 lowering"),
            (InstructionSet::Avx2, true, "AVX2 past the caches"),
        ] {
            if set.is_supported() {
                let streamed = streamed(body, streams);
                all.extend(streamed.and_then(|s| Self::wide(body, set, &s, name)));
            }
        }
        all
    }

    /// Whether it is the interpreter, which runs one lane after the other.
    pub(crate) fn is_evaluator(&self) -> bool {
        matches!(self.how, How::Evaluate(_))
    }

    fn wide(
        body: &Body,
        set: InstructionSet,
        streamed: &[u32],
        name: &'static str,
    ) -> Option<Self> {
        let (code, _) = Wide::new(set).lower(body, None, RowsIn::One, streamed)?;
        let (placed, address) = placed(&code);
        // SAFETY: the function was compiled with this signature.
        let function = unsafe { std::mem::transmute::<*const u8, BodyFn>(address) };
        Some(Self {
            name,
            how: How::Code {
                function,
                _placed: placed,
            },
            body: body.clone(),
        })
    }

    fn portable(body: &Body, name: &'static str, cpu: IsaLevel) -> Self {
        let mut image = ImageBuilder::new(target(cpu).expect("this machine"));
        let abilities = image.abilities();
        let id = function::define(&mut image, (&[types::I64; 2], &[]), |_, builder, given| {
            let (slots, n) = (given[0], given[1]);
            let flags = MemFlagsData::new().with_notrap();
            let inputs: Vec<_> = (0..body.inputs.len())
                .map(|i| builder.ins().load(types::I64, flags, slots, 8 * i as i32))
                .collect();
            let results = clif128::emit(builder, body, &inputs, n, abilities)?;
            for (i, result) in results.into_iter().enumerate() {
                let at = 8 * (inputs.len() + i) as i32;
                let zero = builder.ins().iconst(types::I64, 0);
                builder.ins().store(flags, zero, slots, at);
                builder.ins().store(flags, result, slots, at);
            }
            Ok(None)
        })
        .expect("compiled");
        let placed = PlacedCode::new(image.finish().expect("defined")).expect("placed");
        let address = placed.address(id);
        // SAFETY: the function was defined with this signature.
        let function = unsafe { std::mem::transmute::<*const u8, BodyFn>(address) };
        Self {
            name,
            how: How::Code {
                function,
                _placed: placed,
            },
            body: body.clone(),
        }
    }

    /// The results of an [elementwise] body for arrays whose elements are of its type.
    pub(crate) fn apply<T: Copy + Default>(&self, operands: &[&[T]]) -> Vec<T> {
        let n = operands[0].len();
        assert!(operands.iter().all(|x| x.len() == n));
        let mut out = vec![T::default(); n];
        let mut inputs: Vec<u64> = operands.iter().map(|x| x.as_ptr() as u64).collect();
        inputs.push(out.as_mut_ptr() as u64);
        let tables = self.body.tables.iter();
        inputs.extend(tables.map(|_| sine_table().as_ptr() as u64));
        // SAFETY: the arrays have as many elements as there are lanes.
        unsafe { self.run(&inputs, n as u64) };
        out
    }

    /// Runs `n` lanes; returns the reductions.
    ///
    /// # Safety
    /// The addresses among the inputs are valid for the accesses of `n` lanes.
    pub(crate) unsafe fn run(&self, inputs: &[u64], n: u64) -> Vec<u64> {
        match &self.how {
            // SAFETY: the caller promises that the addresses among the inputs are valid for the
            // accesses of `n` lanes.
            How::Evaluate(machine) => unsafe { evaluate(&self.body, inputs, n, *machine) },
            How::Code { function, .. } => {
                let mut slots = inputs.to_vec();
                slots.resize(inputs.len() + self.body.reductions.len(), 0);
                // SAFETY: the caller promises that the addresses among the inputs are valid for the
                // accesses of `n` lanes; there is space for the results.
                unsafe { function(slots.as_mut_ptr(), n.cast_signed()) };
                slots.split_off(inputs.len())
            }
        }
    }
}
