//! Random scans, ragged dots and dots with scaled operands.

use super::{Body, Generator, shape_text};
use std::fmt::Write;
use tegula_ir::ElementType;

impl Generator {
    /// One of the operations of this file.
    pub(super) fn groups(&mut self, body: &mut Body) {
        match self.random.below(4) {
            0 => self.ragged_dot(body),
            1 => self.scaled_dot(body),
            _ => self.scan(body),
        }
    }

    /// A scan: a running sum, or a running maximum where a sum would not be exact. The input itself
    /// is a second result.
    fn scan(&mut self, body: &mut Body) {
        let Some(x) = self.ordered(body) else { return };
        let along = self.random.below(x.dims.len());
        let mut dims = x.dims.clone();
        let length = dims.remove(along);
        let start = self.fresh(body, x.ty, &dims);
        let sum = x.bits.max(start.bits) + 65 - (length.max(1) as u64).leading_zeros();
        let (op, bits) = match self.random.once_in(2) && self.fits(x.ty, sum) {
            true => ("add", sum),
            false => ("maximum", x.bits.max(start.bits)),
        };
        let (apply, slice) = (self.name(), shape_text(x.ty, &dims));
        let _ = writeln!(
            self.computations,
            "{apply} {{\n  a = {slice} parameter(0)\n  c = {slice} parameter(1)\n  s = {slice} {op}(a, c)\n  ROOT t = ({slice}, {slice}, {slice}) tuple(s, a, s)\n}}\n"
        );
        let parts = [
            (x.ty, x.dims.clone(), bits),
            (x.ty, x.dims.clone(), x.bits),
            (x.ty, dims, bits),
        ];
        let reverse = self.random.once_in(2);
        let text = format!(
            "scan({}, {}), dimensions={{{along}}}, num_carries=1, is_reverse={reverse}, to_apply={apply}",
            x.name, start.name
        );
        self.define_tuple(body, &parts, &text);
    }

    /// A ragged dot with groups of rows or of terms. Group sizes may be negative or too large.
    fn ragged_dot(&mut self, body: &mut Body) {
        use ElementType::{BF16, F32, S8, S32};
        let ty = *self.random.pick(&[F32, F32, S32, S8, BF16]);
        let result = *self.random.pick(&[F32, S32]);
        // A sum of floats that is then truncated to an integer may give another integer, because it
        // is rounded.
        let result = if ty.is_float() { F32 } else { result };
        let mut size = || self.random.between(1, 5);
        let (rows, terms, columns, groups) = (size(), size(), size(), size());
        let by_rows = self.random.once_in(2);
        let (rhs, dims, named) = match by_rows {
            true => (
                vec![groups, terms, columns],
                vec![rows, columns],
                "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
            ),
            false => (
                vec![terms, columns],
                vec![groups, rows, columns],
                "rhs_contracting_dims={0}, lhs_ragged_dims={1}",
            ),
        };
        let lhs = self.fresh(body, ty, &[rows, terms]);
        let rhs = self.fresh(body, ty, &rhs);
        let sizes = self.fresh(body, S32, &[groups]);
        let text = format!(
            "ragged-dot({}, {}, {}), lhs_contracting_dims={{1}}, {named}",
            lhs.name, rhs.name, sizes.name
        );
        self.define_sum(body, result, &dims, 9, &text);
    }

    fn scaled_dot(&mut self, body: &mut Body) {
        use ElementType::{BF16, F8E4M3FN, F8E5M2, F32};
        let narrow = [BF16, F8E4M3FN, F8E5M2, F32];
        let (left, right) = (*self.random.pick(&narrow), *self.random.pick(&narrow));
        let mut size = || self.random.between(1, 3);
        let (rows, columns, parts, length) = (size(), size(), size(), size());
        let terms = parts * length;
        let lhs = self.fresh(body, left, &[rows, terms]);
        let rhs = self.fresh(body, right, &[terms, columns]);
        let of_lhs = self.fresh(body, BF16, &[rows, parts]);
        let of_rhs = self.fresh(body, BF16, &[parts, 1]);
        let text = format!(
            "scaled-dot({}, {}, {}, {}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            lhs.name, rhs.name, of_lhs.name, of_rhs.name
        );
        self.define_sum(body, F32, &[rows, columns], 16, &text);
    }
}
