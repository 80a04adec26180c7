//! A convolution as a kernel: one point per element of the result, loops over the
//! kernel's positions and input features.

use super::builder::Builder;
use super::dot::accumulator;
use tegula_expr::{Cmp, Term};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, ScalarId};
use tegula_ir::{ArrayShape, Binary, ConvDims, ElementType, Symbol, WindowDim};

/// The attributes of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a> {
    pub window: &'a [WindowDim],
    pub dims: &'a ConvDims,
    pub feature_groups: i64,
    pub batch_groups: i64,
}

/// Where in an array something is, by dimension number.
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

/// The kernel of a convolution on parameters input, kernel and result.
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
    /// Adds the products at every position of the window along the dimensions that
    /// are left.
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
            let constant = Term::constant;
            let position = output
                .mul(&constant(window.stride))
                .add(&tap.mul(&constant(window.window_dilation)))
                .add(&constant(-window.padding_low));
            let dilation = constant(window.base_dilation);
            let element = position.floor_div(&dilation);
            let inside = [
                Term::cmp(Cmp::Eq, &position.modulo(&dilation), &constant(0)),
                Term::cmp(Cmp::Le, &constant(0), &element),
                Term::cmp(Cmp::Lt, &element, &size),
            ];
            let inside = inside.iter().fold(constant(1), |all, one| all.mul(one));
            let own_tap = match window.reversal {
                true => taps.add(&constant(-1)).sub(&tap),
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

    /// Adds the products of the input features of the output's group.
    fn features(
        &self,
        builder: &mut Builder<'_>,
        input: &Place,
        weights: &Place,
        sum: ScalarId,
    ) -> ScalarId {
        let Attributes {
            dims,
            feature_groups,
            batch_groups,
            ..
        } = self.attributes;
        let constant = Term::constant;
        let (batch, feature) = (
            at(self.out, dims.output_batch),
            at(self.out, dims.output_feature),
        );
        let features = at(self.k, dims.kernel_output_feature);
        let channels = at(self.k, dims.kernel_input_feature);
        let groups = feature_groups.max(batch_groups).max(1);
        let per_group = Term::max(&features.floor_div(&constant(groups)), &constant(1));
        let group = feature.floor_div(&per_group);
        builder.fold(channels.clone(), sum, &mut |builder, channel, sum| {
            let (mut input, mut weights) = (Place(input.0.clone()), Place(weights.0.clone()));
            let mut own = channel.clone();
            if feature_groups > 1 {
                own = own.add(&group.mul(&channels));
            }
            let mut own_batch = batch.clone();
            if batch_groups > 1 {
                let batches = at(self.x, dims.input_batch).floor_div(&constant(batch_groups));
                own_batch = own_batch.add(&group.mul(&batches));
            }
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
