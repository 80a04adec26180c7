//! Every lowering against the evaluator: each operation on numbers of every kind,
//! at many lengths, with guards around what is written.

use super::body::{
    Access, BinaryOp, Body, Condition, Conversion, Input, Op, Reduction, Storage, Type, UnaryOp, V,
    identity,
};
use super::builder::Builder;
use super::run::Compiled;
use super::wide::InstructionSet;

const LENGTHS: [u64; 23] = [
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 70, 255, 1023, 1024, 1025,
];

/// Bytes before and after an array that must stay as they are.
const GUARD: usize = 64;

fn storage(bytes: u32) -> Storage {
    Storage {
        bytes,
        signed: false,
    }
}

fn pointer(b: &mut Builder, bytes: u32) -> u32 {
    let pointer = b.input(Input::Integer);
    b.access(Access {
        pointer,
        storage: storage(bytes),
        splat: false,
    })
}

fn bytes_of(ty: Type) -> u32 {
    if ty.is_wide() { 8 } else { 4 }
}

/// Loads three arrays of a type, applies, and stores.
fn elementwise(from: Type, f: &dyn Fn(&mut Builder, [V; 3]) -> V) -> Body {
    let mut b = Builder::new();
    let operands = [(); 3].map(|()| {
        let access = pointer(&mut b, bytes_of(from));
        b.load(access, from, None)
    });
    let y = f(&mut b, operands);
    let y = match b.type_of(y) {
        Type::Mask => b.truth(y),
        _ => y,
    };
    let bytes = bytes_of(b.type_of(y));
    let out = pointer(&mut b, bytes);
    b.store(out, y, None, None);
    b.finish()
}

/// Bits of numbers of every kind, in an order that pairs them all.
fn numbers(ty: Type, salt: u64, n: u64) -> Vec<u8> {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        -2.5,
        3.0,
        1e-40,
        -1e-45,
        1e-310,
        3e38,
        -3e38,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        2_147_483_648.0,
        -2_147_483_649.0,
        7.25,
    ];
    let integers = [
        0,
        1,
        2,
        31,
        32,
        33,
        63,
        64,
        255,
        256,
        -1,
        -2,
        i64::MAX,
        i64::MIN,
        0x7fff_ffff,
        0x8000_0000,
        12_345_678_901,
    ];
    let mut out = Vec::new();
    for i in 0..n {
        let random = (i + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(salt.wrapping_mul(0xbf58_476d_1ce4_e5b9));
        let pick = (random >> 33) as usize;
        let special = i % 5 != 4;
        match ty {
            Type::F32 if special => out.extend((floats[pick % 20] as f32).to_le_bytes()),
            Type::F64 if special => out.extend(floats[pick % 20].to_le_bytes()),
            Type::I64 if special => out.extend(integers[pick % 17].to_le_bytes()),
            Type::I32 if special => out.extend((integers[pick % 17] as i32).to_le_bytes()),
            Type::I64 | Type::F64 => out.extend(random.to_le_bytes()),
            _ => out.extend((random as u32).to_le_bytes()),
        }
    }
    out
}

fn same(ty: Type, a: &[u8], b: &[u8]) -> bool {
    let size = bytes_of(ty) as usize;
    a.chunks(size).zip(b.chunks(size)).all(|(a, b)| {
        let nan = |x: &[u8]| match ty {
            Type::F32 => x.try_into().is_ok_and(|x| f32::from_le_bytes(x).is_nan()),
            Type::F64 => x.try_into().is_ok_and(|x| f64::from_le_bytes(x).is_nan()),
            _ => false,
        };
        a == b || nan(a) && nan(b)
    })
}

/// Whether something in it is left to the portable lowering where there is no AVX-512.
fn has_no_avx2_form(body: &Body) -> bool {
    body.values.iter().any(|&(op, to)| match op {
        Op::Convert(conversion, a) => matches!(
            (conversion, body.type_of(a), to),
            (
                Conversion::FromSigned | Conversion::FromUnsigned,
                Type::I64,
                Type::F32
            ) | (Conversion::Truncate, Type::F64, Type::I64)
        ),
        _ => false,
    })
}

/// Runs every lowering at every length and compares with the evaluator's result.
fn check(name: &str, from: Type, body: &Body, arrays: usize) {
    let to = match body.statements.last() {
        Some(super::body::Statement::Store { value, .. }) => body.type_of(*value),
        _ => Type::I32,
    };
    let size = bytes_of(to) as usize;
    let all = Compiled::all(body);
    let wide = InstructionSet::ALL
        .into_iter()
        .filter(|set| set.is_supported());
    let wide = wide.filter(|&set| set == InstructionSet::Avx512 || !has_no_avx2_form(body));
    assert_eq!(all.len(), 4 + wide.count(), "{name}");
    for n in LENGTHS {
        let inputs: Vec<Vec<u8>> = (0..arrays).map(|i| numbers(from, i as u64, n)).collect();
        let mut want = Vec::new();
        for compiled in &all {
            let mut out = vec![0xa5u8; 2 * GUARD + size * n as usize];
            let mut args: Vec<u64> = inputs.iter().map(|i| i.as_ptr() as u64).collect();
            args.push(out[GUARD..].as_mut_ptr() as u64);
            // SAFETY: every array has `n` elements.
            unsafe { compiled.run(&args, n) };
            let (front, rest) = out.split_at(GUARD);
            let (got, back) = rest.split_at(size * n as usize);
            let guarded = front.iter().chain(back).all(|&byte| byte == 0xa5);
            assert!(guarded, "{name} by {} at {n}: out of bounds", compiled.name);
            if want.is_empty() {
                want = got.to_vec();
            }
            assert!(
                same(to, got, &want),
                "{name} by {} at {n}:\n{got:?}\n{want:?}",
                compiled.name
            );
        }
    }
}

const FLOATS: [Type; 2] = [Type::F32, Type::F64];
const INTEGERS: [Type; 2] = [Type::I32, Type::I64];

#[test]
fn operations_on_floats() {
    use BinaryOp as B;
    for ty in FLOATS {
        for op in [
            B::Add,
            B::Sub,
            B::Mul,
            B::Div,
            B::Minimum,
            B::Maximum,
            B::LesserOrSecond,
            B::GreaterOrSecond,
        ] {
            let body = elementwise(ty, &|b, [x, y, _]| b.binary(op, x, y));
            check(&format!("{op:?} of {ty:?}"), ty, &body, 3);
        }
        for op in [
            UnaryOp::Sqrt,
            UnaryOp::Nearest,
            UnaryOp::Floor,
            UnaryOp::Ceil,
            UnaryOp::Trunc,
        ] {
            let body = elementwise(ty, &|b, [x, _, _]| b.unary(op, x));
            check(&format!("{op:?} of {ty:?}"), ty, &body, 3);
        }
    }
}

#[test]
fn quiet_nans_of_another_number() {
    let body = elementwise(Type::F32, &|b, [x, y, _]| {
        b.binary(BinaryOp::UnlessNan, x, y)
    });
    check("a NaN's or a number", Type::F32, &body, 3);
}

#[test]
fn operations_on_integers() {
    use BinaryOp as B;
    for ty in INTEGERS {
        for op in [
            B::Add,
            B::Sub,
            B::Mul,
            B::MinSigned,
            B::MaxSigned,
            B::MinUnsigned,
            B::MaxUnsigned,
            B::And,
            B::Or,
            B::Xor,
            B::ShiftLeft,
            B::ShiftRight,
            B::ShiftRightSigned,
        ] {
            let body = elementwise(ty, &|b, [x, y, _]| b.binary(op, x, y));
            check(&format!("{op:?} of {ty:?}"), ty, &body, 3);
            let body = elementwise(ty, &|b, [x, _, _]| {
                let five = b.integer(ty, 5);
                b.binary(op, x, five)
            });
            check(&format!("{op:?} of {ty:?} and 5"), ty, &body, 3);
        }
        let body = elementwise(ty, &|b, [x, _, _]| b.unary(UnaryOp::AbsInt, x));
        check(&format!("abs of {ty:?}"), ty, &body, 3);
    }
}

#[test]
fn comparisons_selections_and_masks() {
    use Condition as C;
    for ty in FLOATS.into_iter().chain(INTEGERS) {
        let conditions: &[C] = match ty.is_float() {
            true => &[C::Equal, C::NotEqual, C::Less, C::LessEqual, C::Unordered],
            false => &[
                C::Equal,
                C::NotEqual,
                C::Less,
                C::LessEqual,
                C::LessUnsigned,
                C::LessEqualUnsigned,
            ],
        };
        for &condition in conditions {
            let body = elementwise(ty, &|b, [x, y, _]| b.compare(condition, x, y));
            check(&format!("{condition:?} of {ty:?}"), ty, &body, 3);
            let body = elementwise(ty, &|b, [x, y, z]| {
                let (p, q) = (b.compare(condition, x, y), b.compare(condition, z, y));
                let either = b.or(p, q);
                let one = b.xor(p, q);
                let not = b.not(one);
                let mask = b.and(either, not);
                b.select(mask, x, z)
            });
            check(&format!("select by {condition:?} of {ty:?}"), ty, &body, 3);
        }
    }
}

#[test]
fn conversions() {
    use Conversion as C;
    let cases = [
        (C::FromSigned, Type::I32, Type::F32),
        (C::FromUnsigned, Type::I32, Type::F32),
        (C::FromSigned, Type::I32, Type::F64),
        (C::FromUnsigned, Type::I32, Type::F64),
        (C::FromSigned, Type::I64, Type::F64),
        (C::FromUnsigned, Type::I64, Type::F64),
        (C::FromSigned, Type::I64, Type::F32),
        (C::FromUnsigned, Type::I64, Type::F32),
        (C::Float, Type::F32, Type::F64),
        (C::Float, Type::F64, Type::F32),
        (C::ExtendSigned, Type::I32, Type::I64),
        (C::ExtendUnsigned, Type::I32, Type::I64),
        (C::Low, Type::I64, Type::I32),
        (C::Bits, Type::F32, Type::I32),
        (C::Bits, Type::I64, Type::F64),
    ];
    for (conversion, from, to) in cases {
        let body = elementwise(from, &|b, [x, _, _]| b.convert(conversion, x, to));
        check(
            &format!("{conversion:?} {from:?} to {to:?}"),
            from,
            &body,
            3,
        );
    }
    // Out of range, the result is any number.
    for (from, to) in [
        (Type::F32, Type::I32),
        (Type::F64, Type::I32),
        (Type::F64, Type::I64),
    ] {
        let body = elementwise(from, &|b, [x, _, _]| {
            let (low, high) = match from {
                Type::F32 => (b.f32(-1e9), b.f32(1e9)),
                _ => (b.f64(-1e9), b.f64(1e9)),
            };
            let x = b.binary(BinaryOp::GreaterOrSecond, x, low);
            let x = b.binary(BinaryOp::LesserOrSecond, x, high);
            b.convert(Conversion::Truncate, x, to)
        });
        check(&format!("truncate {from:?} to {to:?}"), from, &body, 3);
    }
}

#[test]
fn rare_cases_are_those_of_lanes_that_ask() {
    for ty in FLOATS.into_iter().chain(INTEGERS) {
        let body = elementwise(ty, &|b, [x, y, z]| {
            let asks = b.compare(Condition::Less, x, y);
            let common = b.binary(BinaryOp::Add, x, z);
            let [first, second] = b.rare(asks, [common, z], |b| {
                let product = b.binary(BinaryOp::Mul, y, z);
                let five = match ty {
                    Type::F32 => b.f32(5.0),
                    Type::F64 => b.f64(5.0),
                    _ => b.integer(ty, 5),
                };
                [b.add(product, five), b.sub(y, product)]
            });
            let seldom = b.compare(Condition::Equal, first, x);
            let [third] = b.rare(seldom, [second], |b| [b.add(common, first)]);
            b.binary(BinaryOp::Sub, third, first)
        });
        check(&format!("rare cases of {ty:?}"), ty, &body, 3);
    }
}

/// Long enough to be ordered anew, with more alive than there are registers.
#[test]
fn long_bodies() {
    let body = elementwise(Type::F32, &|b, [x, y, z]| {
        let mut chains: Vec<V> = (0..40)
            .map(|i| {
                let c = b.f32(i as f32 - 20.5);
                let sum = b.add(x, c);
                let product = b.mul(sum, y);
                let less = b.compare(Condition::Less, product, z);
                b.select(less, product, c)
            })
            .collect();
        while let [first, .., last] = chains[..] {
            let sum = b.add(first, last);
            chains.pop();
            chains[0] = sum;
        }
        chains[0]
    });
    assert!(body.values.len() >= 200);
    check("forty chains", Type::F32, &body, 3);
}

#[test]
fn powers_of_two() {
    for ty in FLOATS {
        for exponent in [-150.0, -126.0, -75.0, -1.0, 0.0, 1.0, 63.0, 127.0] {
            let body = elementwise(ty, &|b, [_, y, _]| {
                // Of numbers near 1, as the functions scale them.
                let bits = b.bits(y);
                let (mask, one) = match ty {
                    Type::F32 => (b.i32(0x007f_ffff), b.i32(0x3f80_0000)),
                    _ => (
                        b.constant(Type::I64, (1 << 52) - 1),
                        b.constant(Type::I64, 0x3ff << 52),
                    ),
                };
                let bits = b.and(bits, mask);
                let bits = b.or(bits, one);
                let x = b.bits(bits);
                let n = match ty {
                    Type::F32 => b.f32(exponent as f32),
                    _ => b.f64(exponent),
                };
                b.binary(BinaryOp::Scale, x, n)
            });
            check(&format!("{ty:?} by 2^{exponent}"), ty, &body, 3);
        }
    }
}

#[test]
fn reductions_of_every_length() {
    use BinaryOp as B;
    let cases = [
        (Type::I32, B::Add),
        (Type::I32, B::Xor),
        (Type::I32, B::MaxSigned),
        (Type::I32, B::MinUnsigned),
        (Type::I64, B::Add),
        (Type::I64, B::Mul),
        (Type::I64, B::MinSigned),
        (Type::F32, B::Maximum),
        (Type::F32, B::Minimum),
        (Type::F64, B::Maximum),
    ];
    for (ty, op) in cases {
        let mut b = Builder::new();
        let access = pointer(&mut b, bytes_of(ty));
        let value = b.load(access, ty, None);
        b.body().reductions.push(Reduction { op, value });
        let body = b.finish();
        let all = Compiled::all(&body);
        for n in LENGTHS {
            let input = numbers(ty, 7, n);
            let args = [input.as_ptr() as u64];
            // SAFETY: the array has `n` elements.
            let results: Vec<u64> = all.iter().map(|c| unsafe { c.run(&args, n)[0] }).collect();
            for (compiled, result) in all.iter().zip(&results) {
                let (a, b) = (result.to_le_bytes(), results[0].to_le_bytes());
                let size = bytes_of(ty) as usize;
                assert!(
                    same(ty, &a[..size], &b[..size]),
                    "{op:?} of {ty:?} by {} at {n}: {result:x}",
                    compiled.name
                );
            }
        }
    }
    assert_eq!(identity(B::Add, Type::F32), u64::from((-0f32).to_bits()));
}

/// Narrow elements, masks, gathers, scatters, and a loop over columns.
#[test]
fn memory() {
    for (bytes, signed) in [(1, false), (1, true), (2, false), (2, true), (4, false)] {
        let mut b = Builder::new();
        let narrow = Storage { bytes, signed };
        let from = b.input(Input::Integer);
        let from = b.access(Access {
            pointer: from,
            storage: narrow,
            splat: false,
        });
        let to = b.input(Input::Integer);
        let to = b.access(Access {
            pointer: to,
            storage: narrow,
            splat: false,
        });
        let x = b.load(from, Type::I32, None);
        let one = b.i32(1);
        let y = b.add(x, one);
        // Odd numbers only.
        let odd = b.and(x, one);
        let odd = b.compare(Condition::Equal, odd, one);
        b.store(to, y, None, Some(odd));
        let body = b.finish();
        compare_memory(
            &format!("{bytes} bytes, signed: {signed}"),
            &body,
            bytes as usize,
        );
    }
}

#[test]
fn scattered_memory() {
    for ty in [Type::I32, Type::I64] {
        let mut b = Builder::new();
        let from = pointer(&mut b, bytes_of(ty));
        let to = pointer(&mut b, bytes_of(ty));
        let lane = b.lane();
        let one = b.i32(1);
        // Neighbours change places; the last one of an odd number stays out.
        let other = b.xor(lane, one);
        let x = b.load(from, ty, None);
        let n = b.input(Input::Number(Type::I32));
        let n = b.splat(n, Type::I32);
        let inside = b.compare(Condition::Less, other, n);
        let y = b.gather(from, ty, other, Some(inside));
        let sum = b.sub(y, x);
        b.store(to, sum, Some(other), Some(inside));
        let body = b.finish();
        compare_memory(&format!("{ty:?}"), &body, bytes_of(ty) as usize);
    }
}

/// Narrow elements change places: no set of instructions gathers them.
#[test]
fn scattered_narrow_memory() {
    for (bytes, signed) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut b = Builder::new();
        let narrow = Storage { bytes, signed };
        let [from, to] = [(); 2].map(|()| {
            let pointer = b.input(Input::Integer);
            b.access(Access {
                pointer,
                storage: narrow,
                splat: false,
            })
        });
        let (lane, one) = (b.lane(), b.i32(1));
        let other = b.xor(lane, one);
        let n = b.input(Input::Number(Type::I32));
        let n = b.splat(n, Type::I32);
        let inside = b.compare(Condition::Less, other, n);
        let y = b.gather(from, Type::I32, other, Some(inside));
        let first = b.gather(from, Type::I32, lane, None);
        let sum = b.sub(y, first);
        b.store(to, sum, Some(other), Some(inside));
        let body = b.finish();
        let name = format!("{bytes} bytes, signed: {signed}, anywhere");
        compare_memory(&name, &body, bytes as usize);
    }
}

/// One element for some of the lanes, and one whose address is nobody's for none.
/// Vectors inside one step and across two, from every place of a step on.
#[test]
fn steps_of_an_index() {
    let mut b = Builder::new();
    let [from, to] = [(); 2].map(|()| pointer(&mut b, 4));
    let first = b.input(Input::Number(Type::I32));
    let (lane, first) = (b.lane(), b.splat(first, Type::I32));
    let place = b.add(lane, first);
    let step = b.shift(BinaryOp::ShiftRightSigned, place, 4);
    let value = b.gather(from, Type::I32, step, None);
    b.store(to, value, None, None);
    let body = b.finish();
    let numbers: Vec<i32> = (0..70).map(|i| 3 * i + 1).collect();
    for compiled in Compiled::all(&body) {
        for n in LENGTHS.into_iter().filter(|&n| n <= 1024) {
            for first in [0, 1, 15, 16, 40] {
                let mut out = vec![0i32; n as usize];
                let args = [numbers.as_ptr() as u64, out.as_mut_ptr() as u64, first];
                // SAFETY: `n` elements are written, and at most 67 are read.
                unsafe { compiled.run(&args, n) };
                let want = (0..n).map(|i| numbers[((i + first) / 16) as usize]);
                assert!(out.into_iter().eq(want), "{} at {n}", compiled.name);
            }
        }
    }
}

#[test]
fn one_element_under_a_mask() {
    for (bytes, ty) in [
        (1, Type::I32),
        (2, Type::I32),
        (4, Type::F32),
        (8, Type::I64),
    ] {
        let mut b = Builder::new();
        let pointers = [(); 3].map(|()| b.input(Input::Integer));
        let [from, to, nowhere] = pointers.map(|pointer| {
            b.access(Access {
                pointer,
                storage: storage(bytes),
                splat: pointer != pointers[1],
            })
        });
        let (lane, one, zero) = (b.lane(), b.i32(1), b.i32(0));
        let odd = b.and(lane, one);
        let odd = b.compare(Condition::Equal, odd, one);
        let never = b.compare(Condition::Less, lane, zero);
        let [x, y] = [(from, odd), (nowhere, never)].map(|(a, mask)| b.load(a, ty, Some(mask)));
        let sum = b.add(x, y);
        b.store(to, sum, None, None);
        let body = b.finish();
        compare_memory(&format!("one of {bytes} bytes"), &body, bytes as usize);
    }
}

/// Halves of pairs, in bodies of 32-bit lanes and of those with 64-bit ones.
#[test]
fn pairs_under_masks() {
    for wide in [false, true] {
        let mut b = Builder::new();
        let [from, to] = [(); 2].map(|()| pointer(&mut b, 8));
        let (lane, one, three) = (b.lane(), b.i32(1), b.i32(3));
        let odd = b.and(lane, one);
        let odd = b.compare(Condition::Equal, odd, one);
        let some = b.and(lane, three);
        let some = b.compare(Condition::NotEqual, some, three);
        let low = b.load_half(from, false, Some(odd));
        let mut high = b.load_half(from, true, None);
        if wide {
            let double = b.convert(Conversion::Float, high, Type::F64);
            let zero = b.f64(0.0);
            let negative = b.compare(Condition::Less, double, zero);
            high = b.select(negative, low, high);
        }
        b.store_pair(to, [high, low], Some(some));
        let body = b.finish();
        compare_memory(&format!("pairs, wide: {wide}"), &body, 8);
    }
}

/// Masks of lanes of one width where lanes of the other are chosen.
#[test]
fn masks_of_both_widths() {
    let body = elementwise(Type::F32, &|b, [x, y, z]| {
        let [dx, dy] = [x, y].map(|v| b.convert(Conversion::Float, v, Type::F64));
        let narrow = b.compare(Condition::Less, x, z);
        let wide = b.compare(Condition::LessEqual, dx, dy);
        let both = b.xor(narrow, wide);
        let chosen = b.select(narrow, dx, dy);
        b.select(both, chosen, dx)
    });
    check("f64 by masks of both widths", Type::F32, &body, 3);
    let body = elementwise(Type::I64, &|b, [x, y, z]| {
        let [nx, ny] = [x, y].map(|v| b.convert(Conversion::Low, v, Type::I32));
        let wide = b.compare(Condition::LessUnsigned, x, z);
        let narrow = b.compare(Condition::Less, nx, ny);
        let either = b.or(narrow, wide);
        let chosen = b.select(wide, nx, ny);
        b.select(either, chosen, nx)
    });
    check("i32 by masks of both widths", Type::I64, &body, 3);
}

#[test]
fn sums_of_columns() {
    for ty in [Type::I32, Type::I64, Type::F32] {
        let mut b = Builder::new();
        let from = pointer(&mut b, bytes_of(ty));
        let to = pointer(&mut b, bytes_of(ty));
        let trips = b.input(Input::Integer);
        let step = b.input(Input::Integer);
        let zero = b.constant(ty, 0);
        let sum = b.open_loop(&[zero]);
        let x = b.load(from, ty, None);
        let next = b.add(sum[0], x);
        let last = b.close_loop(trips, &[zero], &sum, &[next], vec![(from, step)]);
        b.store(to, last[0], None, None);
        let body = b.finish();
        let size = bytes_of(ty) as usize;
        let all = Compiled::all(&body);
        for n in LENGTHS {
            for rows in [0u64, 1, 3, 17] {
                let input: Vec<u8> = match ty {
                    Type::F32 => (0..n * rows.max(1))
                        .flat_map(|i| ((i % 64) as f32).to_le_bytes())
                        .collect(),
                    _ => numbers(ty, 1, n * rows.max(1)),
                };
                let mut want = Vec::new();
                for compiled in &all {
                    let mut out = vec![0u8; size * n as usize];
                    let args = [
                        input.as_ptr() as u64,
                        out.as_mut_ptr() as u64,
                        rows,
                        size as u64 * n,
                    ];
                    // SAFETY: `rows` rows of `n` elements, and a row for the sums.
                    unsafe { compiled.run(&args, n) };
                    if want.is_empty() {
                        want.clone_from(&out);
                    }
                    assert_eq!(out, want, "{ty:?} by {} at {rows}x{n}", compiled.name);
                }
            }
        }
    }
}

/// A loop over rows of narrow elements: whole vectors of them, and what is left of each row.
#[test]
fn sums_of_narrow_columns() {
    for bytes in [1, 2] {
        let mut b = Builder::new();
        let [from, to] = [(); 2].map(|()| pointer(&mut b, bytes));
        let [trips, step] = [(); 2].map(|()| b.input(Input::Integer));
        let zero = b.i32(0);
        let sum = b.open_loop(&[zero]);
        let x = b.load(from, Type::I32, None);
        let next = b.add(sum[0], x);
        let last = b.close_loop(trips, &[zero], &sum, &[next], vec![(from, step)]);
        b.store(to, last[0], None, None);
        let body = b.finish();
        let (size, rows) = (bytes as usize, 5);
        for n in LENGTHS {
            let input = &numbers(Type::I64, 1, n * rows)[..size * (n * rows) as usize];
            let mut want = Vec::new();
            for compiled in Compiled::all(&body) {
                let mut out = vec![0x5au8; 2 * GUARD + size * n as usize];
                let place = out[GUARD..].as_mut_ptr() as u64;
                let args = [input.as_ptr() as u64, place, rows, size as u64 * n];
                // SAFETY: `rows` rows of `n` elements, and a row for the sums.
                unsafe { compiled.run(&args, n) };
                if want.is_empty() {
                    want.clone_from(&out);
                }
                assert_eq!(out, want, "{bytes} bytes by {} at {n}", compiled.name);
            }
        }
    }
}

/// Every so many elements of blocks: loads of some, stores of all in another order.
#[test]
fn elements_at_equal_distances() {
    for (stride, loads) in [
        (2, vec![0, 1]),
        (2, vec![1]),
        (3, vec![0, 1, 2]),
        (3, vec![2]),
        (4, vec![0, 1, 2, 3]),
        (4, vec![1, 2]),
        (5, vec![4]),
        (8, vec![0, 1, 2, 3, 4, 5, 6, 7]),
        (8, vec![3]),
        (16, vec![0, 5, 15]),
    ] {
        for whole in [true, false] {
            let mut b = Builder::new();
            let [from, to] = [(); 2].map(|()| pointer(&mut b, 4));
            if whole {
                b.body().blocks.extend([from, to]);
            }
            let (lane, step) = (b.lane(), b.i32(stride));
            let scaled = b.mul(lane, step);
            let at = |b: &mut Builder, first: i32| match first {
                0 => scaled,
                _ => {
                    let first = b.i32(first);
                    b.add(scaled, first)
                }
            };
            let mut values = Vec::new();
            for &first in &loads {
                let index = at(&mut b, first);
                values.push(b.gather(from, Type::F32, index, None));
            }
            for first in 0..stride {
                let index = at(&mut b, first);
                let value = values[(first as usize + 1) % values.len()];
                b.store(to, value, Some(index), None);
            }
            let body = b.finish();
            for n in LENGTHS {
                let size = 4 * stride as usize * n as usize;
                let input = numbers(Type::I32, 3, stride as u64 * n);
                let mut want = Vec::new();
                for compiled in Compiled::all(&body) {
                    let mut out = vec![0x5au8; 2 * GUARD + size];
                    let args = [input.as_ptr() as u64, out[GUARD..].as_mut_ptr() as u64];
                    // SAFETY: both arrays have `n` blocks.
                    unsafe { compiled.run(&args, n) };
                    if want.is_empty() {
                        want.clone_from(&out);
                    }
                    let name = compiled.name;
                    assert_eq!(
                        out, want,
                        "every {stride}, {loads:?}, {whole} by {name} at {n}"
                    );
                }
            }
        }
    }
}

/// Bodies from one array to another of elements of a size; a third input is the
/// number of lanes.
fn compare_memory(name: &str, body: &Body, size: usize) {
    for n in LENGTHS {
        let input = &numbers(Type::I64, 3, n)[..size * n as usize];
        let mut want = Vec::new();
        for compiled in Compiled::all(body) {
            let mut out = vec![0x5au8; 2 * GUARD + size * n as usize];
            let mut args = vec![input.as_ptr() as u64, out[GUARD..].as_mut_ptr() as u64, n];
            args.truncate(body.inputs.len());
            // SAFETY: both arrays have `n` elements.
            unsafe { compiled.run(&args, n) };
            if want.is_empty() {
                want.clone_from(&out);
            }
            assert_eq!(out, want, "{name} by {} at {n}", compiled.name);
        }
    }
}
