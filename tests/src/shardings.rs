//! Random shardings for random programs.

use crate::random::Random;
use std::fmt::Write;
use tegula_ir::{Annotations, InstructionId, Literal, Module, Op, Shape};

/// A random sharding of an array of this rank, in which axes of the mesh divide some dimensions.
fn sharding(random: &mut Random, mesh: &[i64], rank: usize) -> String {
    let count: i64 = mesh.iter().product();
    let mut axes: Vec<usize> = (0..mesh.len()).collect();
    for place in (1..axes.len()).rev() {
        axes.swap(place, random.below(place + 1));
    }
    let mut by_dim: Vec<Vec<usize>> = vec![Vec::new(); rank];
    let mut copies = Vec::new();
    for axis in axes {
        match rank > 0 && !random.once_in(4) {
            true => by_dim[random.below(rank)].push(axis),
            false => copies.push(axis),
        }
    }
    let size = |axes: &[usize]| -> i64 { axes.iter().map(|&axis| mesh[axis]).product() };
    let mut dims: Vec<i64> = by_dim.iter().map(|axes| size(axes)).collect();
    if dims.iter().all(|parts| *parts == 1) {
        return "{replicated}".to_owned();
    }
    let mut order: Vec<usize> = by_dim.into_iter().flatten().collect();
    let mut text = String::from("{devices=[");
    if size(&copies) > 1 {
        dims.push(size(&copies));
    }
    order.extend(&copies);
    let list = |numbers: &[i64]| -> String {
        let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        texts.join(",")
    };
    let _ = write!(text, "{}]", list(&dims));
    // The order of the mesh's axes in the tile assignment: the argument of `T`.
    let places: Vec<i64> = order.iter().map(|&axis| axis as i64).collect();
    let _ = write!(text, "<=[{}]T({})", list(mesh), list(&places));
    if size(&copies) > 1 {
        text.push_str(" last_tile_dim_replicate");
    }
    let _ = count;
    text.push('}');
    text
}

/// Annotates parameters, some results and some intermediate arrays with random shardings.
pub fn annotate(module: &mut Module, random: &mut Random, mesh: &[i64]) {
    let ids: Vec<InstructionId> = module.instructions.keys().collect();
    let entry = module.entry;
    for id in ids {
        let instruction = &module[id];
        let in_entry = instruction.computation == entry;
        let likely = match instruction.op {
            Op::Parameter(_) if in_entry => 2,
            _ if in_entry => 8,
            _ => continue,
        };
        let Shape::Array(array) = &instruction.shape else {
            continue;
        };
        if !random.once_in(likely) {
            continue;
        }
        let text = sharding(random, mesh, array.rank());
        module.instructions[id].annotations = Some(Box::new(Annotations {
            sharding: Some(text.into()),
            ..Annotations::default()
        }));
    }
    module.attributes.num_partitions = Some(mesh.iter().product());
}

/// Whether two arrays have the same elements. Signs of zeros may differ, because a sum of partial
/// sums may be a zero of the other sign.
pub fn same(a: &Literal, b: &Literal) -> bool {
    a.bytes() == b.bytes()
        || a.shape().same_ignoring_layout(b.shape())
            && a.scalars().zip(b.scalars()).all(|(a, b)| {
                a == b
                    || a.to_f64() == 0.0 && b.to_f64() == 0.0
                    || a.to_f64().is_nan() && b.to_f64().is_nan()
            })
}
