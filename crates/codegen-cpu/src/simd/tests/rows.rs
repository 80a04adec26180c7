//! Compares calls that compute several rows with calls for each row.

use crate::simd::ir::Storage;
use crate::simd::row_addressing::{Change, RowsIn, Turns, Word};
use crate::simd::test_harness::CompiledRows;
use crate::simd::tests::*;

const COUNTS: [usize; 7] = [1, 2, 15, 16, 17, 33, 48];
const ROW_LENGTHS: [u64; 9] = [1, 3, 8, 16, 17, 33, 64, 70, 255];

/// A body with two reductions of an array's elements, which also stores each element combined with
/// a number of the row.
fn body_of(ty: Type, ops: [BinaryOp; 2]) -> Body {
    let mut b = Builder::new();
    let [from, to] = [(); 2].map(|()| pointer(&mut b, bytes_of(ty)));
    let own = b.input(Input::Number(ty));
    let x = b.load(from, ty, None);
    let own = b.splat(own, ty);
    let y = b.binary(BinaryOp::Sub, x, own);
    b.store(to, y, None, None);
    for (op, value) in ops.into_iter().zip([x, y]) {
        b.body().reductions.push(Reduction { op, value });
    }
    b.finish()
}

#[test]
fn rows_are_those_that_one_call_each_gives() {
    use BinaryOp as B;
    for (ty, ops) in [
        (Type::I32, [B::Add, B::Xor]),
        (Type::I32, [B::MaxSigned, B::MinUnsigned]),
        (Type::I64, [B::Add, B::MinSigned]),
        (Type::F32, [B::Maximum, B::Minimum]),
        (Type::F32, [B::Minimum, B::Maximum]),
        (Type::F64, [B::Maximum, B::Minimum]),
    ] {
        let body = body_of(ty, ops);
        let all = CompiledRows::all(&body, RowsIn::Slots, None);
        let one = Compiled::all(&body).swap_remove(0);
        let size = bytes_of(ty) as usize;
        for n in ROW_LENGTHS {
            for rows in COUNTS {
                let input = numbers(ty, 11, n * rows as u64);
                let own = numbers(ty, 5, rows as u64);
                let args = |out: &mut [u8]| -> Vec<Vec<u64>> {
                    let rows = (0..rows).map(|row| {
                        let mut number = [0; 8];
                        number[..size].copy_from_slice(&own[row * size..][..size]);
                        let before = row * n as usize * size;
                        let from = input[before..].as_ptr() as u64;
                        let to = out[GUARD + before..].as_mut_ptr() as u64;
                        vec![from, to, u64::from_le_bytes(number)]
                    });
                    rows.collect()
                };
                let mut want = vec![0x5au8; 2 * GUARD + size * n as usize * rows];
                let inputs = args(&mut want);
                // SAFETY: each row has `n` elements in both arrays.
                let run = |inputs: &Vec<u64>| unsafe { one.run(inputs, n) };
                let reduced: Vec<Vec<u64>> = inputs.iter().map(run).collect();
                for compiled in &all {
                    let mut out = vec![0x5au8; want.len()];
                    let inputs = args(&mut out);
                    // SAFETY: each row has `n` elements in both arrays.
                    let results = unsafe { compiled.run(&body, &inputs, n) };
                    let name = format!("{ops:?} of {ty:?}, {} of {rows}x{n}", compiled.name);
                    assert!(same(ty, &out, &want), "what is stored: {name}");
                    for (got, want) in results.concat().iter().zip(reduced.concat()) {
                        let (got, want) = (got.to_le_bytes(), want.to_le_bytes());
                        assert!(same(ty, &got[..size], &want[..size]), "{name}");
                    }
                }
            }
        }
    }
}

/// A call for no rows writes nothing.
#[test]
fn no_rows() {
    let body = body_of(Type::F32, [BinaryOp::Add, BinaryOp::Maximum]);
    for compiled in CompiledRows::all(&body, RowsIn::Slots, None) {
        // SAFETY: nothing is accessed.
        let results = unsafe { compiled.run(&body, &[], 5) };
        assert!(results.is_empty(), "{}", compiled.name);
    }
}

/// `to[i] += from[i] - own`, for elements stored in this many bytes.
fn sum_of(ty: Type, bytes: u32) -> Body {
    let mut b = Builder::new();
    let [to, from] = [(); 2].map(|()| pointer(&mut b, bytes));
    let own = b.input(Input::Number(ty));
    let [old, x] = [to, from].map(|access| b.load(access, ty, None));
    let own = b.splat(own, ty);
    let x = b.binary(BinaryOp::Sub, x, own);
    let sum = b.binary(BinaryOp::Add, old, x);
    b.store(to, sum, None, None);
    b.finish()
}

/// Iterations that add rows to rows at indices, some of which are out of bounds or clamped, and
/// some repeated.
#[test]
fn turns_are_the_rows_of_a_loop() {
    const PLACES: usize = 5;
    for (ty, bytes) in [
        (Type::I32, 4),
        (Type::I32, 2),
        (Type::I32, 1),
        (Type::F32, 4),
        (Type::F64, 8),
    ] {
        let body = sum_of(ty, bytes);
        let one = Compiled::all(&body).swap_remove(0);
        for n in [1, 3, 4, 7, 8, 12, 16, 20, 24, 33, 48, 64, 70, 255] {
            for (rows, clamp) in [(0, None), (1, None), (17, None), (40, Some([1, 3]))] {
                let row = n as usize * bytes as usize;
                let indices: Vec<i16> = (0..rows).map(|i| (i * i + 3 * i) as i16 % 9 - 2).collect();
                let from = numbers(ty, 11, n * rows as u64 * u64::from(bytes));
                let own = numbers(ty, 5, rows as u64);
                let size = bytes_of(ty) as usize;
                let words = [
                    Word {
                        storage: Storage {
                            bytes: 2,
                            signed: true,
                        },
                        step: 2,
                        clamp,
                        most: clamp.is_none().then_some(PLACES as i32 - 1),
                    },
                    Word {
                        storage: Storage {
                            bytes: size as u32,
                            signed: false,
                        },
                        step: size as i32,
                        clamp: None,
                        most: None,
                    },
                ];
                let change = |step, words| Change { step, words };
                let turns = Turns {
                    words: words.to_vec(),
                    inputs: vec![
                        change(0, vec![(0, row as i32)]),
                        change(row as i32, vec![]),
                        change(0, vec![(1, 1)]),
                    ],
                };
                let mut want = vec![0u8; 2 * GUARD + PLACES * row];
                let mut want_row = |index: usize, i: usize| {
                    let mut number = [0; 8];
                    number[..size].copy_from_slice(&own[i * size..][..size]);
                    let to = want[GUARD + index * row..].as_mut_ptr() as u64;
                    let inputs = [
                        to,
                        from[i * row..].as_ptr() as u64,
                        u64::from_le_bytes(number),
                    ];
                    // SAFETY: both rows are inside.
                    unsafe { one.run(&inputs, n) };
                };
                for (i, &index) in indices.iter().enumerate() {
                    let index = match clamp {
                        Some([least, most]) => i32::from(index).clamp(least, most),
                        None => i32::from(index),
                    };
                    if (0..PLACES as i32).contains(&index) {
                        want_row(index as usize, i);
                    }
                }
                for lanes in [None, Some(n.cast_signed())] {
                    for compiled in CompiledRows::all(&body, RowsIn::Turns(&turns), lanes) {
                        let mut out = vec![0u8; want.len()];
                        let mut slots = [
                            out[GUARD..].as_mut_ptr() as u64,
                            from.as_ptr() as u64,
                            0,
                            indices.as_ptr() as u64,
                            own.as_ptr() as u64,
                        ];
                        // SAFETY: both rows are inside; for each turn.
                        unsafe { compiled.run_turns(&mut slots, n, rows) };
                        let name = format!("{ty:?} in {bytes}, {} of {rows}x{n}", compiled.name);
                        let equal = match bytes < 4 {
                            true => out == want,
                            false => same(ty, &out, &want),
                        };
                        assert!(equal, "{name}, lanes {lanes:?}");
                    }
                }
            }
        }
    }
}
