//! The dimensions of a `ragged-dot`.

use super::{Dimensions, kept_dimensions, place};
use crate::DotDims;

/// The role of the ragged dimension: the dimension of the left operand that is divided into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaggedRole {
    /// A dimension of the result: each group of rows is multiplied by its own right operand.
    Free,
    /// A dimension that is summed over: each group of terms has its own result.
    Contracted,
    /// A batch dimension: the groups have no effect.
    Batch,
}

impl DotDims {
    /// The role of a dimension of the left operand if it is the ragged one.
    pub fn ragged_role(&self, ragged: usize) -> RaggedRole {
        if place(&self.lhs_batch, ragged).is_some() {
            RaggedRole::Batch
        } else if place(&self.lhs_contracting, ragged).is_some() {
            RaggedRole::Contracted
        } else {
            RaggedRole::Free
        }
    }

    /// The dimensions of the left operand, which has this rank, by which group sizes may vary:
    /// those before the ragged one, batch dimensions first.
    pub fn group_prefix(&self, ragged: usize, rank: usize) -> Dimensions {
        let numbers = |list: &[i64]| -> Dimensions {
            let numbers = list.iter().filter_map(|&dim| usize::try_from(dim).ok());
            numbers.collect()
        };
        let batch = numbers(&self.lhs_batch);
        let own = match self.ragged_role(ragged) {
            RaggedRole::Batch => return batch.into_iter().take_while(|&d| d != ragged).collect(),
            RaggedRole::Contracted => numbers(&self.lhs_contracting),
            RaggedRole::Free => {
                let others = self.lhs_batch.iter().chain(&self.lhs_contracting);
                kept_dimensions(&others.copied().collect::<crate::DimNumbers>(), rank)
            }
        };
        let own = own.into_iter().take_while(|&dim| dim != ragged);
        batch.into_iter().chain(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn sizes_may_differ_along_what_is_before_the_ragged_dimension() {
        let dims = DotDims {
            lhs_batch: smallvec![1],
            lhs_contracting: smallvec![4, 0],
            ..DotDims::default()
        };
        assert_eq!(dims.ragged_role(3), RaggedRole::Free);
        assert_eq!(dims.group_prefix(3, 5)[..], [1, 2]);
        assert_eq!(dims.ragged_role(0), RaggedRole::Contracted);
        assert_eq!(dims.group_prefix(0, 5)[..], [1, 4]);
        assert_eq!(dims.ragged_role(1), RaggedRole::Batch);
        assert!(dims.group_prefix(1, 5).is_empty());
    }
}
