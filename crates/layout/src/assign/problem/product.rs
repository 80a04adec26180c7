//! The preferences of products: the rows and lanes of a dot's operands and result, as the matrix
//! unit takes and writes them, and the channels and batch of a convolution.

use super::{Place, Relation, Spaces};
use crate::assign::layout_preferences::{Dims, MANY_FEATURES, Wish};
use tegula_fusion::{Node, ValueId};
use tegula_ir::Op;
use tegula_ir::helpers::DotDim;

impl Spaces<'_> {
    pub(super) fn product(&mut self, op: &Op, node: &Node, place: Place) {
        let number = |&dim: &i64| u32::try_from(dim).unwrap_or(0);
        let (Some(lhs), Some(rhs)) = (node.operands.first(), node.operands.get(1)) else {
            return;
        };
        let result = node.results.first();
        match op {
            Op::Dot { dims, .. } => {
                let sides = [(lhs, &dims.lhs_contracting), (rhs, &dims.rhs_contracting)];
                let ranks = [lhs, rhs].map(|value| self.program.values[*value].shape.rank());
                let Some(roles) = dims.roles(ranks) else {
                    return;
                };
                let mut own = [Dims::new(), Dims::new()];
                for (side, (operand, contracted)) in sides.into_iter().enumerate() {
                    let shape = &self.program.values[*operand].shape;
                    let contracted: Dims = contracted.iter().map(number).collect();
                    let mut free = Dims::new();
                    let sizes = shape.dims.iter().zip(&roles.operands[side]);
                    for ((size, role), dim) in sizes.zip(0..) {
                        if let DotDim::Free(place) = role
                            && size.representative() != 1
                        {
                            free.push(dim);
                            own[side].push(*place as u32);
                        }
                    }
                    let bits = shape.element_type.bits();
                    let wish = Wish::Operand {
                        contracted: contracted.clone(),
                        free,
                    };
                    self.wish(place, Some(operand), wish);
                    let to = result.and_then(|&result| self.space(place, result));
                    if let (Some(from), Some(to)) = (self.space(place, *operand), to) {
                        let in_result = own[side].clone();
                        let relation = Relation::Product {
                            contracted,
                            in_result,
                            bits,
                        };
                        self.link(from, to, relation);
                    }
                }
                let [lhs, rhs] = own;
                self.wish(place, result, Wish::Result { lhs, rhs });
            }
            Op::Convolution { .. } if !self.machine.has_lanes() => {
                self.dense_convolution(op, node, place);
            }
            Op::Convolution { dims, .. } => {
                let pieces = self.pieces(op, node);
                let rows = pieces.as_ref().map(|pieces| pieces.input_rows);
                for (value, first, second, is_result) in [
                    (
                        Some(lhs),
                        &dims.input_feature,
                        &rows.unwrap_or(dims.input_batch),
                        false,
                    ),
                    (
                        Some(rhs),
                        &dims.kernel_output_feature,
                        &dims.kernel_input_feature,
                        false,
                    ),
                    (result, &dims.output_feature, &dims.output_batch, true),
                ] {
                    let wish = match &pieces {
                        Some(pieces) if is_result => Wish::Folded(pieces.order.clone()),
                        _ => Wish::Channels {
                            first: number(first),
                            second: number(second),
                            result: is_result,
                        },
                    };
                    self.wish(place, value, wish);
                }
            }
            _ => {}
        }
    }

    /// Convolutions with groups are fast in certain combinations of the orders of all three arrays,
    /// and many times slower in others, so the program's own orders are kept.
    fn dense_convolution(&mut self, op: &Op, node: &Node, place: Place) {
        let Op::Convolution {
            dims,
            feature_group_count,
            batch_group_count,
            ..
        } = op
        else {
            return;
        };
        let (Some(result), Some(kernel)) = (node.results.first(), node.operands.get(1)) else {
            return;
        };
        let count = |value: &ValueId| {
            let sizes = self.program.values[*value].shape.dims.iter();
            sizes
                .map(|size| size.representative() as f64)
                .product::<f64>()
        };
        let size = |dim: i64| {
            let shape = &self.program.values[*result].shape;
            shape
                .dimension(dim)
                .map_or(1, tegula_ir::Dim::representative)
        };
        let features = size(dims.output_feature);
        let operations = 2.0 * count(result) * count(kernel) / features.max(1) as f64;
        if (*feature_group_count, *batch_group_count) != (1, 1) {
            // A routine reads arrays in their memory order.
            for value in &node.operands {
                self.wish(Place::Memory, Some(value), Wish::Grouped { operations });
            }
            self.wish(place, Some(result), Wish::Grouped { operations });
        } else if features >= MANY_FEATURES {
            let features = u32::try_from(dims.output_feature).unwrap_or(0);
            let written = Wish::Written {
                features,
                operations,
            };
            self.wish(place, Some(result), written);
        }
    }
}
