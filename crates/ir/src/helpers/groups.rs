//! The groups of a convolution.

use tegula_expr::Provider;

/// How a convolution is cut into groups, which are convolutions by themselves: along its
/// features, or along its batch. Each makes output features of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionGroups {
    /// Groups of input features; at least 1.
    pub features: i64,
    /// Groups of the input's batch; at least 1, and 1 if there are several of features.
    pub batch: i64,
}

/// The sizes of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSizes<I> {
    /// Output features.
    pub outputs: I,
    /// Input features: what an element of the result sums over.
    pub channels: I,
    /// The part of the input's batch: the result's batch.
    pub batch: I,
}

impl ConvolutionGroups {
    /// Whether there are groups, in one way at most.
    pub fn is_possible(&self) -> bool {
        self.features >= 1 && self.batch >= 1 && (self.features == 1 || self.batch == 1)
    }

    /// How many groups there are.
    pub fn count(&self) -> i64 {
        self.features.max(self.batch).max(1)
    }

    /// The sizes of a group, from the kernel's output features and input features and
    /// from the input's batch.
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

    /// The batch and the feature of the input that the result at this batch and output
    /// feature takes channel `channel` of its group from.
    pub fn input<P: Provider>(
        &self,
        p: &mut P,
        sizes: &GroupSizes<P::Index>,
        [batch, feature, channel]: [&P::Index; 3],
    ) -> [P::Index; 2] {
        if self.count() == 1 {
            return [batch.clone(), channel.clone()];
        }
        // Of no features none asks for its group.
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

    /// The batch and the output feature of the result that an element of the input at
    /// this batch and feature goes to, as output feature `own` of its group.
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
