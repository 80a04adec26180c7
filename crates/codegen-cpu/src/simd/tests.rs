//! Compares every lowering with the interpreter: each operation on numbers of every kind, at many
//! lengths, with guards around the outputs.

use super::builder::Builder;
use super::ir::{
    Access, BinaryOp, Body, Condition, Conversion, Input, Op, Reduction, Span, Storage, Type,
    UnaryOp, V, identity,
};
use super::test_harness::Compiled;
use crate::isa::x64::InstructionSet;
mod memory;
mod rows;

const LENGTHS: [u64; 23] = [
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 70, 255, 1023, 1024, 1025,
];

/// The number of guard bytes before and after an array, which must not change.
const GUARD: usize = 64;

fn storage(bytes: u32) -> Storage {
    Storage {
        bytes,
        signed: false,
    }
}

/// An access to an array of elements of this many bytes, whose address is the next input.
pub(crate) fn pointer(b: &mut Builder, bytes: u32) -> u32 {
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

/// A body that loads three arrays of a type, applies `f`, and stores the results.
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

/// Bits of numbers of every kind, in an order in which all pairs occur.
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

/// Whether the body contains an operation that uses the portable lowering without AVX-512.
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

/// Runs every lowering at every length and compares the results with the interpreter's.
fn check(name: &str, from: Type, body: &Body, arrays: usize) {
    let to = match body.statements.last() {
        Some(super::ir::Statement::Store { value, .. }) => body.type_of(*value),
        _ => Type::I32,
    };
    let size = bytes_of(to) as usize;
    let all = Compiled::all(body);
    let wide = [InstructionSet::Avx512, InstructionSet::Avx2]
        .into_iter()
        .filter(|set| set.is_supported());
    let wide = wide.filter(|&set| set == InstructionSet::Avx512 || !has_no_avx2_form(body));
    // Each of them also with stores past the caches.
    assert_eq!(all.len(), 4 + 2 * wide.count(), "{name}");
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
        let width = if ty == Type::I64 { 64 } else { 32 };
        for amount in [1, 13, width - 1] {
            let body = elementwise(ty, &|b, [x, y, _]| {
                let up = b.shift(BinaryOp::ShiftLeft, x, amount);
                let down = b.shift(BinaryOp::ShiftRight, x, width - amount);
                let rotated = b.or(up, down);
                assert!(matches!(
                    b.body().op(rotated),
                    Op::Binary(B::RotateLeft, ..)
                ));
                b.xor(rotated, y)
            });
            check(&format!("{ty:?} rotated by {amount}"), ty, &body, 3);
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
        (C::RoundHalf, Type::F32, Type::F32),
        (C::ToHalf, Type::F32, Type::I32),
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
    // Out of range, the result is arbitrary.
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

/// Conversions of floats from 2^-32 to 2^31 to binary16, and of bits of that type to floats.
/// Without their last 12 bits, half of the normal floats are midway between two neighbours of that
/// type.
#[test]
fn half_precision_conversions() {
    for kept in [0x9fff_ffff_u32, 0x9fff_f000] {
        let number = |b: &mut Builder, x: V| {
            let kept = b.i32(kept.cast_signed());
            let bits = b.and(x, kept);
            let smallest = b.i32(95 << 23);
            let bits = b.add(bits, smallest);
            b.bits(bits)
        };
        let body = elementwise(Type::I32, &|b, [x, _, _]| {
            let x = number(b, x);
            b.convert(Conversion::ToHalf, x, Type::I32)
        });
        check(&format!("to half of bits {kept:x}"), Type::I32, &body, 3);
        let body = elementwise(Type::I32, &|b, [x, _, _]| {
            let x = number(b, x);
            b.convert(Conversion::RoundHalf, x, Type::F32)
        });
        check(
            &format!("rounded to half of bits {kept:x}"),
            Type::I32,
            &body,
            3,
        );
    }
    let body = elementwise(Type::I32, &|b, [x, _, _]| {
        let low = b.i32(0xffff);
        let bits = b.and(x, low);
        b.convert(Conversion::FromHalf, bits, Type::F32)
    });
    check("from half", Type::I32, &body, 3);
    // In bodies with 64-bit lanes, vectors have half as many lanes.
    let body = elementwise(Type::I64, &|b, [x, y, _]| {
        let low = b.convert(Conversion::Low, x, Type::I32);
        let mask = b.i32(0xffff);
        let bits = b.and(low, mask);
        let number = b.convert(Conversion::FromHalf, bits, Type::F32);
        let two = b.f32(2.0);
        let number = b.mul(number, two);
        let bits = b.convert(Conversion::ToHalf, number, Type::I32);
        let wide = b.convert(Conversion::ExtendUnsigned, bits, Type::I64);
        b.add(wide, y)
    });
    check("half beside 64 bits", Type::I64, &body, 3);
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

/// A body that is long enough to be scheduled, with more live values than there are registers.
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
                // Numbers near 1, in the range in which the functions scale them.
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

/// Masks of lanes of one width that select lanes of the other width.
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
