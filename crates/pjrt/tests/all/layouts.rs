//! Compares the bindings with the layout that a C compiler gives the header's structs.

use crate::layout_rows::rows;
use std::collections::BTreeMap;
use tegula_pjrt::c_api::*;

#[test]
fn structs_lie_as_in_c() {
    let of_c = include_str!("layout.txt").lines().map(|line| {
        let (name, number) = line.split_once(' ').expect("two words");
        (name.to_owned(), number.parse().expect("a number"))
    });
    let of_c: BTreeMap<String, usize> = of_c.collect();
    let of_rust: BTreeMap<String, usize> = rows().into_iter().collect();
    assert!(of_c.len() > 1000, "{} rows", of_c.len());
    assert_eq!(of_c, of_rust);
}

#[test]
fn sizes_end_with_the_last_field() {
    // Padding follows the truth value at the end, which front ends do not count.
    assert_eq!(PJRT_Event_IsReady_Args::SIZE, 25);
    assert_eq!(size_of::<PJRT_Event_IsReady_Args>(), 32);
    assert_eq!(PJRT_Error_Destroy_Args::SIZE, 24);
}
