//! Operations that move elements, one operand at a time.

use super::super::case::{Instance, instance};
use super::{list, random_sizes, shape};
use crate::common::Random;

/// An instance of the operation of this number; `None` if it has no such shape.
pub(crate) fn movement(random: &mut Random, kind: i64) -> Instance {
    let rank = random.range(1, 3);
    let dims = random_sizes(random, rank, 4);
    let own = shape("f32", &dims);
    match kind {
        0 => instance(&[&own, &own], &own, "add"),
        1 => instance(&[&shape("pred", &dims), &own, &own], &own, "select"),
        2 => {
            let own = shape("f32", &[&[2], dims.as_slice()].concat());
            instance(&["f32[]", &own, "f32[]"], &own, "clamp")
        }
        3 => {
            let order = random.permutation(dims.len());
            let to: Vec<i64> = order.iter().map(|d| dims[*d as usize]).collect();
            let text = format!("transpose , dimensions={{{}}}", list(&order));
            instance(&[&own], &shape("f32", &to), &text)
        }
        4 => {
            let chosen: Vec<i64> = (0..rank).filter(|_| random.range(0, 1) == 1).collect();
            instance(
                &[&own],
                &own,
                &format!("reverse , dimensions={{{}}}", list(&chosen)),
            )
        }
        5 => {
            let (mut to, mut parts) = (Vec::new(), Vec::new());
            for size in &dims {
                let start = random.range(0, size - 1);
                let (limit, stride) = (random.range(start + 1, *size), random.range(1, 3));
                to.push((limit - start + stride - 1) / stride);
                parts.push(format!("[{start}:{limit}:{stride}]"));
            }
            let text = format!("slice , slice={{{}}}", parts.join(", "));
            instance(&[&own], &shape("f32", &to), &text)
        }
        6 => {
            let (mut to, mut parts) = (Vec::new(), Vec::new());
            for size in &dims {
                let interior = random.range(0, 2);
                let spread = size + (size - 1) * interior;
                let (low, high) = (random.range(-1, 2), random.range(-1, 2));
                to.push((spread + low + high).max(0));
                let low = if spread + low + high < 0 { 0 } else { low };
                let high = if low == 0 && spread + high < 0 {
                    0
                } else {
                    high
                };
                *to.last_mut().expect("one") = spread + low + high;
                parts.push(format!("{low}_{high}_{interior}"));
            }
            if to.iter().any(|size| *size < 0) {
                return instance(&[&own], &own, "copy");
            }
            let text = format!("pad , padding={}", parts.join("x"));
            instance(&[&own, "f32[]"], &shape("f32", &to), &text)
        }
        7 => {
            let dim = usize::try_from(random.range(0, rank - 1)).expect("a place");
            let mut shapes = Vec::new();
            let mut to = dims.clone();
            to[dim] = 0;
            for _ in 0..random.range(1, 3) {
                let mut part = dims.clone();
                part[dim] = random.range(1, 3);
                to[dim] += part[dim];
                shapes.push(shape("f32", &part));
            }
            let shapes: Vec<&str> = shapes.iter().map(String::as_str).collect();
            instance(
                &shapes,
                &shape("f32", &to),
                &format!("concatenate , dimensions={{{dim}}}"),
            )
        }
        8 => {
            let total: i64 = dims.iter().product();
            let mut to = Vec::new();
            let mut rest = total;
            while rest > 1 {
                let divisors: Vec<i64> = (2..=rest).filter(|d| rest % d == 0).collect();
                let pick = random.range(0, divisors.len() as i64 - 1);
                let size = divisors[usize::try_from(pick).expect("a place")];
                to.push(size);
                rest /= size;
                if random.range(0, 3) == 0 {
                    to.push(1);
                }
            }
            instance(&[&own], &shape("f32", &to), "reshape")
        }
        9 => {
            let more = random.range(0, 2);
            let (mut to, mut places) = (Vec::new(), Vec::new());
            let mut left = more;
            for (dim, size) in dims.iter().enumerate() {
                while left > 0 && random.range(0, 1) == 1 {
                    to.push(random.range(1, 3));
                    left -= 1;
                }
                places.push(to.len() as i64);
                to.push(*size);
                if dim + 1 == dims.len() {
                    (0..left).for_each(|_| to.push(2));
                }
            }
            let text = format!("broadcast , dimensions={{{}}}", list(&places));
            instance(&[&own], &shape("f32", &to), &text)
        }
        10 => {
            let order = random.permutation(dims.len());
            let from = format!("{own}{{{}}}", list(&order));
            let to: Vec<i64> = order.iter().rev().map(|d| dims[*d as usize]).collect();
            let minor: Vec<i64> = (0..rank).rev().collect();
            let to = format!("{}{{{}}}", shape("f32", &to), list(&minor));
            instance(&[&from], &to, "bitcast")
        }
        _ => instance(&[&own], &shape("s32", &dims), "bitcast-convert"),
    }
}
