//! Tiles: parts of arrays that are copied to the stack with lanes and rows exchanged, so that the rows
//! of a [block](crate::vectorize::select_loops::Across) load their lanes contiguously.
//!
//! A gather takes as long as a load for each lane. A tile is transposed in squares that fit vectors of
//! 128 bits: rows of neighbouring lanes are interleaved element by element, then pair by pair, and so
//! on.

use super::counted_loop::CountedLoop;
use super::types::integer_type;
use crate::isa::clif128::vector_bits::{reinterpreted, shuffled};
use crate::vectorize::translate::{TILE_BYTES, TILE_LANES};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::FunctionBuilder;
use smallvec::SmallVec;

/// A copy of elements in rows of lanes.
pub(crate) struct TileCopy {
    /// The bytes of an element: 1, 2, 4 or 8.
    pub bytes: u32,
    /// The address of lane 0 in row 0; rows are neighbours.
    pub from: Value,
    /// The bytes from lane to lane.
    pub distance: Value,
    /// The address of the tile.
    pub to: Value,
    /// The number of lanes, at most [`TILE_LANES`].
    pub lanes: Value,
    /// The number of rows, at most [`Self::rows_at_most`].
    pub rows: Value,
}

/// Flags of accesses to the array, whose elements may lie anywhere.
fn unaligned() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl TileCopy {
    /// The maximum number of rows: a cache line of each lane is read at once.
    pub(crate) fn rows_at_most(bytes: u32) -> i64 {
        TILE_BYTES / (TILE_LANES * i64::from(bytes))
    }

    /// The bytes of a row of the tile.
    pub(crate) fn row_bytes(bytes: u32) -> i64 {
        TILE_LANES * i64::from(bytes)
    }

    /// The lanes and rows of a square.
    fn side(&self) -> i64 {
        match self.bytes {
            1 => 8,
            2 | 4 => 4,
            _ => 2,
        }
    }

    /// Emits the copy.
    pub(crate) fn emit(&self, builder: &mut FunctionBuilder<'_>) {
        let side = self.side();
        let whole = |builder: &mut FunctionBuilder<'_>, count: Value| {
            builder.ins().band_imm_s(count, -side)
        };
        let [lanes, rows] = [self.lanes, self.rows].map(|count| whole(builder, count));
        let zero = builder.ins().iconst(types::I64, 0);
        let squares = CountedLoop::open(builder, zero, lanes, &[]);
        let lane = squares.counter;
        let down = CountedLoop::open(builder, zero, rows, &[]);
        self.square(builder, [lane, down.counter]);
        down.close(builder, side, &[]);
        squares.close(builder, side, &[]);
        self.elements(builder, [zero, lanes], [rows, self.rows]);
        self.elements(builder, [lanes, self.lanes], [zero, self.rows]);
    }

    /// Copies the elements of a range of lanes in a range of rows one by one.
    fn elements(&self, builder: &mut FunctionBuilder<'_>, lanes: [Value; 2], rows: [Value; 2]) {
        let across = CountedLoop::open(builder, lanes[0], lanes[1], &[]);
        let down = CountedLoop::open(builder, rows[0], rows[1], &[]);
        let [from, to] = self.places(builder, [across.counter, down.counter]);
        let ty = integer_type(self.bytes as usize);
        let element = builder.ins().load(ty, unaligned(), from, 0);
        builder.ins().store(unaligned(), element, to, 0);
        down.close(builder, 1, &[]);
        across.close(builder, 1, &[]);
    }

    /// The addresses of an element in the array and in the tile.
    fn places(&self, builder: &mut FunctionBuilder<'_>, [lane, row]: [Value; 2]) -> [Value; 2] {
        let bytes = i64::from(self.bytes);
        let before = builder.ins().imul(lane, self.distance);
        let from = builder.ins().iadd(self.from, before);
        let before = builder.ins().imul_imm_s(row, bytes);
        let from = builder.ins().iadd(from, before);
        let before = builder.ins().imul_imm_s(row, Self::row_bytes(self.bytes));
        let to = builder.ins().iadd(self.to, before);
        let before = builder.ins().imul_imm_s(lane, bytes);
        [from, builder.ins().iadd(to, before)]
    }

    /// Transposes a square whose first element is at this lane and row.
    fn square(&self, builder: &mut FunctionBuilder<'_>, place: [Value; 2]) {
        let [mut from, to] = self.places(builder, place);
        // Rows of one lane fill a vector or half of one.
        let is_half = self.side() * i64::from(self.bytes) == 8;
        let mut groups: SmallVec<[SmallVec<[Value; 8]>; 8]> = SmallVec::new();
        for _ in 0..self.side() {
            let ty = if is_half { types::I64 } else { types::I8X16 };
            let mut rows = builder.ins().load(ty, unaligned(), from, 0);
            if is_half {
                let words = builder.ins().scalar_to_vector(types::I64X2, rows);
                rows = reinterpreted(builder, types::I8X16, words);
            }
            groups.push(SmallVec::from_slice(&[rows]));
            from = builder.ins().iadd(from, self.distance);
        }
        // Groups of lanes: each vector has some of their rows.
        let mut unit = self.bytes as u8;
        let mut is_full = !is_half;
        while groups.len() > 1 {
            let pairs = groups.chunks(2).map(|pair| {
                let rows = pair[0].iter().zip(&pair[1]);
                let halves: &[u8] = if is_full { &[0, 8] } else { &[0] };
                let joined = rows.flat_map(|(&a, &b)| halves.iter().map(move |&h| (a, b, h)));
                let joined =
                    joined.map(|(a, b, half)| shuffled(builder, [a, b], interleaved(unit, half)));
                joined.collect()
            });
            groups = pairs.collect();
            unit *= 2;
            is_full = true;
        }
        let row_bytes = Self::row_bytes(self.bytes);
        let rows = groups.into_iter().flatten();
        for (i, row) in (0..).zip(rows) {
            if !is_half {
                let at = (i * row_bytes) as i32;
                builder.ins().store(unaligned(), row, to, at);
                continue;
            }
            let words = reinterpreted(builder, types::I64X2, row);
            for lane in 0..2u8 {
                let word = builder.ins().extractlane(words, lane);
                let at = ((2 * i + i64::from(lane)) * row_bytes) as i32;
                builder.ins().store(unaligned(), word, to, at);
            }
        }
    }
}

/// The bytes of two vectors' halves (which begin at a byte), alternately `unit` bytes of each.
fn interleaved(unit: u8, half: u8) -> [u8; 16] {
    std::array::from_fn(|i| {
        let (piece, byte) = (i as u8 / unit, i as u8 % unit);
        let vector = piece % 2;
        16 * vector + half + piece / 2 * unit + byte
    })
}
