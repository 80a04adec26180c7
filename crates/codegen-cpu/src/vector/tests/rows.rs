//! Several rows in one call, against the same rows one by one.

use super::*;
use crate::vector::run::CompiledRows;

const COUNTS: [usize; 7] = [1, 2, 15, 16, 17, 33, 48];
const ROW_LENGTHS: [u64; 9] = [1, 3, 8, 16, 17, 33, 64, 70, 255];

/// Two reductions of an array's elements, and what is stored of each with a number of the row.
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
        let all = CompiledRows::all(&body);
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
                    // SAFETY: as above.
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

/// Nothing is written for no rows.
#[test]
fn no_rows() {
    let body = body_of(Type::F32, [BinaryOp::Add, BinaryOp::Maximum]);
    for compiled in CompiledRows::all(&body) {
        // SAFETY: nothing is accessed.
        let results = unsafe { compiled.run(&body, &[], 5) };
        assert!(results.is_empty(), "{}", compiled.name);
    }
}
