//! Matrix fragments: `mma.sync`, `ldmatrix`, `stmatrix`.
//!
//! A lane is `group = lane / 4`, `thread = lane % 4`. Of A (16 x k, elements of which a
//! register holds `n`), register `2j + i` of a lane holds row `group + 8i`, columns
//! `j * 4n + thread * n ..`; of B (k x 8), register `j` holds rows `j * 4n + thread * n ..`
//! of column `group`; of C and D, register `2i + e` holds row `group + 8i`, column
//! `2 * thread + e` (PTX ISA, "Matrix fragments for mma").
//!
//! Products are exact and summed in `f64` with the accumulator, then rounded once; the
//! hardware's order and truncation are not specified. For f16 and bf16 of moderate
//! range the sum in `f64` is exact.

use super::access::{Request, addresses, aligned, from_bytes, note_traffic, region, resolve};
use super::context::Context;
use super::shadow::shadow;
use super::warp::Warp;
use crate::number::{F16, Rounding, TF32, canonical};
use crate::operation::{Address, Collective, LANES, MatrixType, Multiply, R32, Space, Type};
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
            super::lanes::multiply(warp, multiply, active, context.wide);
        }
        _ => {}
    }
}

/// The address of each row of each matrix: lanes 0 to 7 hold those of the first.
fn rows(
    warp: &Warp,
    context: &mut Context<'_>,
    address: &Address,
    count: usize,
    request: &Request,
) -> Vec<(u32, [usize; LANES])> {
    let lanes = ((1u64 << (8 * count)) - 1) as u32;
    let mut to = addresses(warp, address);
    if address.space != Space::Shared {
        to = to.map(|a| super::access::window(a).1);
    }
    let good = aligned(context, request, &to, lanes);
    note_traffic(context, request, Space::Shared, &to, good);
    let mut found = Vec::new();
    let mut rest = good;
    while rest != 0 {
        if let Some((_, lanes, offsets)) = resolve(context, request, Space::Shared, &to, &mut rest)
        {
            found.push((lanes, offsets));
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
    let mut matrices = [[[0u16; 8]; 8]; 4];
    for (lanes, offsets) in rows(warp, context, address, registers.len(), &request) {
        shadow(
            context,
            super::access::Place::Shared,
            &request,
            &offsets,
            lanes,
            0,
        );
        let data = &region(context, super::access::Place::Shared).data;
        for lane in (0..LANES).filter(|l| lanes >> l & 1 != 0) {
            for (column, element) in matrices[lane / 8][lane % 8].iter_mut().enumerate() {
                let at = offsets[lane] + 2 * column;
                *element = from_bytes(&data[at..at + 2], false) as u16;
            }
        }
    }
    for (matrix, register) in matrices.iter().zip(registers) {
        let element = |row: usize, column: usize| {
            u32::from(if transposed {
                matrix[column][row]
            } else {
                matrix[row][column]
            })
        };
        let values = std::array::from_fn(|lane| {
            let (row, column) = (lane / 4, lane % 4 * 2);
            element(row, column) | element(row, column + 1) << 16
        });
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
    for (lanes, offsets) in rows(warp, context, address, registers.len(), &request) {
        let target = region(context, super::access::Place::Shared);
        for lane in (0..LANES).filter(|l| lanes >> l & 1 != 0) {
            for (column, element) in matrices[lane / 8][lane % 8].iter().enumerate() {
                let at = offsets[lane] + 2 * column;
                target.data[at..at + 2].copy_from_slice(&element.to_le_bytes());
            }
            target.mark_written(offsets[lane], 16);
        }
        shadow(
            context,
            super::access::Place::Shared,
            &request,
            &offsets,
            lanes,
            0,
        );
    }
}

/// Elements that a register holds.
fn each(kind: MatrixType) -> usize {
    match kind {
        MatrixType::Float(format) => match 1 + format.mantissa + format.exponent {
            8 => 4,
            16 => 2,
            _ => 1,
        },
        MatrixType::U8 | MatrixType::S8 => 4,
    }
}

/// The elements of a register, at most four.
#[inline(always)]
fn elements(kind: MatrixType, register: u32, n: usize, mut each: impl FnMut(usize, f64)) {
    for e in 0..n {
        each(
            e,
            match kind {
                MatrixType::Float(format) if format == TF32 => {
                    // The low 13 bits of a tf32 are ignored.
                    f64::from(f32::from_bits(register & !0x1fff))
                }
                MatrixType::Float(format) if n == 2 => format.value(register >> (16 * e) & 0xffff),
                MatrixType::Float(format) => format.value(register >> (8 * e) & 0xff),
                MatrixType::U8 => f64::from((register >> (8 * e)) as u8),
                MatrixType::S8 => f64::from((register >> (8 * e)) as i8),
            },
        );
    }
}

/// The largest k.
const DEEPEST: usize = 32;

/// `mma` by all lanes.
#[inline(always)]
pub(super) fn multiply(warp: &mut Warp, m: &Multiply, active: u32) {
    // Rows of A and of B.
    let mut a = [[0.0f64; DEEPEST]; 16];
    let mut b = [[0.0f64; 8]; DEEPEST];
    let n = each(m.a_type);
    for (index, register) in m.a.iter().enumerate() {
        for (lane, value) in warp.word(*register).iter().enumerate() {
            let (row, column) = (lane / 4 + 8 * (index % 2), index / 2 * 4 * n + lane % 4 * n);
            elements(m.a_type, *value, n, |e, x| {
                a[row][(column + e) % DEEPEST] = x;
            });
        }
    }
    for (index, register) in m.b.iter().enumerate() {
        for (lane, value) in warp.word(*register).iter().enumerate() {
            let (column, row) = (lane / 4, index * 4 * n + lane % 4 * n);
            elements(m.b_type, *value, n, |e, x| {
                b[(row + e) % DEEPEST][column] = x;
            });
        }
    }
    let mut sums = [[0.0f64; 8]; 16];
    for (sums, a) in sums.iter_mut().zip(&a) {
        let mut sum = [0.0; 8];
        for (a, b) in a.iter().zip(&b).take(m.k as usize) {
            (0..8).for_each(|column| sum[column] += a * b[column]);
        }
        *sums = sum;
    }
    for (index, (d, c)) in m.d.iter().zip(&m.c).enumerate() {
        let c = *warp.word(*c);
        let mut values = [0; LANES];
        for lane in 0..LANES {
            let (group, column) = (lane / 4, lane % 4 * 2);
            values[lane] = match m.result {
                Type::F16 => (0..2).fold(0, |value, e| {
                    let sum = sums[group + 8 * index][column + e];
                    let sum = sum + F16.value(c[lane] >> (16 * e) & 0xffff);
                    value | F16.round(sum, Rounding::NearestEven) << (16 * e)
                }),
                Type::F32 => {
                    let sum = sums[group + 8 * (index / 2)][column + index % 2];
                    canonical((sum + f64::from(f32::from_bits(c[lane]))) as f32)
                }
                _ => {
                    let sum = sums[group + 8 * (index / 2)][column + index % 2] as i64;
                    let sum = sum + i64::from(c[lane] as i32);
                    let limit = |v: i64| v.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                    (if m.saturate { limit(sum) } else { sum }) as u32
                }
            };
        }
        warp.set_word(*d, active, &values);
    }
}
