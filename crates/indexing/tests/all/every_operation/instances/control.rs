//! Calls, branches, loops and tuples.

use super::super::case::{Instance, instance};

pub(crate) fn control(kind: i64) -> Instance {
    let state = "(s32[], f32[2,3], f32[2])";
    match kind {
        0 => instance(&["f32[2,3]", "f32[3,2]"], "f32[2,3]", "call , to_apply=two"),
        1 => instance(
            &["f32[2,3]", "f32[3,2]"],
            "f32[2,3]",
            "fusion , kind=kLoop, calls=two",
        ),
        2 => instance(
            &["pred[]", "f32[2,3]", "f32[2,3]"],
            "f32[3,2]",
            "conditional , true_computation=flip, false_computation=turn",
        ),
        3 => instance(&[state], state, "while , condition=below, body=step"),
        4 => instance(&[state], "f32[2,3]", "get-tuple-element , index=1"),
        _ => instance(&["f32[2,3]", "s32[2]"], "(f32[2,3], s32[2])", "tuple"),
    }
}
