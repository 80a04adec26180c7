//! The program that the run time executes: the Plan's steps as actions with resolved addresses.

use crate::analysis::cost::Work;
use crate::library::call::Call;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use tegula_ir::ElementType;

/// Whose memory, and how many bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Location {
    pub area: Area,
    pub offset: usize,
}

/// Whose memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Area {
    Parameter(usize),
    Output(usize),
    Constant(usize),
    Arena,
    /// What is [kept](crate::program::run_invariants) from run to run, by number; filled by the first run.
    Kept(usize),
    /// What an entry of the table of [exchanged](crate::program::double_buffer) memories leads to.
    Exchanged(usize),
}

impl Area {
    /// The number of a memory that is kept.
    pub(crate) fn kept(self) -> Option<usize> {
        match self {
            Self::Kept(slot) => Some(slot),
            _ => None,
        }
    }
}

/// One step with addresses.
#[derive(Debug)]
pub(crate) enum Action {
    Kernel {
        kernel: usize,
        args: Vec<Location>,
        extent: i64,
        /// Into how many parts its outermost dimension is split.
        parts: usize,
        work: Work,
    },
    Call {
        name: String,
        call: Call,
        inputs: Vec<Location>,
        outputs: Vec<Location>,
        /// Of a sort: which of the code's sorts.
        sort: usize,
        /// Where the operand is that is packed once.
        kept: Option<Location>,
        work: Work,
    },
    /// Packs an operand that is packed once: what a call keeps, not what a run does.
    Pack {
        call: Box<Call>,
        from: Location,
        to: Location,
    },
    Copy {
        from: Location,
        to: Location,
        bytes: usize,
    },
    /// Leads an entry of the table to a slab of an array.
    View {
        entry: usize,
        source: Location,
        bytes: i64,
        indices: SmallVec<[Index<Location>; 2]>,
    },
    While {
        condition: Vec<Action>,
        predicate: Location,
        body: Vec<Action>,
        /// What changes roles after each iteration.
        exchanges: Vec<Exchange>,
        /// The function that it is, if it is one.
        nest: Option<Nest>,
    },
    Conditional {
        selector: Location,
        is_pred: bool,
        branches: Vec<Vec<Action>>,
    },
    Strips(Box<Strips>),
}

impl Action {
    /// The name under which its time is reported; control flow has none, because
    /// its time is that of what it runs.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::Kernel { kernel, .. } => Some(format!("k{kernel}")),
            Self::Call { name, .. } => Some(name.clone()),
            Self::Copy { .. } => Some("copy".to_owned()),
            Self::Pack { .. }
            | Self::View { .. }
            | Self::While { .. }
            | Self::Conditional { .. }
            | Self::Strips(_) => None,
        }
    }
}

impl Action {
    /// What it does itself.
    pub(crate) fn work(&self) -> Work {
        match self {
            Self::Kernel { work, .. } | Self::Call { work, .. } => *work,
            Self::Copy { bytes, .. } => Work::of_copy(*bytes),
            Self::Pack { .. }
            | Self::View { .. }
            | Self::While { .. }
            | Self::Conditional { .. }
            | Self::Strips(_) => Work::default(),
        }
    }

    /// Every place that it names, also inside of control flow.
    pub(crate) fn each_location(&mut self, visit: &mut dyn FnMut(&mut Location)) {
        match self {
            Self::Kernel { args, .. } => args.iter_mut().for_each(visit),
            Self::Call {
                inputs,
                outputs,
                kept,
                ..
            } => inputs.iter_mut().chain(outputs).chain(kept).for_each(visit),
            Self::Copy { from, to, .. } | Self::Pack { from, to, .. } => {
                visit(from);
                visit(to);
            }
            Self::View {
                source, indices, ..
            } => {
                visit(source);
                indices.iter_mut().for_each(|index| visit(&mut index.place));
            }
            Self::While {
                condition,
                predicate,
                body,
                exchanges,
                nest,
            } => {
                visit(predicate);
                nest.iter_mut()
                    .for_each(|nest| nest.table.iter_mut().for_each(&mut *visit));
                for exchange in exchanges {
                    visit(&mut exchange.state);
                    visit(&mut exchange.next);
                }
                let all = condition.iter_mut().chain(body);
                all.for_each(|action| action.each_location(visit));
            }
            Self::Conditional {
                selector, branches, ..
            } => {
                visit(selector);
                let all = branches.iter_mut().flatten();
                all.for_each(|action| action.each_location(visit));
            }
            Self::Strips(strips) => strips.each_location(visit),
        }
    }
}

/// The most scratch memory that a call of these actions needs on so many threads.
pub(crate) fn scratch_bytes(actions: &[Action], threads: usize) -> usize {
    let each = actions.iter().map(|action| match action {
        Action::Call { call, .. } => call.scratch_bytes(threads),
        Action::While {
            condition, body, ..
        } => scratch_bytes(condition, threads).max(scratch_bytes(body, threads)),
        Action::Conditional { branches, .. } => {
            let each = branches.iter().map(|b| scratch_bytes(b, threads));
            each.max().unwrap_or(0)
        }
        Action::Strips(strips) => strips.bytes(),
        Action::Kernel { .. } | Action::Copy { .. } | Action::Pack { .. } | Action::View { .. } => {
            0
        }
    });
    each.max().unwrap_or(0)
}

/// Two memories of one size that change roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Where the state is before the loop, and must be after it.
    pub state: Location,
    /// Where the next one is computed.
    pub next: Location,
    pub bytes: usize,
    /// The entries of the table that lead to them.
    pub entries: [usize; 2],
}

impl Exchange {
    /// Which of the two memories contains a location, 0 being the state's and 1 the next one's, and the
    /// location's distance from its start in bytes.
    pub(crate) fn part(&self, location: Location) -> Option<(usize, usize)> {
        let both = [self.state, self.next];
        both.into_iter().enumerate().find_map(|(number, at)| {
            let offset = location.offset.checked_sub(at.offset)?;
            (location.area == at.area && offset < self.bytes).then_some((number, offset))
        })
    }
}

/// An integer in memory that says which slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Index<P> {
    pub place: P,
    pub element_type: ElementType,
    /// It is clamped to these.
    pub least: i64,
    pub most: i64,
    /// Bytes from one slab to the next.
    pub stride: i64,
}

impl<P> Index<P> {
    /// The same at another place.
    pub(crate) fn at<Q>(&self, place: Q) -> Index<Q> {
        Index {
            place,
            element_type: self.element_type,
            least: self.least,
            most: self.most,
            stride: self.stride,
        }
    }
}

/// A loop's function: its number, and what lies at the addresses that it is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Nest {
    /// Which of the code's loops.
    pub function: usize,
    /// The places, in the order of the table.
    pub table: Vec<Location>,
}

/// Steps done strip by strip.
#[derive(Debug)]
pub(crate) struct Strips {
    pub(crate) count: usize,
    /// How many strips are done at once: each has its own memory.
    pub(crate) at_once: usize,
    pub(crate) steps: Vec<Strip>,
    /// Bytes of a strip of the private arrays.
    pub(crate) private: usize,
    /// Bytes that a strip has: those, and what calls need.
    pub(crate) memory: usize,
    /// Bytes of what all strips share: operands that were packed.
    pub(crate) shared: usize,
}

/// A step's strips.
#[derive(Debug)]
pub(crate) struct Strip {
    pub(crate) name: String,
    pub(crate) what: What,
    pub(crate) arrays: Vec<Array>,
    /// Of all strips.
    pub(crate) work: Work,
}

#[derive(Debug)]
pub(crate) enum What {
    Kernel {
        kernel: usize,
        /// Outermost points of a strip.
        points: i64,
    },
    Call {
        call: Box<Call>,
        /// Its last arrays.
        results: usize,
        packed: Option<Packed>,
    },
}

/// An operand that a product packs and all strips read: packed once, before them.
#[derive(Debug)]
pub(crate) struct Packed {
    /// Which operand.
    pub(crate) operand: usize,
    pub(crate) at: PackedAt,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum PackedAt {
    /// So far from the start of what all strips share: by each run.
    Shared(usize),
    /// By the first run.
    Kept(Location),
}

/// Where a strip's elements of an array are.
#[derive(Debug)]
pub(crate) enum Array {
    /// In memory that all strips are in. By dimension that is cut, outermost first, how many
    /// parts it has, and how many bytes each is after the one before. (A kernel counts from
    /// where the first strip's are.)
    There {
        first: Location,
        distances: SmallVec<[(usize, usize); 2]>,
    },
    /// In the strip's own memory from here on: so many bytes.
    Private { begin: usize, bytes: usize },
}

impl Strips {
    /// Bytes of memory that a run needs for it.
    pub(crate) fn bytes(&self) -> usize {
        self.shared + self.at_once * self.memory
    }

    /// Bytes of that for arrays.
    pub(crate) fn private_bytes(&self) -> usize {
        self.at_once * self.private
    }

    /// Every place that is named.
    pub(crate) fn each_location(&mut self, visit: &mut dyn FnMut(&mut Location)) {
        for strip in &mut self.steps {
            for array in &mut strip.arrays {
                if let Array::There { first, .. } = array {
                    visit(first);
                }
            }
            if let What::Call {
                packed: Some(packed),
                ..
            } = &mut strip.what
                && let PackedAt::Kept(place) = &mut packed.at
            {
                visit(place);
            }
        }
    }
}

impl Strip {
    /// Its call, if it is one, and the operand that is packed before all strips.
    pub(crate) fn call(&self) -> Option<(&Call, Option<&Packed>)> {
        match &self.what {
            What::Call { call, packed, .. } => Some((call, packed.as_ref())),
            What::Kernel { .. } => None,
        }
    }
}
