//! Packing of vectors into wider elements: word `i` of the result holds element `i` of each vector.

use super::value::{self, Lanes, Vector};
use tegula_mosaic::types::Element;
use tegula_scalar::{decode_single, encode_single};

/// The bit patterns of the elements.
pub(super) fn bits_of(element: Element, lanes: &Lanes) -> Result<Vec<u32>, String> {
    Ok(match lanes {
        Lanes::Float(values) => {
            let ty = value::ir_type(element)?;
            values
                .iter()
                .map(|value| encode_single(ty, *value))
                .collect()
        }
        Lanes::Int(values) => {
            let bits = values.iter().map(|value| value::unsigned(element, *value));
            bits.collect()
        }
    })
}

/// Elements with these bit patterns.
pub(super) fn from_bits(element: Element, bits: Vec<u32>) -> Result<Lanes, String> {
    let ty = value::ir_type(element)?;
    Ok(match element.is_float() {
        true => Lanes::Float(
            bits.into_iter()
                .map(|bits| decode_single(ty, bits))
                .collect(),
        ),
        false => {
            let wrapped = bits
                .into_iter()
                .map(|bits| value::wrap(element, i64::from(bits)));
            Lanes::Int(wrapped.collect())
        }
    })
}

/// Packs vectors of 32-bit elements into narrower parts of words, the first into the lowest bits.
pub(super) fn pack(narrow: Element, from: Element, parts: &[Vector]) -> Result<Vector, String> {
    let bits = narrow.bits();
    let Some(first) = parts.first() else {
        return Err("expected at least one vector to pack".to_owned());
    };
    if bits as usize * parts.len() > 32 || bits >= 32 {
        return Err(format!(
            "packing {} vectors of {narrow} into words of 32 bits is not simulated",
            parts.len()
        ));
    }
    let ty = value::ir_type(narrow)?;
    let mask = (1_u32 << bits) - 1;
    let mut words = vec![0_u32; first.lanes.len()];
    let mut marks = first.marks.is_some().then(|| vec![0; words.len()]);
    for (place, part) in parts.iter().enumerate() {
        let shift = bits * place as u32;
        match &*part.lanes {
            Lanes::Float(values) => {
                for (word, value) in words.iter_mut().zip(values) {
                    let encoded = match narrow.is_float() {
                        true => encode_single(ty, *value),
                        false => *value as i32 as u32,
                    };
                    *word |= (encoded & mask) << shift;
                }
            }
            Lanes::Int(values) => {
                if narrow.is_float() {
                    return Err(format!("packing {from} as {narrow} is not simulated"));
                }
                for (word, value) in words.iter_mut().zip(values) {
                    *word |= (*value as u32 & mask) << shift;
                }
            }
        }
        if let Some(own) = &part.marks {
            let all = marks.get_or_insert_with(|| vec![0; words.len()]);
            for (mark, own) in all.iter_mut().zip(own.iter()) {
                *mark |= own;
            }
        }
    }
    let words = words.into_iter().map(|word| word as i32).collect();
    Ok(Vector::ints(words).marked(marks))
}

/// Extracts one of the packed vectors.
pub(super) fn unpack(
    narrow: Element,
    index: i64,
    to: Element,
    packed: &Vector,
) -> Result<Vector, String> {
    let bits = narrow.bits();
    let shift = u32::try_from(index).map_or(32, |index| index * bits);
    if bits >= 32 || shift + bits > 32 {
        return Err(format!(
            "unpacking part {index} of {narrow} from words of 32 bits is not simulated"
        ));
    }
    let ty = value::ir_type(narrow)?;
    let mask = (1_u32 << bits) - 1;
    let parts = packed.lanes.ints()?.iter();
    let parts = parts.map(|word| (*word as u32 >> shift) & mask);
    let made = match (narrow.is_float(), to.is_float()) {
        (true, true) => Vector::floats(parts.map(|part| decode_single(ty, part)).collect()),
        (false, false) => Vector::ints(
            parts
                .map(|part| value::wrap(narrow, i64::from(part)))
                .collect(),
        ),
        _ => return Err(format!("unpacking {narrow} as {to} is not simulated")),
    };
    Ok(made.marked(packed.marks.as_deref().cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_mosaic::types::FloatKind;

    #[test]
    fn what_was_packed_is_unpacked() {
        let narrow = Element::Float(FloatKind::BF16);
        let wide = Element::Float(FloatKind::F32);
        let parts = [
            Vector::floats(vec![1.5, -2.0]),
            Vector::floats(vec![0.0, 8.0]),
        ];
        let packed = pack(narrow, wide, &parts).unwrap();
        assert_eq!(packed.lanes.ints().unwrap(), &[0x3fc0, 0x4100_c000]);
        for (index, part) in parts.iter().enumerate() {
            let own = unpack(narrow, index as i64, wide, &packed).unwrap();
            assert_eq!(own.lanes, part.lanes);
        }
        assert!(unpack(narrow, 2, wide, &packed).is_err());
        let bytes = pack(
            Element::Int(8),
            Element::Int(32),
            &[Vector::ints(vec![-1]), Vector::ints(vec![2])],
        );
        assert_eq!(bytes.unwrap().lanes.ints().unwrap(), &[0x02ff]);
    }
}
