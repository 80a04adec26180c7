//! Matrix fragments: `mma.sync`, `ldmatrix`, `stmatrix`.
//!
//! Let `group = lane / 4` and `thread = lane % 4`. Of A (16 x k, with `n` elements per register),
//! register `2j + i` of a lane has row `group + 8i`, columns `j * 4n + thread * n ..`. Of B (k x
//! 8), register `j` has rows `j * 4n + thread * n ..` of column `group`. Of C and D, register `2i +
//! e` has row `group + 8i`, column `2 * thread + e` (PTX ISA, "Matrix fragments for mma").
//!
//! Products are exact and are summed in `f64` with the accumulator, then rounded once; the
//! hardware's order and truncation are not specified. For f16 and bf16 of moderate range, the sum
//! in `f64` is exact.

use super::address::{Request, addresses, aligned, note_traffic, region, resolve};
use super::context::Context;
use super::shadow::shadow;
use super::warp::Warp;
use crate::operation::{Address, Collective, LANES, R32, Space};
use crate::report::FindingKind;

pub(super) fn execute(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    what: &Collective,
    active: u32,
    mask: u32,
) {
    if active & warp.existing != warp.existing || mask != u32::MAX {
        let threads = context.threads(warp.index, warp.existing & !active);
        context.find(FindingKind::WarpMask, pc, None, threads, |_| {
            "a matrix instruction needs all lanes of the warp".to_owned()
        });
    }
    match what {
        Collective::LoadMatrix {
            count,
            transposed,
            registers,
            address,
        } => {
            let registers = &registers[..*count as usize];
            load(warp, context, pc, address, registers, *transposed);
        }
        Collective::StoreMatrix {
            count,
            transposed,
            registers,
            address,
        } => {
            let registers = &registers[..*count as usize];
            store(warp, context, pc, address, registers, *transposed);
        }
        Collective::Multiply(multiply) => {
            super::lanes::multiply(warp, multiply, active, context.vectors);
        }
        _ => {}
    }
}

/// The place of each row of each matrix, and the lanes for which the place is valid. Lanes 0 to 7
/// have the rows of the first matrix.
fn rows(
    warp: &Warp,
    context: &mut Context<'_>,
    address: &Address,
    count: usize,
    request: &Request,
) -> Option<(u32, [usize; LANES])> {
    let lanes = ((1u64 << (8 * count)) - 1) as u32;
    let mut to = addresses(warp, address);
    if address.space != Space::Shared {
        to = to.map(|a| super::address::window(a).1);
    }
    let good = aligned(context, request, &to, lanes);
    note_traffic(context, request, Space::Shared, &to, good);
    // Shared memory is a single region, so all places in it are found at once.
    let mut found = None;
    let mut rest = good;
    while rest != 0 {
        if let Some((_, lanes, offsets)) = resolve(context, request, Space::Shared, &to, &mut rest)
        {
            found = Some((lanes, offsets));
        }
    }
    found
}

fn request(warp: &Warp, pc: u32, writes: bool) -> Request {
    Request {
        pc,
        bytes: 16,
        writes,
        reads: !writes,
        strong: false,
        constant: false,
        warp: warp.index,
    }
}

fn load(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    address: &Address,
    registers: &[R32],
    transposed: bool,
) {
    let request = request(warp, pc, false);
    // A row has four words of two elements.
    let mut matrices = [[[0u32; 4]; 8]; 4];
    if let Some((lanes, offsets)) = rows(warp, context, address, registers.len(), &request) {
        shadow(
            context,
            super::address::Place::Shared,
            &request,
            &offsets,
            lanes,
            0,
        );
        let data = &region(context, super::address::Place::Shared).data;
        for (lane, row) in matrices.as_flattened_mut().iter_mut().enumerate() {
            if lanes >> lane & 1 != 0
                && let Some(bytes) = data
                    .get(offsets[lane]..)
                    .and_then(<[u8]>::first_chunk::<16>)
            {
                let words = bytes.as_chunks::<4>().0.iter();
                row.iter_mut()
                    .zip(words)
                    .for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
            }
        }
    }
    for (matrix, register) in matrices.iter().zip(registers) {
        let mut values = [0u32; LANES];
        if transposed {
            for (pair, rows) in matrix.as_chunks::<2>().0.iter().enumerate() {
                for column in 0..8 {
                    let [low, high] = [0, 1].map(|r| rows[r][column / 2] >> (16 * (column % 2)));
                    values[4 * column + pair] = low & 0xffff | high << 16;
                }
            }
        } else {
            values.copy_from_slice(matrix.as_flattened());
        }
        warp.set_word(*register, u32::MAX, &values);
    }
}

fn store(
    warp: &mut Warp,
    context: &mut Context<'_>,
    pc: u32,
    address: &Address,
    registers: &[R32],
    transposed: bool,
) {
    let request = request(warp, pc, true);
    let mut matrices = [[[0u16; 8]; 8]; 4];
    for (matrix, register) in matrices.iter_mut().zip(registers) {
        for (lane, value) in warp.word(*register).iter().enumerate() {
            for e in 0..2 {
                let (row, column) = (lane / 4, lane % 4 * 2 + e);
                let (row, column) = if transposed {
                    (column, row)
                } else {
                    (row, column)
                };
                matrix[row][column] = (value >> (16 * e)) as u16;
            }
        }
    }
    if let Some((lanes, offsets)) = rows(warp, context, address, registers.len(), &request) {
        let target = region(context, super::address::Place::Shared);
        for lane in (0..LANES).filter(|l| lanes >> l & 1 != 0) {
            for (column, element) in matrices[lane / 8][lane % 8].iter().enumerate() {
                let at = offsets[lane] + 2 * column;
                target.data[at..at + 2].copy_from_slice(&element.to_le_bytes());
            }
            target.mark_written(offsets[lane], 16);
        }
        shadow(
            context,
            super::address::Place::Shared,
            &request,
            &offsets,
            lanes,
            0,
        );
    }
}
