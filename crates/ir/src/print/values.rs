//! Attribute values in XLA's form.

use super::shape::joined;
use crate::{ConvDims, Metadata, PadDim, ReplicaGroups, SliceDim, TO_END, WindowDim};
use std::fmt::{self, Display, Formatter, Write};

/// Values in braces.
pub(crate) fn braced<T: Display>(values: impl IntoIterator<Item = T>) -> String {
    let mut text = String::from("{");
    // Writing to a string cannot fail.
    let _ = joined(&mut text, values);
    text.push('}');
    text
}

/// Values joined by `x`.
fn crossed<T: Display>(values: impl Iterator<Item = T>) -> String {
    let mut text = String::new();
    for (index, value) in values.enumerate() {
        let separator = if index > 0 { "x" } else { "" };
        let _ = write!(text, "{separator}{value}");
    }
    text
}

/// `{size=3x5 stride=...}`; fields with default values are left out.
pub(crate) fn window(window: &[WindowDim]) -> String {
    if window.is_empty() {
        return "{}".to_owned();
    }
    let mut text = format!("{{size={}", crossed(window.iter().map(|dim| dim.size)));
    let mut field = |name: &str, trivial: bool, value: &dyn Fn(&WindowDim) -> String| {
        if !trivial {
            let values = crossed(window.iter().map(value));
            let _ = write!(text, " {name}={values}");
        }
    };
    let all = |test: &dyn Fn(&WindowDim) -> bool| window.iter().all(test);
    field("stride", all(&|dim| dim.stride == 1), &|dim| {
        dim.stride.to_string()
    });
    field(
        "pad",
        all(&|dim| dim.padding_low == 0 && dim.padding_high == 0),
        &|dim| format!("{}_{}", dim.padding_low, dim.padding_high),
    );
    field("lhs_dilate", all(&|dim| dim.base_dilation == 1), &|dim| {
        dim.base_dilation.to_string()
    });
    field("rhs_dilate", all(&|dim| dim.window_dilation == 1), &|dim| {
        dim.window_dilation.to_string()
    });
    field("rhs_reversal", all(&|dim| !dim.reversal), &|dim| {
        u8::from(dim.reversal).to_string()
    });
    text.push('}');
    text
}

/// `1_1x2_2_1`; the interior is printed only if it is nonzero in some dimension.
pub(crate) fn padding(padding: &[PadDim]) -> String {
    let interior = padding.iter().any(|dim| dim.interior != 0);
    crossed(padding.iter().map(|dim| match interior {
        true => format!("{}_{}_{}", dim.low, dim.high, dim.interior),
        false => format!("{}_{}", dim.low, dim.high),
    }))
}

/// A number, or `?` for [`TO_END`].
fn or_end(number: i64) -> String {
    match number {
        TO_END => "?".to_owned(),
        number => number.to_string(),
    }
}

/// `{1,?,64}`: the sizes of a dynamic slice.
pub(crate) fn slice_sizes(sizes: &[i64]) -> String {
    braced(sizes.iter().map(|&size| or_end(size)))
}

/// `{[0:4], [1:9:2]}`; strides are printed only if one is not 1.
pub(crate) fn slices(slices: &[SliceDim]) -> String {
    let strides = slices.iter().any(|dim| dim.stride != 1);
    let mut text = String::from("{");
    for (index, dim) in slices.iter().enumerate() {
        let separator = if index > 0 { ", " } else { "" };
        let _ = write!(text, "{separator}[{}:{}", dim.start, or_end(dim.limit));
        if strides {
            let _ = write!(text, ":{}", dim.stride);
        }
        text.push(']');
    }
    text.push('}');
    text
}

/// `b01f_01io->b01f`.
pub(crate) fn conv_dims(dims: &ConvDims) -> String {
    let part = |spatial: &[i64], special: [(i64, char); 2]| -> String {
        let rank = spatial.len() as i64 + 2;
        let label = |place: i64| {
            let special = special.iter().find(|(at, _)| *at == place);
            let digit = || spatial.iter().position(|&at| at == place);
            match special {
                Some((_, letter)) => Some(*letter),
                None => digit().and_then(|digit| char::from_digit(digit as u32, 10)),
            }
        };
        (0..rank).map(|place| label(place).unwrap_or('?')).collect()
    };
    format!(
        "{}_{}->{}",
        part(
            &dims.input_spatial,
            [(dims.input_batch, 'b'), (dims.input_feature, 'f')]
        ),
        part(
            &dims.kernel_spatial,
            [
                (dims.kernel_input_feature, 'i'),
                (dims.kernel_output_feature, 'o')
            ]
        ),
        part(
            &dims.output_spatial,
            [(dims.output_batch, 'b'), (dims.output_feature, 'f')]
        ),
    )
}

impl Display for ReplicaGroups {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lists(groups) => f.write_str(&braced(groups.iter().map(braced))),
            Self::Iota {
                dims,
                reshape_dims,
                transpose,
            } => {
                f.write_str("[")?;
                joined(f, dims)?;
                f.write_str("]<=[")?;
                joined(f, reshape_dims)?;
                f.write_str("]")?;
                if !transpose.is_empty() {
                    f.write_str("T(")?;
                    joined(f, transpose)?;
                    f.write_str(")")?;
                }
                Ok(())
            }
        }
    }
}

impl Display for Metadata {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let quoted = |text: &Option<std::sync::Arc<str>>| {
            text.as_ref().map(|text| crate::text::strings::quote(text))
        };
        let number = |value: Option<i64>| value.map(|value| value.to_string());
        let known = [
            ("op_type", quoted(&self.op_type)),
            ("op_name", quoted(&self.op_name)),
            ("source_file", quoted(&self.source_file)),
            ("source_line", number(self.source_line)),
            ("source_end_line", number(self.source_end_line)),
            ("source_column", number(self.source_column)),
            ("source_end_column", number(self.source_end_column)),
            ("stack_frame_id", number(self.stack_frame_id)),
        ];
        let known = known
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        let other = self
            .other
            .iter()
            .map(|(key, value)| (&**key, value.to_string()));
        f.write_str("{")?;
        for (index, (key, value)) in known.chain(other).enumerate() {
            let separator = if index > 0 { " " } else { "" };
            write!(f, "{separator}{key}={value}")?;
        }
        f.write_str("}")
    }
}
