//! The programs whose kernels' forms are looked at.

/// A program, and what the reasons of its functions say.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) reasons: &'static [&'static str],
}

pub(crate) const COMPUTATIONS: &str = "
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
negated { a = f32[40] parameter(0) ROOT b = f32[40] negate(a) }
halved { a = f32[40] parameter(0) h = f32[] constant(0.5) hb = f32[40] broadcast(h), dimensions={}
  ROOT b = f32[40] multiply(a, hb) }
summed { a = f32[40] parameter(0) z = f32[] constant(0)
  s = f32[] reduce(a, z), dimensions={0}, to_apply=sum
  ROOT b = f32[40] broadcast(s), dimensions={} }
sum_c { a = c64[] parameter(0) b = c64[] parameter(1) ROOT s = c64[] add(a, b) }
max { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT m = bf16[] maximum(a, b) }
both { a = s32[] parameter(0) b = s32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
  s = s32[] add(a, c) m = s32[] minimum(b, d) ROOT t = (s32[], s32[]) tuple(s, m) }
max_f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }
sum_h { a = f16[] parameter(0) b = f16[] parameter(1) ROOT s = f16[] add(a, b) }
newer { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
at_least { a = f32[] parameter(0) b = f32[] parameter(1) ROOT p = pred[] compare(a, b), direction=GE }
sum_b { a = s8[] parameter(0) b = s8[] parameter(1) ROOT s = s8[] add(a, b) }
sum_i { a = s32[] parameter(0) b = s32[] parameter(1) ROOT s = s32[] add(a, b) }
or_l { a = s64[] parameter(0) b = s64[] parameter(1) ROOT s = s64[] or(a, b) }
in_rows { s = (s32[], f32[6]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[6] get-tuple-element(s), index=1 h = f32[] constant(0.5)
  hb = f32[6] broadcast(h), dimensions={} y = f32[6] multiply(x, hb) two = s32[] constant(2)
  j = s32[] add(i, two) f = f32[] convert(i) fb = f32[6] broadcast(f), dimensions={}
  z = f32[6] add(y, fb) ROOT t = (s32[], f32[6]) tuple(j, z) }
few { s = (s32[], f32[6]) parameter(0) i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(9) ROOT l = pred[] compare(i, k), direction=LE }
outer { s = (f32[6], s32[]) parameter(0) x = f32[6] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1 i = s32[] constant(3)
  t = (s32[], f32[6]) tuple(i, x) w = (s32[], f32[6]) while(t), condition=few, body=in_rows
  y = f32[6] get-tuple-element(w), index=1 one = s32[] constant(1) m = s32[] subtract(n, one)
  ROOT r = (f32[6], s32[]) tuple(y, m) }
positive { s = (f32[6], s32[]) parameter(0) n = s32[] get-tuple-element(s), index=1
  z = s32[] constant(-3) ROOT l = pred[] compare(n, z), direction=GT }
last { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
less { a = s32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT }
";

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "elementwise, in a row",
        text: "ENTRY main { a = f32[6,10] parameter(0) b = f32[6,10] parameter(1)
            ROOT c = f32[6,10] multiply(a, b) }",
        reasons: &["4 points in a row"],
    },
    Case {
        name: "elementwise, narrow",
        text: "ENTRY main { a = bf16[7,32] parameter(0) b = bf16[32] parameter(1)
            c = bf16[7,32] broadcast(b), dimensions={1} ROOT d = bf16[7,32] add(a, c) }",
        reasons: &["8 points along the last dimension"],
    },
    Case {
        name: "a bias that changes within a thread",
        text: "ENTRY main { a = f32[5,24] parameter(0) b = f32[6] parameter(1)
            c = f32[6,4] broadcast(b), dimensions={0} d = f32[24] reshape(c)
            e = f32[5,24] broadcast(d), dimensions={1} ROOT f = f32[5,24] add(a, e) }",
        reasons: &["4 points along the last dimension"],
    },
    Case {
        name: "rows that are cut short",
        text: "ENTRY main { a = f32[3,5] parameter(0) s = f32[3,4] slice(a), slice={[0:3], [0:4]}
            ROOT b = f32[3,3,4] broadcast(s), dimensions={1,2} }",
        reasons: &["one thread per point"],
    },
    Case {
        name: "an odd number of elements",
        text: "ENTRY main { a = s8[7,3] parameter(0) ROOT b = s8[7,3] negate(a) }",
        reasons: &["one thread per point"],
    },
    Case {
        name: "short rows",
        text: "ENTRY main { a = f32[100,12] parameter(0) z = f32[] constant(0)
            ROOT r = f32[100] reduce(a, z), dimensions={1}, to_apply=sum }",
        reasons: &["4 lanes per point, 4 elements at once"],
    },
    Case {
        name: "rows",
        text: "ENTRY main { a = bf16[9,3,33] parameter(0) z = bf16[] constant(-inf)
            ROOT r = bf16[9] reduce(a, z), dimensions={1,2}, to_apply=max }",
        reasons: &["a warp per point"],
    },
    Case {
        name: "long rows, two states",
        text: "ENTRY main { a = s32[3,1100] parameter(0) z = s32[] constant(7)
            ROOT r = (s32[3], s32[3]) reduce(a, a, z, z), dimensions={1}, to_apply=both }",
        reasons: &["a block of 256 threads per point"],
    },
    Case {
        name: "columns",
        text: "ENTRY main { a = f32[50,70] parameter(0) z = f32[] constant(0)
            ROOT r = f32[70] reduce(a, z), dimensions={0}, to_apply=sum }",
        reasons: &["8 threads per 2 points"],
    },
    Case {
        name: "columns of complex numbers",
        text: "ENTRY main { a = c64[50,40] parameter(0) z = c64[] constant((0, 0))
            ROOT r = c64[40] reduce(a, z), dimensions={0}, to_apply=sum_c }",
        reasons: &["8 threads per 2 points"],
    },
    Case {
        name: "rows of one access",
        text: "ENTRY main { a = f32[70,4] parameter(0) z = f32[] constant(1)
            ROOT r = f32[70] reduce(a, z), dimensions={1}, to_apply=sum }",
        reasons: &["a thread per point, 4 elements at once"],
    },
    Case {
        name: "long rows of halves and what belongs to a row",
        text: "ENTRY main { a = bf16[3,2056] parameter(0) m = bf16[3] parameter(1)
            b = bf16[3,2056] broadcast(m), dimensions={0} c = bf16[3,2056] subtract(a, b)
            z = bf16[] constant(-inf)
            ROOT r = bf16[3] reduce(c, z), dimensions={1}, to_apply=max }",
        reasons: &["a block of 256 threads per point, 8 elements at once"],
    },
    Case {
        name: "all of an array",
        text: "ENTRY main { a = f32[5,7168] parameter(0) z = f32[] constant(3)
            ROOT r = f32[] reduce(a, z), dimensions={0,1}, to_apply=sum }",
        reasons: &["4 blocks for each", "combines the partial results"],
    },
    Case {
        name: "long rows, two states, several blocks",
        text: "ENTRY main { a = s32[3,17000] parameter(0) b = s32[3] parameter(1)
            z = s32[] constant(7)
            r = (s32[3], s32[3]) reduce(a, a, z, z), dimensions={1}, to_apply=both
            x = s32[3] get-tuple-element(r), index=0 y = s32[3] get-tuple-element(r), index=1
            ROOT t = (s32[3], s32[3]) tuple(x, y) }",
        reasons: &["2 blocks for each", "combines the partial results"],
    },
    Case {
        name: "long columns, several blocks",
        text: "ENTRY main { a = f32[301,72] parameter(0) z = f32[] constant(2)
            ROOT r = f32[72] reduce(a, z), dimensions={0}, to_apply=sum }",
        reasons: &["blocks for each", "combines the partial results"],
    },
    Case {
        name: "fewer columns than lanes",
        text: "ENTRY main { a = f32[700,5] parameter(0) z = f32[] constant(2)
            ROOT r = f32[5] reduce(a, z), dimensions={0}, to_apply=sum }",
        reasons: &["32 threads per 1 points"],
    },
    Case {
        name: "few columns in batches",
        text: "ENTRY main { a = f16[2,90,40] parameter(0) z = f16[] constant(0)
            ROOT r = f16[2,40] reduce(a, z), dimensions={1}, to_apply=sum_h }",
        reasons: &["16 threads per 8 points"],
    },
    Case {
        name: "many columns",
        text: "ENTRY main { a = s8[3,36864] parameter(0) z = s8[] constant(5)
            ROOT r = s8[36864] reduce(a, z), dimensions={0}, to_apply=sum_b }",
        reasons: &["1 threads per 16 points"],
    },
    Case {
        name: "softmax of short rows",
        text: "ENTRY main { x = f32[9,60] parameter(0) low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[9] reduce(x, low), dimensions={1}, to_apply=max_f
            mb = f32[9,60] broadcast(m), dimensions={0} d = f32[9,60] subtract(x, mb)
            e = f32[9,60] exponential(d) s = f32[9] reduce(e, zero), dimensions={1}, to_apply=sum
            sb = f32[9,60] broadcast(s), dimensions={0} ROOT q = f32[9,60] divide(e, sb) }",
        reasons: &["16 lanes per row of 60"],
    },
    Case {
        name: "softmax of odd rows",
        text: "ENTRY main { x = f32[5,37] parameter(0) low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[5] reduce(x, low), dimensions={1}, to_apply=max_f
            mb = f32[5,37] broadcast(m), dimensions={0} d = f32[5,37] subtract(x, mb)
            e = f32[5,37] exponential(d) s = f32[5] reduce(e, zero), dimensions={1}, to_apply=sum
            sb = f32[5,37] broadcast(s), dimensions={0} ROOT q = f32[5,37] divide(e, sb) }",
        reasons: &["a warp per row of 37"],
    },
    Case {
        name: "softmax of long rows",
        text: "ENTRY main { x = f32[3,5000] parameter(0) low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[3] reduce(x, low), dimensions={1}, to_apply=max_f
            mb = f32[3,5000] broadcast(m), dimensions={0} d = f32[3,5000] subtract(x, mb)
            e = f32[3,5000] exponential(d) s = f32[3] reduce(e, zero), dimensions={1}, to_apply=sum
            sb = f32[3,5000] broadcast(s), dimensions={0} ROOT q = f32[3,5000] divide(e, sb) }",
        reasons: &["a block of 512 threads per row of 5000"],
    },
    Case {
        name: "a norm of halves",
        text: "ENTRY main { x = bf16[7,264] parameter(0) g = bf16[264] parameter(1)
            y = f32[7,264] convert(x) z = f32[] constant(0) n = f32[] constant(264)
            s = f32[7] reduce(y, z), dimensions={1}, to_apply=sum
            nb = f32[7] broadcast(n), dimensions={} m = f32[7] divide(s, nb)
            mb = f32[7,264] broadcast(m), dimensions={0} d = f32[7,264] subtract(y, mb)
            p = f32[7,264] multiply(d, d) v = f32[7] reduce(p, z), dimensions={1}, to_apply=sum
            w = f32[7] divide(v, nb) r = f32[7] rsqrt(w) rb = f32[7,264] broadcast(r), dimensions={0}
            h = f32[7,264] multiply(d, rb) k = bf16[7,264] convert(h)
            gb = bf16[7,264] broadcast(g), dimensions={1} ROOT o = bf16[7,264] multiply(k, gb) }",
        reasons: &["a warp per row of 264"],
    },
    Case {
        name: "norms of a table's rows",
        text: "ENTRY main { t = f32[9,260] parameter(0) r = s32[7,1] parameter(1)
            a = f32[7,260] gather(t, r), offset_dims={1}, collapsed_slice_dims={0},
              start_index_map={0}, index_vector_dim=1, slice_sizes={1,260}
            z = f32[] constant(0) s = f32[7] reduce(a, z), dimensions={1}, to_apply=sum
            c = f32[7,260] broadcast(s), dimensions={0} d = f32[7,260] subtract(a, c)
            ROOT p = (f32[7,260], f32[7,260]) tuple(a, d) }",
        reasons: &["a warp per row of 260, which stays in registers, 4 elements at once"],
    },
    Case {
        name: "overlapping windows that choose, into the padding",
        text: "ENTRY main { a = f32[2,9,8,3] parameter(0) b = f32[2,4,4,3] parameter(1)
            z = f32[] constant(-2) ROOT r = f32[2,9,8,3] select-and-scatter(a, b, z),
              window={size=1x3x4x1 stride=1x3x2x1 pad=0_0x2_1x1_1x0_0}, select=at_least, scatter=sum }",
        reasons: &["one thread per point"],
    },
    Case {
        name: "one window that is set",
        text: "ENTRY main { a = f32[20,30] parameter(0) b = f32[18,20] parameter(1) i = s32[2] parameter(2)
            ROOT r = f32[20,30] scatter(a, i, b), update_window_dims={0,1}, inserted_window_dims={},
              scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=newer }",
        reasons: &["one thread per point"],
    },
    Case {
        name: "sums whose places are promised to be apart",
        text: "ENTRY main { a = f32[400] parameter(0) b = f32[300] parameter(1)
            j = s32[300] iota(), iota_dimension=0 o = s32[] constant(90)
            os = s32[300] broadcast(o), dimensions={} i = s32[300] subtract(os, j)
            ROOT r = f32[400] scatter(a, i, b), update_window_dims={}, inserted_window_dims={0},
              scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=sum }",
        reasons: &["one thread per point"],
    },
    Case {
        name: "a transposition",
        text: "ENTRY main { a = f32[40,70] parameter(0) b = f32[70,40] parameter(1)
            t = f32[70,40] transpose(a), dimensions={1,0} ROOT c = f32[70,40] add(t, b) }",
        reasons: &["tiles of 32 x 32 through shared memory"],
    },
    Case {
        name: "a transposition of bytes in batches",
        text: "ENTRY main { a = u8[3,65,34] parameter(0)
            ROOT t = u8[3,34,65] transpose(a), dimensions={0,2,1} }",
        reasons: &["tiles of 32 x 32 through shared memory"],
    },
    Case {
        name: "a product",
        text: "ENTRY main { a = f32[66,40,19] parameter(0) b = f32[66,19,70] parameter(1)
            ROOT c = f32[66,40,70] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={2}, rhs_contracting_dims={1} }",
        reasons: &["tiles of 64 x 64 in shared memory"],
    },
    Case {
        name: "a large product",
        text: "ENTRY main { a = f32[1500,20] parameter(0) b = f32[1412,20] parameter(1)
            ROOT c = f32[1500,1412] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }",
        reasons: &["tiles of 128 x 128 in shared memory"],
    },
    Case {
        name: "a product of columns",
        text: "ENTRY main { a = f32[21,40] parameter(0) b = s16[21,24] parameter(1)
            d = f32[21,24] convert(b)
            ROOT c = f32[40,24] dot(a, d), lhs_contracting_dims={0}, rhs_contracting_dims={0} }",
        reasons: &["in shared memory"],
    },
    Case {
        name: "a product of integers",
        text: "ENTRY main { a = s8[20,33] parameter(0) b = s8[10,33] parameter(1)
            ROOT c = s32[20,10] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }",
        reasons: &["tiles of 32 x 16 in shared memory"],
    },
    Case {
        name: "a product of halves",
        text: "ENTRY main { a = bf16[33,70,48] parameter(0) b = bf16[33,48,72] parameter(1)
            ROOT c = bf16[33,70,72] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={2}, rhs_contracting_dims={1} }",
        reasons: &["tiles of 64 x 64 on tensor cores"],
    },
    Case {
        name: "a product of halves, the other way round, in batches",
        text: "ENTRY main { a = f16[132,48,40] parameter(0) b = f16[132,30,48] parameter(1)
            ROOT c = f32[132,40,30] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={1}, rhs_contracting_dims={2} }",
        reasons: &["tiles of 64 x 64 on tensor cores"],
    },
    Case {
        name: "a product of halves of odd sizes",
        text: "ENTRY main { a = bf16[27,37] parameter(0) b = bf16[37,83] parameter(1)
            ROOT c = bf16[27,83] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
        reasons: &["tiles of 32 x 64 on tensor cores"],
    },
    Case {
        name: "a product of halves, transposed after",
        text: "ENTRY main { a = bf16[40,64] parameter(0) b = bf16[100,64] parameter(1)
            c = f32[40,100] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}
            ROOT d = f32[100,40] transpose(c), dimensions={1,0} }",
        reasons: &["on tensor cores"],
    },
    Case {
        name: "a large product of halves",
        text: "ENTRY main { a = bf16[1536,32] parameter(0) b = bf16[32,1408] parameter(1)
            ROOT c = bf16[1536,1408] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
        reasons: &["tiles of 128 x 128 on tensor cores"],
    },
    Case {
        name: "attention of odd sizes",
        text: "ENTRY main { q = f32[2,37,3,20] parameter(0) k = f32[2,70,3,20] parameter(1)
            v = f32[2,3,70,24] parameter(2)
            g = f32[2,3,37,70] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},
              lhs_contracting_dims={3}, rhs_contracting_dims={3}
            c = f32[] constant(0.03) cb = f32[2,3,37,70] broadcast(c), dimensions={}
            s = f32[2,3,37,70] multiply(g, cb)
            low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[2,3,37] reduce(s, low), dimensions={3}, to_apply=max_f
            mb = f32[2,3,37,70] broadcast(m), dimensions={0,1,2} dd = f32[2,3,37,70] subtract(s, mb)
            e = f32[2,3,37,70] exponential(dd) t = f32[2,3,37] reduce(e, zero), dimensions={3}, to_apply=sum
            tb = f32[2,3,37,70] broadcast(t), dimensions={0,1,2} w = f32[2,3,37,70] divide(e, tb)
            ROOT o = f32[2,3,37,24] dot(w, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},
              lhs_contracting_dims={3}, rhs_contracting_dims={2} }",
        reasons: &["attention, 64 rows by 32 columns of scores at a time in shared memory"],
    },
    Case {
        name: "attention of wide heads with a bias, rows without a column",
        text: "ENTRY main { q = f32[5,33,128] parameter(0) k = f32[5,40,128] parameter(1)
            v = f32[5,40,100] parameter(2) bias = f32[33,40] parameter(3) use = s32[33,40] parameter(4)
            g = f32[5,33,40] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={2}, rhs_contracting_dims={2}
            c = f32[] constant(0.01) cb = f32[5,33,40] broadcast(c), dimensions={}
            h = f32[5,33,40] multiply(g, cb) bb = f32[5,33,40] broadcast(bias), dimensions={1,2}
            a = f32[5,33,40] add(h, bb) i = s32[33,40] iota(), iota_dimension=0
            j = s32[33,40] iota(), iota_dimension=1 causal = pred[33,40] compare(i, j), direction=GE
            none = s32[] constant(8) nb = s32[33,40] broadcast(none), dimensions={}
            some = pred[33,40] compare(use, nb), direction=LT
            five = s32[] constant(5) fb = s32[33,40] broadcast(five), dimensions={}
            row = pred[33,40] compare(i, fb), direction=NE
            both = pred[33,40] and(causal, some) all = pred[33,40] and(both, row)
            ab = pred[5,33,40] broadcast(all), dimensions={1,2}
            no = f32[] constant(-inf) no_b = f32[5,33,40] broadcast(no), dimensions={}
            s = f32[5,33,40] select(ab, a, no_b)
            low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[5,33] reduce(s, low), dimensions={2}, to_apply=max_f
            mb = f32[5,33,40] broadcast(m), dimensions={0,1} dd = f32[5,33,40] subtract(s, mb)
            e = f32[5,33,40] exponential(dd) t = f32[5,33] reduce(e, zero), dimensions={2}, to_apply=sum
            tb = f32[5,33,40] broadcast(t), dimensions={0,1} w = f32[5,33,40] divide(e, tb)
            ROOT o = f32[5,33,100] dot(w, v), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={2}, rhs_contracting_dims={1} }",
        reasons: &["attention, 32 rows by 32 columns"],
    },
    Case {
        name: "attention of halves",
        text: "ENTRY main { q = bf16[2,70,4,64] parameter(0) k = bf16[2,130,4,64] parameter(1)
            v = bf16[2,130,4,64] parameter(2)
            g = bf16[2,4,70,130] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},
              lhs_contracting_dims={3}, rhs_contracting_dims={3}
            c = bf16[] constant(0.01) cb = bf16[2,4,70,130] broadcast(c), dimensions={}
            h = bf16[2,4,70,130] multiply(g, cb) s = f32[2,4,70,130] convert(h)
            low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[2,4,70] reduce(s, low), dimensions={3}, to_apply=max_f
            mb = f32[2,4,70,130] broadcast(m), dimensions={0,1,2} dd = f32[2,4,70,130] subtract(s, mb)
            e = f32[2,4,70,130] exponential(dd) t = f32[2,4,70] reduce(e, zero), dimensions={3}, to_apply=sum
            tb = f32[2,4,70,130] broadcast(t), dimensions={0,1,2} w = f32[2,4,70,130] divide(e, tb)
            x = bf16[2,4,70,130] convert(w)
            o = bf16[2,4,70,64] dot(x, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,2},
              lhs_contracting_dims={3}, rhs_contracting_dims={1}
            ROOT y = bf16[2,70,4,64] transpose(o), dimensions={0,2,1,3} }",
        reasons: &["attention, 64 rows by 64 columns of scores at a time on tensor cores"],
    },
    Case {
        name: "attention of halves whose heads share keys",
        text: "ENTRY main { q = f16[2,3,9,40] parameter(0) k = f16[2,40,21] parameter(1)
            v = f16[2,21,18] parameter(2)
            g = f32[2,3,9,21] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={3}, rhs_contracting_dims={1}
            c = f32[] constant(0.02) cb = f32[2,3,9,21] broadcast(c), dimensions={}
            h = f32[2,3,9,21] multiply(g, cb) i = s32[3,9,21] iota(), iota_dimension=1
            j = s32[3,9,21] iota(), iota_dimension=2 p = pred[3,9,21] compare(i, j), direction=GE
            pb = pred[2,3,9,21] broadcast(p), dimensions={1,2,3}
            no = f32[] constant(-1e9) no_b = f32[2,3,9,21] broadcast(no), dimensions={}
            s = f32[2,3,9,21] select(pb, h, no_b)
            low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[2,3,9] reduce(s, low), dimensions={3}, to_apply=max_f
            mb = f32[2,3,9,21] broadcast(m), dimensions={0,1,2} dd = f32[2,3,9,21] subtract(s, mb)
            e = f32[2,3,9,21] exponential(dd) t = f32[2,3,9] reduce(e, zero), dimensions={3}, to_apply=sum
            tb = f32[2,3,9,21] broadcast(t), dimensions={0,1,2} w = f32[2,3,9,21] divide(e, tb)
            x = f16[2,3,9,21] convert(w)
            ROOT o = f32[2,3,9,18] dot(x, v), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={3}, rhs_contracting_dims={1} }",
        reasons: &["attention, 32 rows by 64 columns of scores at a time on tensor cores"],
    },
    Case {
        name: "attention of one row",
        text: "ENTRY main { q = f32[2,1,32] parameter(0) k = f32[2,50,32] parameter(1)
            v = f32[2,50,32] parameter(2) len = s32[2] parameter(3)
            g = f32[2,1,50] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={2}, rhs_contracting_dims={2}
            j = s32[2,1,50] iota(), iota_dimension=2 lb = s32[2,1,50] broadcast(len), dimensions={0}
            p = pred[2,1,50] compare(j, lb), direction=GE
            no = f32[] constant(-1e9) no_b = f32[2,1,50] broadcast(no), dimensions={}
            c = f32[] constant(0.02) cb = f32[2,1,50] broadcast(c), dimensions={}
            h = f32[2,1,50] multiply(g, cb) s = f32[2,1,50] select(p, h, no_b)
            low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[2,1] reduce(s, low), dimensions={2}, to_apply=max_f
            mb = f32[2,1,50] broadcast(m), dimensions={0,1} dd = f32[2,1,50] subtract(s, mb)
            e = f32[2,1,50] exponential(dd) t = f32[2,1] reduce(e, zero), dimensions={2}, to_apply=sum
            tb = f32[2,1,50] broadcast(t), dimensions={0,1} w = f32[2,1,50] divide(e, tb)
            ROOT o = f32[2,1,32] dot(w, v), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={2}, rhs_contracting_dims={1} }",
        reasons: &["attention, 16 rows by 32 columns"],
    },
    Case {
        name: "few rows of attention along many columns",
        text: "ENTRY main { q = f32[2,16] parameter(0) k = f32[600,16] parameter(1)
            v = f32[600,16] parameter(2)
            s = f32[2,600] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
            low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[2] reduce(s, low), dimensions={1}, to_apply=max_f
            mb = f32[2,600] broadcast(m), dimensions={0} dd = f32[2,600] subtract(s, mb)
            e = f32[2,600] exponential(dd) t = f32[2] reduce(e, zero), dimensions={1}, to_apply=sum
            tb = f32[2,600] broadcast(t), dimensions={0} w = f32[2,600] divide(e, tb)
            ROOT o = f32[2,16] dot(w, v), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
        reasons: &["per row of 600"],
    },
    Case {
        name: "a counted loop in one that depends on its input",
        text: "ENTRY main { x = f32[6] parameter(0) n = s32[] parameter(1)
            s = (f32[6], s32[]) tuple(x, n)
            ROOT w = (f32[6], s32[]) while(s), condition=positive, body=outer }",
        reasons: &[],
    },
    Case {
        name: "a counted loop",
        text: "ENTRY main { x = f32[6] parameter(0) n = s32[] constant(2)
            s = (f32[6], s32[]) tuple(x, n)
            w = (f32[6], s32[]) while(s), condition=positive, body=outer
            ROOT y = f32[6] get-tuple-element(w), index=0 }",
        reasons: &[],
    },
    Case {
        name: "a convolution in groups",
        text: "ENTRY main { a = f32[2,9,8,6] parameter(0) b = f32[3,2,3,16] parameter(1)
            ROOT c = f32[2,5,8,16] convolution(a, b),
              window={size=3x2 stride=2x1 pad=1_1x1_0}, dim_labels=b01f_01io->b01f,
              feature_group_count=2 }",
        reasons: &["tiles of 32 x 16 in shared memory"],
    },
    Case {
        name: "a convolution of halves",
        text: "ENTRY main { a = bf16[2,9,8,16] parameter(0) b = bf16[3,3,16,32] parameter(1)
            ROOT c = bf16[2,5,8,32] convolution(a, b),
              window={size=3x3 stride=2x1 pad=1_1x1_1}, dim_labels=b01f_01io->b01f }",
        reasons: &["on tensor cores"],
    },
    Case {
        name: "a convolution of halves, features outside",
        text: "ENTRY main { a = f16[2,20,9,7] parameter(0) b = f16[48,5,3,3] parameter(1)
            ROOT c = f32[2,48,9,7] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=bf01_oi01->bf01, feature_group_count=4 }",
        reasons: &["in shared memory"],
    },
    Case {
        name: "a convolution of halves, few channels outside",
        text: "ENTRY main { a = f16[2,3,9,7] parameter(0) b = f16[24,3,3,3] parameter(1)
            ROOT c = f32[2,24,9,7] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=bf01_oi01->bf01 }",
        reasons: &["on tensor cores"],
    },
    Case {
        name: "the gradient of a convolution by its input",
        text: "ENTRY main { a = bf16[2,5,4,32] parameter(0) b = bf16[3,3,16,32] parameter(1)
            ROOT c = bf16[2,9,8,16] convolution(a, b),
              window={size=3x3 pad=1_1x1_2 lhs_dilate=2x2 rhs_reversal=1x1},
              dim_labels=b01f_01oi->b01f }",
        reasons: &["on tensor cores"],
    },
    Case {
        name: "a convolution in groups of batches, reversed",
        text: "ENTRY main { a = f32[6,9,8,5] parameter(0) b = f32[3,2,5,24] parameter(1)
            ROOT c = f32[2,9,9,24] convolution(a, b),
              window={size=3x2 pad=1_1x1_1 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f,
              batch_group_count=3 }",
        reasons: &["in shared memory"],
    },
    Case {
        name: "a convolution of halves in groups of batches",
        text: "ENTRY main { a = bf16[4,8,8,16] parameter(0) b = bf16[8,8,16,32] parameter(1)
            ROOT c = f32[2,3,3,32] convolution(a, b),
              window={size=8x8 pad=1_1x1_1}, dim_labels=b01f_01io->b01f,
              batch_group_count=2 }",
        reasons: &["on tensor cores"],
    },
    Case {
        name: "a convolution of halves with infinities",
        text: "ENTRY main { a = bf16[2,5,6,16] parameter(0) w = bf16[3,3,16,24] parameter(1)
            eight = bf16[] constant(8) eb = bf16[3,3,16,24] broadcast(eight), dimensions={}
            p = pred[3,3,16,24] compare(w, eb), direction=EQ
            inf = bf16[] constant(inf) ib = bf16[3,3,16,24] broadcast(inf), dimensions={}
            b = bf16[3,3,16,24] select(p, ib, w)
            ROOT c = bf16[2,3,4,24] convolution(a, b), window={size=3x3},
              dim_labels=b01f_01io->b01f }",
        reasons: &["on tensor cores"],
    },
    Case {
        name: "a scatter of rows",
        text: "ENTRY main { x = f32[10,64] parameter(0) i = s32[7] parameter(1)
            u = f32[7,64] parameter(2)
            ROOT r = f32[10,64] scatter(x, i, u), update_window_dims={1},
              inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
              index_vector_dim=1, to_apply=sum }",
        reasons: &["one thread per point"],
    },
    Case {
        name: "a scatter of elements, counted",
        text: "ENTRY main { x = s32[10] parameter(0) i = s32[300,1] parameter(1)
            u = s32[300] parameter(2)
            ROOT r = s32[10] scatter(x, i, u), update_window_dims={},
              inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
              index_vector_dim=1, to_apply=sum_i }",
        reasons: &["combined by atomic operations"],
    },
    Case {
        name: "a scatter of windows of 64 bits",
        text: "ENTRY main { x = s64[9,5] parameter(0) i = s32[40] parameter(1)
            u = s64[40,5] parameter(2)
            ROOT r = s64[9,5] scatter(x, i, u), update_window_dims={1},
              inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
              index_vector_dim=1, to_apply=or_l }",
        reasons: &["combined by atomic operations"],
    },
    Case {
        name: "a scatter of elements, summed",
        text: "ENTRY main { x = f32[7,3] parameter(0) i = s32[600,2] parameter(1)
            u = f32[600] parameter(2)
            ROOT r = f32[7,3] scatter(x, i, u), update_window_dims={},
              inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1},
              index_vector_dim=1, to_apply=sum }",
        reasons: &[
            "sorted in runs of 256",
            "one thread for all updates of an element",
        ],
    },
    Case {
        name: "a scatter of rows, the last of which stays",
        text: "ENTRY main { x = f32[6,8] parameter(0) i = s32[257] parameter(1)
            u = f32[257,8] parameter(2)
            ROOT r = f32[6,8] scatter(x, i, u), update_window_dims={1},
              inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
              index_vector_dim=1, to_apply=last }",
        reasons: &["one thread for all updates of an element"],
    },
    Case {
        name: "running sums of rows",
        text: "ENTRY main { a = f32[9,70] parameter(0) z = f32[] constant(1)
            ROOT r = f32[9,70] reduce-window(a, z), window={size=1x70 pad=0_0x69_0},
              to_apply=sum }",
        reasons: &["a warp per row, with a running total"],
    },
    Case {
        name: "running sums of long rows, from the end",
        text: "ENTRY main { a = s32[2,1300] parameter(0) z = s32[] constant(1)
            ROOT r = s32[2,1300] reduce-window(a, z), window={size=1x1300 pad=0_0x0_1299},
              to_apply=sum_i }",
        reasons: &["a block per row, with a running total"],
    },
    Case {
        name: "the largest of rows",
        text: "ENTRY main { a = f32[3,50] parameter(0)
            ROOT t = (f32[3,4], s32[3,4]) topk(a), k=4, largest=true }",
        reasons: &["chooses 4 of 50 by 4 digits"],
    },
    Case {
        name: "angles of doubles",
        text: "ENTRY main { a = f64[70] parameter(0) b = f64[70] sine(a) c = f64[70] tan(b)
            ROOT d = f64[70] cosine(c) }",
        reasons: &["points in a row"],
    },
    Case {
        name: "functions of complex numbers",
        text: "ENTRY main { a = c64[33] parameter(0) b = c64[33] exponential(a)
            c = c64[33] cosine(b) d = c64[33] sine(a) e = c64[33] add(c, d)
            ROOT f = c64[33] tanh(e) }",
        reasons: &["one thread per point"],
    },
    Case {
        name: "a choice that stays",
        text: "ENTRY main { i = s32[] parameter(0) a = f32[40] parameter(1)
            ROOT c = f32[40] conditional(i, a, a, a),
              branch_computations={negated, halved, summed} }",
        reasons: &["flags for the branches of a choice"],
    },
    Case {
        name: "a stable sort with a payload",
        text: "ENTRY main { k = s32[3,37] parameter(0) v = f32[3,37] parameter(1)
            ROOT s = (s32[3,37], f32[3,37]) sort(k, v), dimensions={1}, is_stable=true,
              to_apply=less }",
        reasons: &["finds its place in the merged run"],
    },
];

/// Programs whose arrays fill whole sectors, so that nothing has to be moved in vain.
pub(crate) const WHOLE: &[(&str, &str)] = &[
    (
        "elementwise",
        "ENTRY main { a = f32[64,256] parameter(0) b = f32[256] parameter(1)
            c = f32[64,256] broadcast(b), dimensions={1} ROOT d = f32[64,256] add(a, c) }",
    ),
    (
        "elementwise bytes",
        "ENTRY main { a = s8[64,256] parameter(0) ROOT d = s8[64,256] negate(a) }",
    ),
    (
        "rows",
        "ENTRY main { a = f32[64,128] parameter(0) z = f32[] constant(0)
            ROOT r = f32[64] reduce(a, z), dimensions={1}, to_apply=sum }",
    ),
    (
        "long rows",
        "ENTRY main { a = f32[4,4096] parameter(0) z = f32[] constant(0)
            ROOT r = f32[4] reduce(a, z), dimensions={1}, to_apply=sum }",
    ),
    (
        "softmax",
        "ENTRY main { x = f32[32,512] parameter(0) low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[32] reduce(x, low), dimensions={1}, to_apply=max_f
            mb = f32[32,512] broadcast(m), dimensions={0} d = f32[32,512] subtract(x, mb)
            e = f32[32,512] exponential(d) s = f32[32] reduce(e, zero), dimensions={1}, to_apply=sum
            sb = f32[32,512] broadcast(s), dimensions={0} ROOT q = f32[32,512] divide(e, sb) }",
    ),
    (
        "softmax of long rows",
        "ENTRY main { x = f32[2,4096] parameter(0) low = f32[] constant(-inf) zero = f32[] constant(0)
            m = f32[2] reduce(x, low), dimensions={1}, to_apply=max_f
            mb = f32[2,4096] broadcast(m), dimensions={0} d = f32[2,4096] subtract(x, mb)
            e = f32[2,4096] exponential(d) s = f32[2] reduce(e, zero), dimensions={1}, to_apply=sum
            sb = f32[2,4096] broadcast(s), dimensions={0} ROOT q = f32[2,4096] divide(e, sb) }",
    ),
    (
        "a norm",
        "ENTRY main { x = bf16[16,1024] parameter(0) g = bf16[1024] parameter(1)
            y = f32[16,1024] convert(x) z = f32[] constant(0) n = f32[] constant(1024)
            s = f32[16] reduce(y, z), dimensions={1}, to_apply=sum
            nb = f32[16] broadcast(n), dimensions={} m = f32[16] divide(s, nb)
            mb = f32[16,1024] broadcast(m), dimensions={0} d = f32[16,1024] subtract(y, mb)
            p = f32[16,1024] multiply(d, d) v = f32[16] reduce(p, z), dimensions={1}, to_apply=sum
            w = f32[16] divide(v, nb) r = f32[16] rsqrt(w) rb = f32[16,1024] broadcast(r), dimensions={0}
            h = f32[16,1024] multiply(d, rb) k = bf16[16,1024] convert(h)
            gb = bf16[16,1024] broadcast(g), dimensions={1} ROOT o = bf16[16,1024] multiply(k, gb) }",
    ),
    (
        "rows of halves",
        "ENTRY main { a = bf16[64,512] parameter(0) z = bf16[] constant(-inf)
            ROOT r = bf16[64] reduce(a, z), dimensions={1}, to_apply=max }",
    ),
    (
        "short rows",
        "ENTRY main { a = f32[256,8] parameter(0) z = f32[] constant(0)
            ROOT r = f32[256] reduce(a, z), dimensions={1}, to_apply=sum }",
    ),
    (
        "all of an array",
        "ENTRY main { a = f32[64,1024] parameter(0) z = f32[] constant(0)
            ROOT r = f32[] reduce(a, z), dimensions={0,1}, to_apply=sum }",
    ),
    (
        "long columns",
        "ENTRY main { a = bf16[512,64] parameter(0) z = bf16[] constant(-inf)
            ROOT r = bf16[64] reduce(a, z), dimensions={0}, to_apply=max }",
    ),
    (
        "running sums",
        "ENTRY main { a = f32[8,128] parameter(0) z = f32[] constant(0)
            ROOT r = f32[8,128] reduce-window(a, z), window={size=1x128 pad=0_0x127_0},
              to_apply=sum }",
    ),
    (
        "columns",
        "ENTRY main { a = f32[128,64] parameter(0) z = f32[] constant(0)
            ROOT r = f32[64] reduce(a, z), dimensions={0}, to_apply=sum }",
    ),
    (
        "a transposition",
        "ENTRY main { a = f32[64,96] parameter(0)
            ROOT t = f32[96,64] transpose(a), dimensions={1,0} }",
    ),
    (
        "a transposition of halves",
        "ENTRY main { a = bf16[64,96] parameter(0)
            ROOT t = bf16[96,64] transpose(a), dimensions={1,0} }",
    ),
    (
        "a transposition of bytes",
        "ENTRY main { a = u8[64,96] parameter(0)
            ROOT t = u8[96,64] transpose(a), dimensions={1,0} }",
    ),
    (
        "a product",
        "ENTRY main { a = f32[64,64] parameter(0) b = f32[64,128] parameter(1)
            ROOT c = f32[64,128] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    ),
    (
        "a product of few columns",
        "ENTRY main { a = f32[16,64] parameter(0) b = f32[16,16] parameter(1)
            ROOT c = f32[64,16] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0} }",
    ),
    (
        "a product of halves",
        "ENTRY main { a = bf16[64,64] parameter(0) b = bf16[64,128] parameter(1)
            ROOT c = bf16[64,128] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    ),
    (
        "a product of halves, summed",
        "ENTRY main { a = f16[64,128] parameter(0) b = f16[64,128] parameter(1)
            ROOT c = f32[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }",
    ),
    (
        "a product of halves, transposed",
        "ENTRY main { a = f16[64,64] parameter(0) b = f16[128,64] parameter(1)
            ROOT c = f32[64,128] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={1} }",
    ),
];
