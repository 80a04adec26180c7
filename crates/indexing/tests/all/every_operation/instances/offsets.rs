//! Operations whose indices are data.

use super::super::case::{Instance, instance};
use super::{list, random_sizes, shape};
use crate::common::Random;

pub(crate) fn with_offsets(random: &mut Random, kind: i64) -> Instance {
    let rank = random.range(1, 2);
    let dims = random_sizes(random, rank, 5);
    let slice: Vec<i64> = dims.iter().map(|size| random.range(1, *size)).collect();
    let own = shape("f32", &dims);
    let part = shape("f32", &slice);
    let offsets = vec!["s32[]"; dims.len()];
    match kind {
        0 => {
            let operands = [vec![own.as_str()], offsets].concat();
            let text = format!("dynamic-slice , dynamic_slice_sizes={{{}}}", list(&slice));
            instance(&operands, &part, &text)
        }
        1 => {
            let operands = [vec![own.as_str(), part.as_str()], offsets].concat();
            instance(&operands, &own, "dynamic-update-slice")
        }
        2 | 3 => gather_or_scatter(random, kind == 3),
        _ => batched_gather_or_scatter(random, kind == 5),
    }
}

fn gather_or_scatter(random: &mut Random, scatter: bool) -> Instance {
    let dims = random_sizes(random, 2, 4);
    let count = random.range(1, 3);
    let collapsed = random.range(0, 1) == 1;
    let first = if collapsed {
        1
    } else {
        random.range(1, dims[0])
    };
    let second = random.range(1, dims[1]);
    let components = random.range(1, 2);
    let order = if components == 2 && random.range(0, 1) == 1 {
        "1,0"
    } else {
        "0,1"
    };
    let order = if components == 1 { "0" } else { order };
    let indices = shape("s32", &[count, components]);
    let (window, offset, removed) = if collapsed {
        (vec![count, second], "1", "0")
    } else {
        (vec![count, first, second], "1,2", "")
    };
    let (own, part) = (shape("f32", &dims), shape("f32", &window));
    if scatter {
        let text = format!(
            "scatter , update_window_dims={{{offset}}}, inserted_window_dims={{{removed}}}, scatter_dims_to_operand_dims={{{order}}}, index_vector_dim=1, to_apply=add"
        );
        return instance(&[&own, &indices, &part], &own, &text);
    }
    let text = format!(
        "gather , offset_dims={{{offset}}}, collapsed_slice_dims={{{removed}}}, start_index_map={{{order}}}, index_vector_dim=1, slice_sizes={{{first},{second}}}"
    );
    instance(&[&own, &indices], &part, &text)
}

fn batched_gather_or_scatter(random: &mut Random, scatter: bool) -> Instance {
    let (batch, rows, count) = (random.range(1, 3), random.range(1, 4), random.range(1, 3));
    let columns = random.range(1, 2);
    let own = shape("f32", &[batch, rows, columns]);
    let indices = shape("s32", &[batch, count, 1]);
    let part = shape("f32", &[batch, count, columns]);
    if scatter {
        return instance(
            &[&own, &indices, &part],
            &own,
            "scatter , update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add",
        );
    }
    let text = format!(
        "gather , offset_dims={{2}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, operand_batching_dims={{0}}, start_indices_batching_dims={{0}}, index_vector_dim=2, slice_sizes={{1,1,{columns}}}"
    );
    instance(&[&own, &indices], &part, &text)
}
