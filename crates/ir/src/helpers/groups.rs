//! Grouped convolutions.

use tegula_expr::Provider;

/// The group counts of a grouped convolution. Its features, or else its batch, are divided into
/// groups; each group is a convolution of its own and computes its own output features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionGroups {
    /// The number of groups of input features; at least 1.
    pub features: i64,
    /// The number of groups of the input's batch; at least 1, and 1 if `features` is above 1.
    pub batch: i64,
}

/// The sizes of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSizes<I> {
    /// The number of output features.
    pub outputs: I,
    /// The number of input features, over which each element of the result sums.
    pub channels: I,
    /// The size of the input's batch in the group, which is the batch of the result.
    pub batch: I,
}

impl ConvolutionGroups {
    /// Whether the counts are positive and at most one of them is above 1.
    pub fn is_possible(&self) -> bool {
        self.features >= 1 && self.batch >= 1 && (self.features == 1 || self.batch == 1)
    }

    /// The number of groups.
    pub fn count(&self) -> i64 {
        self.features.max(self.batch).max(1)
    }

    /// The sizes of one group, from the kernel's numbers of output and input features and the
    /// input's batch size.
    pub fn sizes<P: Provider>(
        &self,
        p: &mut P,
        outputs: &P::Index,
        channels: &P::Index,
        batch: &P::Index,
    ) -> GroupSizes<P::Index> {
        let (count, batches) = (p.literal(self.count()), p.literal(self.batch.max(1)));
        GroupSizes {
            outputs: p.floor_div(outputs, &count),
            channels: channels.clone(),
            batch: p.floor_div(batch, &batches),
        }
    }

    /// The batch index and the feature index of the input element that is read for channel
    /// `channel` of the group, for the result at this batch and output feature.
    pub fn input<P: Provider>(
        &self,
        p: &mut P,
        sizes: &GroupSizes<P::Index>,
        [batch, feature, channel]: [&P::Index; 3],
    ) -> [P::Index; 2] {
        if self.count() == 1 {
            return [batch.clone(), channel.clone()];
        }
        // Avoids a division by zero if a group has no output features.
        let one = p.literal(1);
        let outputs = p.max(&sizes.outputs, &one);
        let group = p.floor_div(feature, &outputs);
        let mut from = |own: &P::Index, size: &P::Index| {
            let first = p.mul(&group, size);
            p.add(&first, own)
        };
        match self.batch > 1 {
            true => [from(batch, &sizes.batch), channel.clone()],
            false => [batch.clone(), from(channel, &sizes.channels)],
        }
    }

    /// The inverse of [`Self::input`]: the batch index and the output feature of the result for
    /// which the input at this batch and feature is read, given the output feature `own` within the
    /// group.
    pub fn output<P: Provider>(
        &self,
        p: &mut P,
        sizes: &GroupSizes<P::Index>,
        [batch, feature, own]: [&P::Index; 3],
    ) -> [P::Index; 2] {
        if self.count() == 1 {
            return [batch.clone(), own.clone()];
        }
        let one = p.literal(1);
        let (group, batch) = match self.batch > 1 {
            true => {
                let size = p.max(&sizes.batch, &one);
                (p.floor_div(batch, &size), p.modulo(batch, &size))
            }
            false => {
                let size = p.max(&sizes.channels, &one);
                (p.floor_div(feature, &size), batch.clone())
            }
        };
        let first = p.mul(&group, &sizes.outputs);
        [batch, p.add(&first, own)]
    }
}
