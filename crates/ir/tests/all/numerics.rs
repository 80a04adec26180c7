//! Number formats against `ml_dtypes`' tables, and literals element by element.

use half::{bf16, f16};
use tegula_ir::{
    ArrayShape, Category, ElementType, FloatFormat, Literal, LiteralError, NativeType, Scalar,
};

const TABLES: &str = include_str!("../data/float_tables.txt");

fn codes(line: &str) -> Vec<u64> {
    line.split(' ')
        .skip(1)
        .map(|word| u64::from_str_radix(word, 16).expect("hexadecimal"))
        .collect()
}

/// Calls `check` with the type and the line, for each line that begins with `start`.
fn for_each_line(start: &str, mut check: impl FnMut(ElementType, &str)) {
    let mut ty = None;
    let mut lines = 0;
    for line in TABLES.lines() {
        if let Some(name) = line.strip_prefix("type ") {
            ty = ElementType::from_name(name);
        } else if line.starts_with(start) && !line.starts_with('#') {
            check(ty.expect("a known type"), line);
            lines += 1;
        }
    }
    assert_eq!(lines, 11);
}

fn same(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || a.to_bits() == b.to_bits()
}

#[test]
fn every_code_decodes_and_encodes_back() {
    for_each_line("decode ", |ty, line| {
        let format = ty.float_format().expect("a float type");
        assert_eq!(format.bits(), ty.bits(), "{ty}");
        let table = codes(line);
        assert_eq!(table.len(), 1 << ty.bits());
        for (code, bits) in table.into_iter().enumerate() {
            let expected = f64::from(f32::from_bits(bits as u32));
            let value = format.decode(code as u64);
            assert!(
                same(value, expected),
                "{ty} {code:#x}: {value} is not {expected}"
            );
            if !value.is_nan() {
                assert_eq!(format.encode(value), code as u64, "{ty} {value}");
            }
        }
    });
}

#[test]
fn midpoints_round_to_even() {
    for_each_line("midpoints ", |ty, line| {
        let format = ty.float_format().expect("a float type");
        for (code, expected) in codes(line).chunks(3).enumerate() {
            let (low, high) = (format.decode(code as u64), format.decode(code as u64 + 1));
            let middle = (low + high) / 2.0;
            let near = [
                (middle as f32).next_down(),
                middle as f32,
                (middle as f32).next_up(),
            ];
            let got = near.map(|value| format.encode(f64::from(value)));
            // `ml_dtypes` rounds all f32 subnormals above 2^-127 up.
            if (ty, code) != (ElementType::F8E8M0FNU, 0) {
                assert_eq!(got.as_slice(), expected, "{ty} around {middle}");
            }
            // From f64, values are rounded only once, however close they are to the midpoint.
            assert_eq!(
                format.encode(middle.next_down()),
                code as u64,
                "{ty} below {middle}"
            );
            assert_eq!(
                format.encode(middle.next_up()),
                code as u64 + 1,
                "{ty} above {middle}"
            );
        }
    });
}

#[test]
fn limits_overflow_as_ml_dtypes_does() {
    for_each_line("encode ", |ty, line| {
        let format = ty.float_format().expect("a float type");
        for pair in line.split(' ').skip(1) {
            let (bits, code) = pair.split_once('=').expect("bits=code");
            let value = f64::from_bits(u64::from_str_radix(bits, 16).expect("hexadecimal"));
            let expected = u64::from_str_radix(code, 16).expect("hexadecimal");
            assert_eq!(format.encode(value), expected, "{ty} {value:e}");
        }
    });
}

#[test]
fn wide_formats_agree_with_half_and_rust() {
    let half_format = ElementType::F16.float_format().expect("a float type");
    let brain_format = ElementType::BF16.float_format().expect("a float type");
    for code in 0..=u16::MAX {
        let (h, b) = (
            f16::from_bits(code).to_f64(),
            bf16::from_bits(code).to_f64(),
        );
        assert!(same(half_format.decode(code.into()), h), "f16 {code:#x}");
        assert!(same(brain_format.decode(code.into()), b), "bf16 {code:#x}");
    }
    let mut state = 1u64;
    for _ in 0..100_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // Exponents near the ranges of both formats; mantissas are often near a tie.
        let exponent = 1023 - 140 + (state >> 50) % 280;
        let fraction = (state & ((1 << 52) - 1)) & !((1 << (state >> 58)) - 1);
        let value = f64::from_bits((state & (1 << 63)) | (exponent << 52) | fraction);
        check_nearest(half_format, value);
        check_nearest(brain_format, value);
        // `half` rounds f32 values correctly, but ignores low bits of f64 values.
        let value = value as f32;
        let (h, b) = (f16::from_f32(value), bf16::from_f32(value));
        assert_eq!(
            half_format.encode(value.into()),
            h.to_bits().into(),
            "{value:e}"
        );
        assert_eq!(
            brain_format.encode(value.into()),
            b.to_bits().into(),
            "{value:e}"
        );
    }
}

/// Checks that the code is that of the nearest value, and the even one of two nearest.
fn check_nearest(format: FloatFormat, value: f64) {
    let code = format.encode(value);
    let near = format.decode(code);
    if near.is_infinite() {
        assert!(value.abs() > format.largest());
        return;
    }
    let distance = (value - near).abs();
    for other in [code.wrapping_sub(1), code + 1] {
        let rival = (value - format.decode(other)).abs();
        let worse = distance < rival || (distance == rival && code & 1 == 0);
        assert!(
            worse || rival.is_nan(),
            "{value:e}: {code:#x} or {other:#x}"
        );
    }
}

#[test]
fn every_type_stores_and_gives_back() {
    for &ty in ElementType::ALL {
        let mut literal = Literal::zeros(&ArrayShape::new(ty, &[2, 3])).expect("small");
        assert_eq!(literal.len(), 6);
        literal.set_scalar(4, Scalar::Int(1)).expect("in range");
        let one = match ty.category() {
            Category::Boolean => Scalar::Bool(true),
            // A signed integer of one bit: 1 is -1.
            Category::Signed => Scalar::Int(if ty == ElementType::S1 { -1 } else { 1 }),
            Category::Unsigned => Scalar::Uint(1),
            Category::Float => Scalar::Float(1.0),
            Category::Complex => Scalar::Complex(1.0, 0.0),
        };
        assert_eq!(literal.scalar(4), Some(one), "{ty}");
        assert_eq!(literal.scalar(6), None);
        let beyond = LiteralError::NoSuchElement { index: 6, len: 6 };
        assert_eq!(literal.set_scalar(6, one), Err(beyond));
        let copy = Literal::from_scalars(literal.shape(), literal.scalars()).expect("fits");
        assert!(copy == literal, "{ty}");
    }
}

#[test]
fn conversions_wrap_round_and_saturate() {
    use ElementType::*;
    let check = |ty: ElementType, from: Scalar, to: Scalar| {
        assert_eq!(from.convert(ty), to, "{from:?} to {ty}");
    };
    check(S8, Scalar::Int(300), Scalar::Int(44));
    check(S4, Scalar::Int(9), Scalar::Int(-7));
    check(U4, Scalar::Int(-1), Scalar::Uint(15));
    check(U64, Scalar::Int(-1), Scalar::Uint(u64::MAX));
    check(S8, Scalar::Float(300.0), Scalar::Int(127));
    check(S4, Scalar::Float(-300.0), Scalar::Int(-8));
    check(S64, Scalar::Float(1e300), Scalar::Int(i64::MAX));
    check(U8, Scalar::Float(-3.0), Scalar::Uint(0));
    check(U2, Scalar::Float(9.7), Scalar::Uint(3));
    check(S32, Scalar::Float(f64::NAN), Scalar::Int(0));
    check(S32, Scalar::Float(-2.9), Scalar::Int(-2));
    check(Pred, Scalar::Float(0.5), Scalar::Bool(true));
    check(BF16, Scalar::Float(1.0 + 1.0 / 256.0), Scalar::Float(1.0));
    check(F8E4M3FNUZ, Scalar::Float(-0.0), Scalar::Float(0.0));
    check(C64, Scalar::Uint(7), Scalar::Complex(7.0, 0.0));
    check(F32, Scalar::Complex(2.5, 9.0), Scalar::Float(2.5));
    assert_eq!(Scalar::Float(2f64.powi(63)).to_i64(), None);
    assert_eq!(Scalar::Float(-(2f64.powi(63))).to_i64(), Some(i64::MIN));
}

#[test]
fn views_are_typed_and_aligned() {
    let literal = Literal::from_f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).expect("fits");
    assert_eq!(literal.as_f32s(), Some([1.0, 2.0, 3.0, 4.0].as_slice()));
    assert_eq!(literal.as_i32s(), None);
    assert!(Literal::from_f32s(&[3], &[1.0]).is_err());
    let truth = Literal::from_bools(&[2], &[false, true]).expect("fits");
    assert_eq!(truth.as_u8s(), Some([0, 1].as_slice()));
    let empty = Literal::from_f64s(&[0, 5], &[]).expect("fits");
    assert_eq!(empty.as_f64s(), Some([].as_slice()));
    let mut shared = literal.clone();
    shared.values_mut::<f32>().expect("f32")[0] = 9.0;
    assert_eq!(literal.scalar(0), Some(Scalar::Float(1.0)));
    assert_eq!(Literal::from_value(5i64).scalar(0), Some(Scalar::Int(5)));
}

#[test]
fn sizes() {
    fn check<T: NativeType>() {
        assert_eq!(size_of::<T>(), T::ELEMENT_TYPE.storage_bytes());
        assert!(align_of::<T>() <= tegula_ir::ALIGNMENT);
    }
    check::<i8>();
    check::<i16>();
    check::<i32>();
    check::<i64>();
    check::<u8>();
    check::<u16>();
    check::<u32>();
    check::<u64>();
    check::<f16>();
    check::<bf16>();
    check::<f32>();
    check::<f64>();
    check::<num_complex::Complex32>();
    check::<num_complex::Complex64>();
}
