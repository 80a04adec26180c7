//! Bit fields, byte permutations, arbitrary functions of three bits, byte dot products.

use crate::operation::Permute;

/// The bytes of `b:a` that a selector selects.
#[inline(always)]
pub(super) fn permute(a: u32, b: u32, c: u32, mode: Permute) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let byte = |index: u32| (bytes >> (8 * (index & 7))) as u8;
    let s = c & 3;
    let indices = match mode {
        Permute::Index => {
            return (0..4).fold(0, |value, i| {
                let selector = c >> (4 * i);
                let byte = byte(selector);
                let byte = if selector & 8 != 0 {
                    ((byte as i8) >> 7) as u8
                } else {
                    byte
                };
                value | u32::from(byte) << (8 * i)
            });
        }
        Permute::F4e => [s, s + 1, s + 2, s + 3],
        Permute::B4e => [
            s,
            s.wrapping_sub(1) & 7,
            s.wrapping_sub(2) & 7,
            s.wrapping_sub(3) & 7,
        ],
        Permute::Rc8 => [s; 4],
        Permute::Ecl => [s, s.max(1), s.max(2), s.max(3)],
        Permute::Ecr => [0, s.min(1), s.min(2), s.min(3)],
        Permute::Rc16 => {
            let low = 2 * (c & 1);
            [low, low + 1, low, low + 1]
        }
    };
    u32::from_le_bytes(indices.map(byte))
}

#[inline(always)]
pub(super) fn extract64(a: u64, position: u32, length: u32, signed: bool) -> u64 {
    field(a, position, length, 64, signed)
}

/// A bit field of a value with `size` bits, sign- or zero-extended. If the field extends past the
/// end, its sign is that of the value.
#[inline(always)]
pub(super) fn field(a: u64, position: u32, length: u32, size: u32, signed: bool) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if length == 0 {
        return 0;
    }
    let top = (position + length - 1).min(size - 1);
    let sign = signed && a >> top & 1 != 0;
    let shifted = a.checked_shr(position).unwrap_or(0);
    let kept = length.min(size.saturating_sub(position));
    let low = if kept >= 64 {
        shifted
    } else {
        shifted & ((1 << kept) - 1)
    };
    if sign && kept < 64 {
        low | u64::MAX << kept
    } else {
        low
    }
}

#[inline(always)]
pub(super) fn insert(a: u64, b: u64, position: u32, length: u32, size: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if position >= size || length == 0 {
        return b;
    }
    let field = if length >= 64 {
        u64::MAX
    } else {
        (1 << length) - 1
    } << position;
    b & !field | a << position & field
}

#[inline(always)]
pub(super) fn dp4a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    let part = |value: u32, i: u32, signed: bool| {
        let byte = (value >> (8 * i)) as u8;
        if signed {
            i32::from(byte as i8)
        } else {
            i32::from(byte)
        }
    };
    (0..4).fold(c, |sum, i| {
        sum.wrapping_add((part(a, i, a_signed) * part(b, i, b_signed)) as u32)
    })
}

/// The dot product of the halves of `a` and the lower two bytes of `b`, plus `c`.
#[inline(always)]
pub(super) fn dp2a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    let half = |i: u32| match a_signed {
        true => i32::from((a >> (16 * i)) as u16 as i16),
        false => i32::from((a >> (16 * i)) as u16),
    };
    let byte = |i: u32| match b_signed {
        true => i32::from((b >> (8 * i)) as u8 as i8),
        false => i32::from((b >> (8 * i)) as u8),
    };
    (0..2).fold(c, |sum, i| sum.wrapping_add((half(i) * byte(i)) as u32))
}

/// A function of three bits, given by its truth table.
#[inline(always)]
pub(super) fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    (0..8).filter(|i| table >> i & 1 != 0).fold(0, |value, i| {
        let term = |bits: u32, on: bool| if on { bits } else { !bits };
        value | term(a, i & 4 != 0) & term(b, i & 2 != 0) & term(c, i & 1 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(field(0xf0, 4, 4, 32, true), u64::MAX);
        assert_eq!(field(0xf0, 4, 4, 32, false), 15);
        assert_eq!(field(0x8000_0000, 28, 8, 32, true) as u32, 0xffff_fff8);
        assert_eq!(field(1, 0, 64, 64, false), 1);
        assert_eq!(insert(0xab, 0xffff_ffff, 8, 8, 32), 0xffff_abff);
        assert_eq!(
            permute(0x3322_1100, 0x7766_5544, 0x0123, Permute::Index),
            0x0011_2233
        );
        assert_eq!(permute(0x80, 0, 0x8888, Permute::Index), 0xffff_ffff);
        assert_eq!(lop3(0b1100, 0b1010, 0b0110, 0x96) & 15, 0b0000);
        assert_eq!(
            dp4a(0x01ff_0203, 0x0102_0304, 10, true, true),
            10 + 1 - 2 + 6 + 12
        );
        assert_eq!(
            dp2a(0xffff_0002, 0x7f7f_0304, 10, false, false),
            10 + 2 * 4 + 0xffff * 3
        );
        assert_eq!(dp2a(0xffff_0002, 0x0000_03ff, 10, true, true), 10 - 2 - 3);
    }
}
