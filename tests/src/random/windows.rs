//! Random convolutions, select-and-scatters, general gathers and scatters.

use super::{Body, Generator, MAX_ELEMENTS, list};
use std::fmt::Write;
use tegula_ir::ElementType;

/// The dimension numbers of a gather, and of the scatter with the same indices and windows.
struct Places {
    offset_dims: Vec<i64>,
    collapsed: Vec<i64>,
    index_map: Vec<i64>,
    operand_batching: Vec<i64>,
    indices_batching: Vec<i64>,
    vector_dim: usize,
    slices: Vec<i64>,
    indices: Vec<i64>,
    out: Vec<i64>,
}

impl Generator {
    pub(super) fn convolution(&mut self, body: &mut Body) {
        use ElementType::{C64, F32, F64, S8, S32};
        let ty = *self.random.pick(&[F32, F32, S32, F64, C64, S8]);
        let spatial = 1 + self.random.below(2);
        let (features, batches) = *self.random.pick(&[(1, 1), (1, 1), (2, 1), (1, 2), (3, 1)]);
        let inputs = self.random.between(1, 3);
        let outputs = self.random.between(1, 3) * features * batches;
        let batch = self.random.between(1, 2) * batches;
        let (mut base, mut kernel, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let mut text = vec![Vec::new(); 6];
        for _ in 0..spatial {
            let (size, window) = (self.random.between(1, 6), self.random.between(1, 3));
            let (stride, low, high) = (
                self.random.between(1, 2),
                self.random.between(-1, 2),
                self.random.between(-1, 2),
            );
            let (base_dilation, dilation) = (self.random.between(1, 2), self.random.between(1, 2));
            let padded = (size - 1) * base_dilation + 1 + low + high;
            if padded < 0 {
                return;
            }
            let covered = (window - 1) * dilation + 1;
            base.push(size);
            kernel.push(window);
            out.push(if padded < covered {
                0
            } else {
                (padded - covered) / stride + 1
            });
            let reversal = self.random.between(0, 1);
            let parts = [
                window.to_string(),
                stride.to_string(),
                format!("{low}_{high}"),
                base_dilation.to_string(),
                dilation.to_string(),
                reversal.to_string(),
            ];
            text.iter_mut()
                .zip(parts)
                .for_each(|(list, part)| list.push(part));
        }
        let labels = ["0", "01"][spatial - 1];
        let arrange = |g: &mut Self, two: [char; 2], sizes: [i64; 2], spatial: &[i64]| {
            let mut label: Vec<(char, i64)> = two.into_iter().zip(sizes).collect();
            label.extend(labels.chars().zip(spatial.iter().copied()));
            let order = g.permutation(label.len());
            let label: Vec<(char, i64)> = order.iter().map(|&i| label[i as usize]).collect();
            let dims: Vec<i64> = label.iter().map(|&(_, size)| size).collect();
            (label.iter().map(|&(c, _)| c).collect::<String>(), dims)
        };
        let (input_label, input) = arrange(self, ['b', 'f'], [batch, inputs * features], &base);
        let (kernel_label, filter) = arrange(self, ['i', 'o'], [inputs, outputs], &kernel);
        let (out_label, dims) = arrange(self, ['b', 'f'], [batch / batches, outputs], &out);
        let (x, k) = (self.fresh(body, ty, &input), self.fresh(body, ty, &filter));
        let names = [
            "size",
            "stride",
            "pad",
            "lhs_dilate",
            "rhs_dilate",
            "rhs_reversal",
        ];
        let window: Vec<String> = names
            .iter()
            .zip(&text)
            .map(|(name, list)| format!("{name}={}", list.join("x")))
            .collect();
        let operation = format!(
            "convolution({}, {}), window={{{}}}, dim_labels={input_label}_{kernel_label}->{out_label}, feature_group_count={features}, batch_group_count={batches}",
            x.name,
            k.name,
            window.join(" ")
        );
        self.define_sum(body, ty, &dims, 14, &operation);
    }

    pub(super) fn select_and_scatter(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| {
            (1..=3).contains(&k.dims.len())
                && matches!(
                    k.ty,
                    ElementType::F32 | ElementType::F64 | ElementType::S32 | ElementType::U8
                )
                && k.elements() > 0
        }) else {
            return;
        };
        let mut dims = Vec::new();
        let (mut sizes, mut strides, mut pads) = (Vec::new(), Vec::new(), Vec::new());
        for &size in &x.dims {
            let (window, stride) = (self.random.between(1, 3), self.random.between(1, 3));
            let (low, high) = (self.random.between(0, 1), self.random.between(0, 1));
            let room = size + low + high - window;
            if room < 0 {
                return;
            }
            dims.push(room / stride + 1);
            sizes.push(window.to_string());
            strides.push(stride.to_string());
            pads.push(format!("{low}_{high}"));
        }
        let source = self.fresh(body, x.ty, &dims);
        let zero = self.scalar(body, x.ty, 0);
        let (select, ty) = (self.name(), x.ty);
        let direction = *self.random.pick(&["GE", "LE"]);
        let _ = writeln!(
            self.computations,
            "{select} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  ROOT c = pred[] compare(a, b), direction={direction}\n}}\n"
        );
        let add = self.combiner("add", ty);
        let text = format!(
            "select-and-scatter({}, {}, {}), window={{size={} stride={} pad={}}}, select={select}, scatter={add}",
            x.name,
            source.name,
            zero.name,
            sizes.join("x"),
            strides.join("x"),
            pads.join("x")
        );
        self.define(body, x.ty, &x.dims, 9, &text);
    }

    /// Dimension numbers of a gather from an array of these sizes.
    fn places(&mut self, dims: &[i64]) -> Option<Places> {
        let order = self.permutation(dims.len());
        let batching = if dims.len() > 1 {
            self.random.below(2)
        } else {
            0
        };
        let (operand_batching, rest) = order.split_at(batching);
        let components = self.random.below(rest.len() + 1);
        let index_map = rest[..components].to_vec();
        let mut collapsed = Vec::new();
        let mut slices = Vec::new();
        for (d, &size) in (0i64..).zip(dims) {
            let batching = operand_batching.contains(&d);
            let collapse = !batching && self.random.once_in(3);
            let one = batching || collapse;
            if collapse {
                collapsed.push(d);
            }
            if one && size < 1 {
                return None;
            }
            slices.push(if one {
                1
            } else {
                self.random.between(size.min(1), size)
            });
        }
        // The shape of the indices: batch dimensions, into which the index vector's dimension is
        // inserted.
        let mut indices: Vec<i64> = (0..self.random.below(3))
            .map(|_| self.random.between(1, 3))
            .collect();
        let mut indices_batching = Vec::new();
        for &d in operand_batching {
            indices_batching.push(indices.len() as i64);
            indices.push(dims[d as usize]);
        }
        let batch = indices.clone();
        let implicit = components == 1 && self.random.once_in(2);
        let vector_dim = if implicit {
            indices.len()
        } else {
            self.random.below(indices.len() + 1)
        };
        if !implicit {
            indices.insert(vector_dim, components as i64);
            for d in &mut indices_batching {
                *d += i64::from(*d >= vector_dim as i64);
            }
        }
        let window: Vec<i64> = (0i64..)
            .zip(&slices)
            .filter(|(d, _)| !collapsed.contains(d) && !operand_batching.contains(d))
            .map(|(_, &size)| size)
            .collect();
        // The dimensions of the result that run over the slice.
        let rank = batch.len() + window.len();
        let mut offset_dims = self.permutation(rank)[..window.len()].to_vec();
        offset_dims.sort_unstable();
        let (mut from_batch, mut from_window) = (batch.iter(), window.iter());
        let out: Option<Vec<i64>> = (0..rank as i64)
            .map(|d| {
                if offset_dims.contains(&d) {
                    from_window.next()
                } else {
                    from_batch.next()
                }
            })
            .map(Option::<&i64>::copied)
            .collect();
        let out = out?;
        (out.iter().product::<i64>() <= MAX_ELEMENTS && rank <= 6).then_some(Places {
            offset_dims,
            collapsed,
            index_map,
            operand_batching: operand_batching.to_vec(),
            indices_batching,
            vector_dim,
            slices,
            indices,
            out,
        })
    }

    fn index_type(&mut self) -> ElementType {
        use ElementType::{S8, S32, S64, U8, U32};
        *self.random.pick(&[S32, S32, S64, U8, U32, S8])
    }

    pub(super) fn general_gather(&mut self, body: &mut Body) {
        let x = self.any(body);
        let Some(places) = self.places(&x.dims) else {
            return;
        };
        let ty = self.index_type();
        let indices = self.fresh(body, ty, &places.indices);
        let text = format!(
            "gather({}, {}), offset_dims={}, collapsed_slice_dims={}, start_index_map={}, operand_batching_dims={}, start_indices_batching_dims={}, index_vector_dim={}, slice_sizes={}",
            x.name,
            indices.name,
            list(&places.offset_dims),
            list(&places.collapsed),
            list(&places.index_map),
            list(&places.operand_batching),
            list(&places.indices_batching),
            places.vector_dim,
            list(&places.slices)
        );
        self.define(body, x.ty, &places.out, x.bits, &text);
    }

    pub(super) fn general_scatter(&mut self, body: &mut Body) {
        let Some(x) = self.any_where(body, |k| k.ty != ElementType::Pred) else {
            return;
        };
        let Some(places) = self.places(&x.dims) else {
            return;
        };
        let ty = self.index_type();
        let indices = self.fresh(body, ty, &places.indices);
        let updates = self.fresh(body, x.ty, &places.out);
        let count: i64 = places.out.iter().product();
        let bits = x.bits.max(3) + 65 - (count.max(1) as u64).leading_zeros();
        let op = match () {
            () if self.fits(x.ty, bits) => "add",
            () if x.ty.is_complex() => return,
            () => "maximum",
        };
        let apply = self.combiner(op, x.ty);
        let text = format!(
            "scatter({}, {}, {}), update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, input_batching_dims={}, scatter_indices_batching_dims={}, index_vector_dim={}, to_apply={apply}",
            x.name,
            indices.name,
            updates.name,
            list(&places.offset_dims),
            list(&places.collapsed),
            list(&places.index_map),
            list(&places.operand_batching),
            list(&places.indices_batching),
            places.vector_dim
        );
        self.define(body, x.ty, &x.dims, bits, &text);
    }

    /// A cumulative reduction along a dimension: a `reduce-window` with a window of the dimension's
    /// full length.
    pub(super) fn running(&mut self, body: &mut Body) {
        let Some((x, init)) = self.summed(body, usize::MAX) else {
            return;
        };
        let along = self.random.below(x.dims.len());
        let size = x.dims[along];
        let reversed = self.random.once_in(2);
        let (mut sizes, mut pads) = (Vec::new(), Vec::new());
        for d in 0..x.dims.len() {
            let all = if d == along { size } else { 1 };
            sizes.push(all.to_string());
            pads.push(match reversed {
                true => format!("0_{}", all - 1),
                false => format!("{}_0", all - 1),
            });
        }
        let bits = x.bits.max(init.bits) + 5;
        let op = match self.fits(x.ty, bits) {
            true => "add",
            false => "maximum",
        };
        let apply = self.combiner(op, x.ty);
        let text = format!(
            "reduce-window({}, {}), window={{size={} pad={}}}, to_apply={apply}",
            x.name,
            init.name,
            sizes.join("x"),
            pads.join("x")
        );
        self.define(body, x.ty, &x.dims, bits, &text);
    }
}
