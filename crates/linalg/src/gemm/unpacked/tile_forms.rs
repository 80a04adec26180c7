//! The tiles that a product calls, determined before it runs: a compiled program omits all others.

use crate::gemm::geometry::pieces;
use crate::gemm::{Blocks, Product};
use crate::microkernels::strided_tile::{self, TileForm};

impl Product {
    /// The tiles in place that a run on one thread may call, and possibly a few more.
    pub fn tiles(&self) -> Vec<TileForm> {
        let Some(in_place) = &self.in_place else {
            return Vec::new();
        };
        let kernel = &in_place.kernel;
        let blocks = Blocks::new(self, &self.table, self.sizes.rows, self.sizes.columns);
        let most = self.sizes.columns.div_ceil(kernel.lanes);
        let mut forms = vec![strided_tile::NOTHING];
        if in_place.fetched {
            forms.extend([strided_tile::AT_ONCE, strided_tile::LATER]);
        }
        if in_place.turned.is_some() {
            forms.push(strided_tile::TURNED);
        }
        let mut all = Vec::new();
        for rows in in_place.row_blocks(&(0..self.sizes.rows), blocks.rows) {
            let heights = pieces(&(0..rows.len()), in_place.height, !kernel.matrices);
            // Equal pieces differ by one row at most.
            let (lowest, highest) = heights.fold((usize::MAX, 0), |(low, high), rows| {
                (low.min(rows.len()), high.max(rows.len()))
            });
            let widths = match in_place.reads_right() {
                true => kernel.widths(highest).to_vec(),
                false => (1..=self.table.tile.width().div_ceil(kernel.lanes)).collect(),
            };
            for rows in lowest..=highest {
                for &vectors in widths.iter().filter(|&&vectors| vectors <= most) {
                    let one = |&form: &u8| TileForm {
                        rows,
                        vectors,
                        form,
                    };
                    all.extend(forms.iter().map(one));
                }
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}
