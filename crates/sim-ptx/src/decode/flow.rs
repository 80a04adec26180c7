//! Finds where divergent threads reconverge: at the immediate post-dominator of each branch.
//!
//! Post-dominators are the dominators of the reversed control flow graph. They are computed with
//! the iterative algorithm of Cooper, Harvey and Kennedy ("A simple, fast dominance algorithm",
//! 2001) on basic blocks, with one additional node for the kernel's exit.

use crate::operation::{Instruction, Op};

/// Not an instruction: threads that diverge here reconverge only at the exit.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Sets `reconverge` of every branch.
pub(super) fn reconverge(code: &mut [Instruction]) {
    let blocks = Blocks::of(code);
    let immediate = blocks.post_dominators();
    for block in 0..blocks.count() {
        let last = blocks.last(block);
        let meet = match immediate[block] {
            Some(at) if at < blocks.count() => blocks.starts[at],
            _ => NOWHERE,
        };
        match &mut code[last].op {
            Op::Branch { reconverge, .. } | Op::BranchTable { reconverge, .. } => {
                *reconverge = meet;
            }
            _ => {}
        }
    }
}

struct Blocks {
    /// The first instruction of each block, followed by the number of instructions.
    starts: Vec<u32>,
    successors: Vec<Vec<usize>>,
}

impl Blocks {
    fn of(code: &[Instruction]) -> Self {
        let mut leads = vec![false; code.len() + 1];
        leads[0] = true;
        for (at, instruction) in code.iter().enumerate() {
            match &instruction.op {
                Op::Branch { target, .. } => leads[*target as usize] = true,
                Op::BranchTable { targets, .. } => {
                    targets.iter().for_each(|t| leads[*t as usize] = true);
                }
                Op::Exit | Op::Trap => {}
                _ => continue,
            }
            leads[at + 1] = true;
        }
        let mut starts: Vec<u32> = (0..code.len() as u32)
            .filter(|i| leads[*i as usize])
            .collect();
        starts.push(code.len() as u32);
        let mut blocks = Self {
            starts,
            successors: Vec::new(),
        };
        blocks.successors = (0..blocks.count())
            .map(|block| blocks.successors_of(code, block))
            .collect();
        blocks
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn last(&self, block: usize) -> usize {
        self.starts[block + 1] as usize - 1
    }

    fn at(&self, instruction: u32) -> usize {
        self.starts.partition_point(|&start| start <= instruction) - 1
    }

    /// The successors of a block; node `count()` is the exit.
    fn successors_of(&self, code: &[Instruction], block: usize) -> Vec<usize> {
        let last = &code[self.last(block)];
        let exit = self.count();
        let next = if block + 1 < exit { block + 1 } else { exit };
        let mut successors = match &last.op {
            Op::Branch { target, .. } => vec![self.at(*target)],
            Op::BranchTable { targets, .. } => targets.iter().map(|t| self.at(*t)).collect(),
            Op::Exit | Op::Trap => vec![exit],
            _ => vec![next],
        };
        if last.guard.is_some() {
            successors.push(next);
        }
        successors
    }

    /// The immediate post-dominator of each block; `None` if the exit cannot be reached.
    fn post_dominators(&self) -> Vec<Option<usize>> {
        let exit = self.count();
        let mut predecessors = vec![Vec::new(); exit + 1];
        for (block, successors) in self.successors.iter().enumerate() {
            successors.iter().for_each(|s| predecessors[*s].push(block));
        }
        // The post-order of a depth-first search in the reversed graph, from the exit.
        let mut number = vec![usize::MAX; exit + 1];
        let mut order = Vec::new();
        let mut seen = vec![false; exit + 1];
        let mut stack = vec![(exit, 0)];
        seen[exit] = true;
        while let Some((node, child)) = stack.last_mut() {
            if let Some(&next) = predecessors[*node].get(*child) {
                *child += 1;
                if !std::mem::replace(&mut seen[next], true) {
                    stack.push((next, 0));
                }
            } else {
                number[*node] = order.len();
                order.push(*node);
                stack.pop();
            }
        }
        let mut immediate = vec![None; exit + 1];
        immediate[exit] = Some(exit);
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &node in order.iter().rev().filter(|n| **n != exit) {
                let mut meet: Option<usize> = None;
                for &successor in self.successors[node]
                    .iter()
                    .filter(|s| immediate[**s].is_some())
                {
                    meet = Some(
                        meet.map_or(successor, |m| intersect(m, successor, &immediate, &number)),
                    );
                }
                if immediate[node] != meet {
                    immediate[node] = meet;
                    changed = true;
                }
            }
        }
        immediate
    }
}

fn intersect(mut a: usize, mut b: usize, immediate: &[Option<usize>], number: &[usize]) -> usize {
    while a != b {
        let deeper = if number[a] < number[b] {
            &mut a
        } else {
            &mut b
        };
        match immediate[*deeper] {
            Some(up) if up != *deeper => *deeper = up,
            _ => return a.max(b),
        }
    }
    a
}
