//! A convolution as a kernel: one point for each element of the result, with loops over the
//! window's positions and the input features.

use super::builder::Builder;
use super::dot::accumulator;
use super::gemm::{BATCH, Product, ROWS, SUMMED, Window};
use crate::error::Error;
use crate::function::KernelSequence;
use rustc_hash::FxHashMap;
use tegula_expr::{Term, terms};
use tegula_fusion::kernel::{Access, ScalarId};
use tegula_fusion::{Kernel, Label};
use tegula_ir::helpers::ConvolutionGroups;
use tegula_ir::{ArrayShape, Binary, ConvDims, Dim, ElementType, Symbol, WindowDim};

/// The attributes of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a> {
    pub window: &'a [WindowDim],
    pub dims: &'a ConvDims,
    pub groups: ConvolutionGroups,
}

/// An index in an array, by dimension number.
struct Place(Vec<Term>);

impl Place {
    fn of(rank: usize) -> Self {
        Self(vec![Term::constant(0); rank])
    }

    fn set(&mut self, dim: i64, term: Term) {
        if let Some(slot) = usize::try_from(dim).ok().and_then(|i| self.0.get_mut(i)) {
            *slot = term;
        }
    }
}

/// The kernel of a convolution; its parameters are the input, the weights and the result.
pub(super) fn kernel(
    attributes: Attributes<'_>,
    [input, weights, result]: [&ArrayShape; 3],
    symbols: &[Symbol],
) -> Kernel {
    let mut builder = Builder::new(symbols);
    let mut dims = |shape: &ArrayShape| -> Vec<Term> {
        shape
            .dims
            .iter()
            .map(|dim| builder.size(&dim.term()))
            .collect()
    };
    let (x, k, y) = (dims(input), dims(weights), dims(result));
    let out: Vec<Term> = y.iter().map(|size| builder.domain(size.clone())).collect();
    let params = [
        builder.param(Access::Read, input.element_type, x.clone()),
        builder.param(Access::Read, weights.element_type, k.clone()),
    ];
    let to = builder.param(Access::Write, result.element_type, y);
    let wide = accumulator(result.element_type);
    let zero = builder.zero(wide);
    let sum = Taps {
        attributes,
        params,
        x: &x,
        k: &k,
        out: &out,
        wide,
    };
    let places = (Place::of(x.len()), Place::of(k.len()));
    let value = sum.spatial(&mut builder, 0, places, zero);
    let value = builder.convert(result.element_type, value);
    builder.store(to, out, value);
    builder.finish()
}

fn at(terms: &[Term], dim: i64) -> Term {
    let found = usize::try_from(dim).ok().and_then(|i| terms.get(i));
    found.cloned().unwrap_or_else(|| Term::constant(0))
}

struct Taps<'a> {
    attributes: Attributes<'a>,
    params: [usize; 2],
    x: &'a [Term],
    k: &'a [Term],
    out: &'a [Term],
    wide: ElementType,
}

impl Taps<'_> {
    /// Adds the products for every position of the window along the remaining dimensions.
    fn spatial(
        &self,
        builder: &mut Builder<'_>,
        level: usize,
        (input, weights): (Place, Place),
        sum: ScalarId,
    ) -> ScalarId {
        let dims = self.attributes.dims;
        let Some(window) = self.attributes.window.get(level) else {
            return self.features(builder, &input, &weights, sum);
        };
        let dim = |of: &[i64]| of.get(level).copied().unwrap_or(-1);
        let (x_dim, k_dim) = (dim(&dims.input_spatial), dim(&dims.kernel_spatial));
        let output = at(self.out, dim(&dims.output_spatial));
        let (size, taps) = (at(self.x, x_dim), at(self.k, k_dim));
        builder.fold(taps.clone(), sum, &mut |builder, tap, sum| {
            let from_begin = window.from_begin();
            let (element, inside) = from_begin.meet(&mut terms(), &size, &output, &tap);
            let own_tap = match window.reversal {
                true => taps.add(&Term::constant(-1)).sub(&tap),
                false => tap,
            };
            builder.choose(inside, sum, &mut |builder| {
                let (mut input, mut weights) = (Place(input.0.clone()), Place(weights.0.clone()));
                input.set(x_dim, element.clone());
                weights.set(k_dim, own_tap.clone());
                self.spatial(builder, level + 1, (input, weights), sum)
            })
        })
    }

    /// Adds the products of the input features in the output's group.
    fn features(
        &self,
        builder: &mut Builder<'_>,
        input: &Place,
        weights: &Place,
        sum: ScalarId,
    ) -> ScalarId {
        let Attributes { dims, groups, .. } = self.attributes;
        let (batch, feature) = (
            at(self.out, dims.output_batch),
            at(self.out, dims.output_feature),
        );
        let features = at(self.k, dims.kernel_output_feature);
        let channels = at(self.k, dims.kernel_input_feature);
        let batches = at(self.x, dims.input_batch);
        let sizes = groups.sizes(&mut terms(), &features, &channels, &batches);
        builder.fold(channels.clone(), sum, &mut |builder, channel, sum| {
            let (mut input, mut weights) = (Place(input.0.clone()), Place(weights.0.clone()));
            let place = groups.input(&mut terms(), &sizes, [&batch, &feature, &channel]);
            let [own_batch, own] = place;
            input.set(dims.input_feature, own);
            input.set(dims.input_batch, own_batch);
            weights.set(dims.kernel_input_feature, channel);
            weights.set(dims.kernel_output_feature, feature.clone());
            let factors = [(self.params[0], input), (self.params[1], weights)];
            let factors = factors.map(|(param, place)| {
                let value = builder.load(param, place.0);
                builder.convert(self.wide, value)
            });
            let product = builder.binary(Binary::Multiply, factors[0], factors[1]);
            builder.binary(Binary::Add, sum, product)
        })
    }
}

/// A convolution as a tiled matrix product, if that suits it. The rows are the positions of the
/// result in batch and space, the columns are the output features of a group, and the sum runs over
/// the window's positions and the input features.
///
/// # Errors
/// A type that cannot be converted, which is a bug in Tegula.
pub(super) fn tiled(
    name: &str,
    attributes: Attributes<'_>,
    [input, weights, result]: [&ArrayShape; 3],
    symbols: &[Symbol],
) -> Result<Option<KernelSequence>, Error> {
    let Attributes {
        window,
        dims,
        groups,
    } = attributes;
    let sizes = |shape: &ArrayShape| -> Vec<Term> { shape.dims.iter().map(Dim::term).collect() };
    let (x, k, y) = (sizes(input), sizes(weights), sizes(result));
    let strides = [row_major(&x), row_major(&k), row_major(&y)];
    let stride = |side: usize, dim: i64| at(&strides[side], dim);
    let features = at(&k, dims.kernel_output_feature);
    let channels = at(&k, dims.kernel_input_feature);
    let batches = at(&x, dims.input_batch);
    let group_sizes = groups.sizes(&mut terms(), &features, &channels, &batches);
    let per_group = &group_sizes.outputs;
    // The labels are the batch, the group, the group's features, the channels, and for each spatial
    // dimension the result's position and the window's.
    let (batch, group, feature, channel) = (0, 1, 2, 3);
    let position = |i: usize| 4 + 2 * i as Label;
    let tap = |i: usize| position(i) + 1;
    let mut product = Product {
        types: [
            input.element_type,
            weights.element_type,
            result.element_type,
        ],
        sizes: [
            (batch, at(&y, dims.output_batch)),
            // At most one of the two kinds of groups is used.
            (
                group,
                Term::constant(groups.features.saturating_mul(groups.batch)),
            ),
            (feature, per_group.clone()),
            (channel, channels.clone()),
        ]
        .into_iter()
        .collect(),
        groups: [vec![group], vec![batch], vec![feature], Vec::new()],
        strides: [
            [(channel, stride(0, dims.input_feature))]
                .into_iter()
                .collect(),
            [
                (group, per_group.mul(&stride(1, dims.kernel_output_feature))),
                (feature, stride(1, dims.kernel_output_feature)),
                (channel, stride(1, dims.kernel_input_feature)),
            ]
            .into_iter()
            .collect(),
            [
                (batch, stride(2, dims.output_batch)),
                (group, per_group.mul(&stride(2, dims.output_feature))),
                (feature, stride(2, dims.output_feature)),
            ]
            .into_iter()
            .collect(),
        ],
        window: None,
        added: false,
        symbols,
    };
    let spatial = |of: &[i64], i: usize| of.get(i).copied().unwrap_or(-1);
    for i in 0..window.len() {
        let (k_dim, y_dim) = (
            spatial(&dims.kernel_spatial, i),
            spatial(&dims.output_spatial, i),
        );
        product.sizes.insert(position(i), at(&y, y_dim));
        product.sizes.insert(tap(i), at(&k, k_dim));
        product.strides[1].insert(tap(i), stride(1, k_dim));
        product.strides[2].insert(position(i), stride(2, y_dim));
        product.groups[ROWS].push(position(i));
        product.groups[SUMMED].push(tap(i));
    }
    // Contiguous elements of the input are adjacent in the sum.
    match stride(0, dims.input_feature).as_constant() {
        Some(1) => product.groups[SUMMED].push(channel),
        _ => product.groups[SUMMED].insert(0, channel),
    }
    let digits: FxHashMap<Label, Term> = [BATCH, ROWS, SUMMED]
        .into_iter()
        .flat_map(|group| product.digits(group))
        .collect();
    let digit = |label: Label| {
        digits
            .get(&label)
            .cloned()
            .unwrap_or_else(|| Term::constant(0))
    };
    let of_group = |wanted: i64, size: &Term| match wanted {
        1 => Term::constant(0),
        _ => digit(group).mul(size),
    };
    let own_channel = of_group(groups.features, &channels).add(&digit(channel));
    let own_batch = of_group(groups.batch, &at(&y, dims.output_batch)).add(&digit(batch));
    let mut place = own_batch
        .mul(&stride(0, dims.input_batch))
        .add(&own_channel.mul(&stride(0, dims.input_feature)));
    let mut inside = Term::constant(1);
    for (i, window) in window.iter().enumerate() {
        let x_dim = spatial(&dims.input_spatial, i);
        let (output, tap) = (digit(position(i)), digit(tap(i)));
        let (element, within) = window.meet(&mut terms(), &at(&x, x_dim), &output, &tap);
        place = place.add(&element.mul(&stride(0, x_dim)));
        inside = inside.mul(&within);
    }
    // Contiguous channels start at multiples of the common power of two of both counts.
    let together = stride(0, dims.input_feature).as_constant() == Some(1);
    let all = at(&x, dims.input_feature);
    let counts = [channels.as_constant(), all.as_constant()];
    let runs = match counts.map(|count| count.filter(|&count| count > 0)) {
        [Some(own), Some(all)] if together => 1 << own.trailing_zeros().min(all.trailing_zeros()),
        _ => 1,
    };
    product.window = Some(Window {
        place,
        inside,
        runs,
    });
    product.functions(name)
}

/// The strides of a dense row-major array, in elements.
fn row_major(sizes: &[Term]) -> Vec<Term> {
    let mut stride = Term::constant(1);
    let mut strides: Vec<Term> = sizes
        .iter()
        .rev()
        .map(|size| {
            let own = stride.clone();
            stride = stride.mul(size);
            own
        })
        .collect();
    strides.reverse();
    strides
}
