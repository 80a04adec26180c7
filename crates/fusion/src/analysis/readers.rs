//! The readers of each value of a program. Passes use this to fold a node into its only reader.

use crate::program::{NodeId, Program, Region, ValueId};
use tegula_arena::SecondaryMap;

/// The number of readers of each value.
#[derive(Default)]
pub(crate) struct Readers {
    counts: SecondaryMap<ValueId, u32>,
    /// One of the nodes that read the value.
    some: SecondaryMap<ValueId, Option<NodeId>>,
}

impl Readers {
    /// Counts the readers in a region and in all regions nested in it.
    pub(crate) fn of(program: &Program, region: &Region) -> Self {
        let mut readers = Self::default();
        readers.count(program, region);
        readers
    }

    fn count(&mut self, program: &Program, region: &Region) {
        for &result in &region.results {
            self.counts[result] += 1;
        }
        for &id in &region.nodes {
            let node = &program.nodes[id];
            for &operand in &node.operands {
                self.counts[operand] += 1;
                self.some[operand] = Some(id);
            }
            for inner in node.kind.regions() {
                self.count(program, inner);
            }
        }
    }

    /// Whether a value has a reader.
    pub(crate) fn is_read(&self, value: ValueId) -> bool {
        self.counts[value] > 0
    }

    /// Whether a value has exactly one reader: a node, or the results of a region.
    pub(crate) fn is_read_once(&self, value: ValueId) -> bool {
        self.counts[value] == 1
    }

    /// The node that reads a value, if it is the only reader.
    pub(crate) fn only_reader(&self, value: ValueId) -> Option<NodeId> {
        self.some[value].filter(|_| self.is_read_once(value))
    }
}
