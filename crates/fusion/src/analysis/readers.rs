//! Who reads each value of a program: what a pass that folds a node into another asks.

use crate::program::{NodeId, Program, Region, ValueId};
use tegula_arena::SecondaryMap;

/// The readers of a program's values.
#[derive(Default)]
pub(crate) struct Readers {
    counts: SecondaryMap<ValueId, u32>,
    /// One of the nodes that read it.
    some: SecondaryMap<ValueId, Option<NodeId>>,
}

impl Readers {
    /// Those in a region and all inside it.
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

    /// Whether a value is read once, by a node or as what a region gives.
    pub(crate) fn is_read_once(&self, value: ValueId) -> bool {
        self.counts[value] == 1
    }

    /// The node that reads a value, if only that does.
    pub(crate) fn only_reader(&self, value: ValueId) -> Option<NodeId> {
        self.some[value].filter(|_| self.is_read_once(value))
    }
}
