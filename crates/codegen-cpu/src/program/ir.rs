//! The program that the run time executes: the Plan's steps as actions with resolved addresses.

use crate::analysis::cost::Work;
use crate::library::call::Call;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use tegula_ir::ElementType;

/// A memory area and an offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Location {
    pub area: Area,
    pub offset: usize,
}

/// A memory area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Area {
    Parameter(usize),
    Output(usize),
    Constant(usize),
    Arena,
    /// The buffer of a value that is [kept](crate::program::run_invariants) between runs, by
    /// number; filled by the first run.
    Kept(usize),
    /// The buffer that an entry of the table of [exchanged](crate::program::double_buffer) buffers
    /// points to.
    Exchanged(usize),
}

impl Area {
    /// The number of the kept buffer, if it is one.
    pub(crate) fn kept(self) -> Option<usize> {
        match self {
            Self::Kept(slot) => Some(slot),
            _ => None,
        }
    }
}

/// One step with resolved addresses.
#[derive(Debug)]
pub(crate) enum Action {
    Kernel {
        kernel: usize,
        args: Vec<Location>,
        extent: i64,
        /// The number of parts into which the outermost dimension is split.
        parts: usize,
        work: Work,
    },
    Call {
        name: String,
        call: Call,
        inputs: Vec<Location>,
        outputs: Vec<Location>,
        /// For a sort, its number among the code's sorts.
        sort: usize,
        /// The location of the operand that is packed once.
        kept: Option<Location>,
        work: Work,
    },
    /// Packs an operand once: fills the memory that a call keeps.
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
    /// Sets an entry of the table to the address of a slab of an array.
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
        /// The buffers that are exchanged after each iteration.
        exchanges: Vec<Exchange>,
        /// The function of the loop, if it is outlined.
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
    /// The name under which the action's time is reported; control flow has none, because its time
    /// is that of nested actions.
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
    /// The work of the action, without nested ones.
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

    /// Visits every location that the action refers to, including nested actions.
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

/// The maximum scratch memory that a call of these actions needs with this many threads.
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

/// Two buffers of one size whose roles are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// The location of the state before and after the loop.
    pub state: Location,
    /// The location of the next state.
    pub next: Location,
    pub bytes: usize,
    /// The table entries that hold their addresses.
    pub entries: [usize; 2],
}

impl Exchange {
    /// Which of the two buffers contains a location (0 for the state's, 1 for the next one's), and
    /// the location's offset in it in bytes.
    pub(crate) fn part(&self, location: Location) -> Option<(usize, usize)> {
        let both = [self.state, self.next];
        both.into_iter().enumerate().find_map(|(number, at)| {
            let offset = location.offset.checked_sub(at.offset)?;
            (location.area == at.area && offset < self.bytes).then_some((number, offset))
        })
    }
}

/// An integer in memory that selects a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Index<P> {
    pub place: P,
    pub element_type: ElementType,
    /// The bounds to which it is clamped.
    pub least: i64,
    pub most: i64,
    /// The distance between slabs in bytes.
    pub stride: i64,
}

impl<P> Index<P> {
    /// The same index at another place.
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

/// An outlined loop: its function's number, and the table of its addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Nest {
    /// The number of the function among the code's loops.
    pub function: usize,
    /// The locations, in the order of the table.
    pub table: Vec<Location>,
}

/// Strip-mined steps.
#[derive(Debug)]
pub(crate) struct Strips {
    pub(crate) count: usize,
    /// The number of strips that are executed at once, each with memory of its own.
    pub(crate) at_once: usize,
    pub(crate) steps: Vec<Strip>,
    /// The bytes of the private arrays for one strip.
    pub(crate) private: usize,
    /// The bytes of memory for one strip: the private arrays, and scratch memory of calls.
    pub(crate) memory: usize,
    /// The bytes that all strips share: packed operands.
    pub(crate) shared: usize,
}

/// One step of a strip.
#[derive(Debug)]
pub(crate) struct Strip {
    pub(crate) name: String,
    pub(crate) what: What,
    pub(crate) arrays: Vec<Array>,
    /// The work of all strips.
    pub(crate) work: Work,
}

#[derive(Debug)]
pub(crate) enum What {
    Kernel {
        kernel: usize,
        /// The number of points of the outermost dimension in a strip.
        points: i64,
    },
    Call {
        call: Box<Call>,
        /// The number of results, which are the last arrays.
        results: usize,
        packed: Option<Packed>,
    },
}

/// An operand that a product packs and all strips read: packed once, before the strips.
#[derive(Debug)]
pub(crate) struct Packed {
    /// The number of the operand.
    pub(crate) operand: usize,
    pub(crate) at: PackedAt,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum PackedAt {
    /// Packed by each run, at this offset in the memory that all strips share.
    Shared(usize),
    /// Packed by the first run.
    Kept(Location),
}

/// The location of a strip's elements of an array.
#[derive(Debug)]
pub(crate) enum Array {
    /// In memory that contains all strips. For each dimension that is cut, outermost first: the
    /// number of parts, and the distance between them in bytes. (A kernel's addresses are relative
    /// to the first strip.)
    There {
        first: Location,
        distances: SmallVec<[(usize, usize); 2]>,
    },
    /// In the strip's own memory: the offset and the number of bytes.
    Private { begin: usize, bytes: usize },
}

impl Strips {
    /// The bytes of memory that a run needs for the strips.
    pub(crate) fn bytes(&self) -> usize {
        self.shared + self.at_once * self.memory
    }

    /// The bytes of private arrays in it.
    pub(crate) fn private_bytes(&self) -> usize {
        self.at_once * self.private
    }

    /// Visits every location that the steps refer to.
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
    /// The step's call, if it is one, and the operand that is packed before all strips.
    pub(crate) fn call(&self) -> Option<(&Call, Option<&Packed>)> {
        match &self.what {
            What::Call { call, packed, .. } => Some((call, packed.as_ref())),
            What::Kernel { .. } => None,
        }
    }
}
