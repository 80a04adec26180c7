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

use super::access::{Request, addresses, aligned, note_traffic, region, resolve};
use super::context::Context;
use super::shadow::shadow;
use super::warp::Warp;
use crate::number::{BF16, F16, Rounding, TF32, canonical};
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
            super::lanes::multiply(warp, multiply, active, context.vectors);
        }
        _ => {}
    }
}

/// Where each row of each matrix is, and the lanes for which it is somewhere: lanes 0 to 7
/// hold those of the first.
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
        to = to.map(|a| super::access::window(a).1);
    }
    let good = aligned(context, request, &to, lanes);
    note_traffic(context, request, Space::Shared, &to, good);
    // Shared memory is one region, so those that are in it are found at once.
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
    // A row is four words of two elements.
    let mut matrices = [[[0u32; 4]; 8]; 4];
    if let Some((lanes, offsets)) = rows(warp, context, address, registers.len(), &request) {
        shadow(
            context,
            super::access::Place::Shared,
            &request,
            &offsets,
            lanes,
            0,
        );
        let data = &region(context, super::access::Place::Shared).data;
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

/// Operands as numbers, at most `K` deep: rows of A, and of B.
struct Factors<const K: usize> {
    a: [[f64; K]; 16],
    b: [[f64; 8]; K],
}

/// The two halves of each lane's register. Those of eight rows, or columns, of four lanes
/// lie one after the other.
#[inline(always)]
fn halves(kind: MatrixType, register: &[u32; LANES]) -> [f64; 2 * LANES] {
    let mut values = [0.0; 2 * LANES];
    for (pair, bits) in values.as_chunks_mut::<2>().0.iter_mut().zip(register) {
        *pair = match kind {
            MatrixType::Float(format) if format == F16 => [single(*bits), single(*bits >> 16)],
            _ => [bits << 16, bits & 0xffff_0000].map(f32::from_bits),
        }
        .map(f64::from);
    }
    values
}

/// The f16 in the low half of a word.
#[inline(always)]
fn single(bits: u32) -> f32 {
    let magnitude = (bits & 0x7fff) << 13;
    // The exponent's bias is another, by 112; infinities and NaNs keep theirs at the top.
    let usual = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
    let special = magnitude | 0x7f80_0000;
    let value = if bits & 0x7c00 == 0x7c00 {
        special
    } else {
        usual
    };
    f32::from_bits(value | (bits & 0x8000) << 16)
}

impl<const K: usize> Factors<K> {
    #[inline(always)]
    fn zeros() -> Self {
        Self {
            a: [[0.0; K]; 16],
            b: [[0.0; 8]; K],
        }
    }

    /// Takes up bf16 or f16.
    #[inline(always)]
    fn take_halves(&mut self, warp: &Warp, m: &Multiply) {
        for (index, register) in m.a.iter().enumerate() {
            let values = halves(m.a_type, warp.word(*register));
            let from = index / 2 * 8 % K;
            let rows = self.a[index % 2 * 8..].iter_mut();
            for (row, values) in rows.zip(values.as_chunks::<8>().0) {
                row[from..from + 8].copy_from_slice(values);
            }
        }
        for (index, register) in m.b.iter().enumerate() {
            let values = halves(m.b_type, warp.word(*register));
            let rows = self.b[index * 8 % K..].iter_mut().take(8);
            for (row, values_of_row) in rows.enumerate() {
                for (column, value) in values_of_row.iter_mut().enumerate() {
                    *value = values[8 * column + row];
                }
            }
        }
    }

    /// Takes up elements of any type.
    fn take(&mut self, warp: &Warp, m: &Multiply) {
        let n = each(m.a_type);
        for (index, register) in m.a.iter().enumerate() {
            for (lane, value) in warp.word(*register).iter().enumerate() {
                let (row, column) = (lane / 4 + 8 * (index % 2), index / 2 * 4 * n + lane % 4 * n);
                elements(m.a_type, *value, n, |e, x| {
                    self.a[row][(column + e) % K] = x;
                });
            }
        }
        for (index, register) in m.b.iter().enumerate() {
            for (lane, value) in warp.word(*register).iter().enumerate() {
                let (column, row) = (lane / 4, index * 4 * n + lane % 4 * n);
                elements(m.b_type, *value, n, |e, x| {
                    self.b[(row + e) % K][column] = x;
                });
            }
        }
    }

    /// Products of types of this crate are exact, so that fusing their sums changes
    /// nothing.
    #[inline(always)]
    fn sums<const FUSED: bool>(&self, k: usize) -> [[f64; 8]; 16] {
        let mut sums = [[0.0f64; 8]; 16];
        // Four terms at once, so that a sum is in memory once for four.
        let steps = self.b.as_chunks::<4>().0.iter().take(k / 4);
        for (step, b) in steps.enumerate() {
            for (sums, a) in sums.iter_mut().zip(&self.a) {
                let Some(a) = a.as_chunks::<4>().0.get(step) else {
                    continue;
                };
                let mut sum = *sums;
                for (a, b) in a.iter().zip(b) {
                    for (sum, b) in sum.iter_mut().zip(b) {
                        *sum = match FUSED {
                            true => a.mul_add(*b, *sum),
                            false => *sum + a * b,
                        };
                    }
                }
                *sums = sum;
            }
        }
        sums
    }
}

/// `mma` by all lanes; `FUSED`: the processor has fused multiplication.
#[inline(always)]
pub(super) fn multiply<const FUSED: bool>(warp: &mut Warp, m: &Multiply, active: u32) {
    let is_half =
        |kind| matches!(kind, MatrixType::Float(format) if format == F16 || format == BF16);
    let sums = if is_half(m.a_type) && is_half(m.b_type) && m.k == 16 {
        // The usual shape, with loops of known length.
        let mut factors = Factors::<16>::zeros();
        factors.take_halves(warp, m);
        factors.sums::<FUSED>(16)
    } else {
        let mut factors = Factors::<DEEPEST>::zeros();
        factors.take(warp, m);
        factors.sums::<FUSED>(m.k as usize)
    };
    if let (Type::F32, [d0, d1, d2, d3], [c0, c1, c2, c3]) = (m.result, &m.d[..], &m.c[..]) {
        let before = [c0, c1, c2, c3].map(|c| *warp.word(*c));
        for (half, (d, c)) in [[d0, d1], [d2, d3]]
            .iter()
            .zip(before.chunks(2))
            .enumerate()
        {
            let sums = sums[8 * half..8 * half + 8].as_flattened();
            for (e, (d, c)) in d.iter().zip(c).enumerate() {
                let mut values = [0; LANES];
                for lane in 0..LANES {
                    let sum = sums[2 * lane + e] + f64::from(f32::from_bits(c[lane]));
                    values[lane] = canonical(sum as f32);
                }
                warp.set_word(**d, active, &values);
            }
        }
        return;
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
