//! Findings: what is wrong with a program, with stable codes and one finding per place.

use crate::program::BufferId;
use rustc_hash::FxHashMap;

macro_rules! codes {
    ($($variant:ident $code:literal $also:expr, $severity:ident $doc:literal;)*) => {
        /// A kind of finding, with a stable code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $doc] $variant,)* }

        impl Code {
            /// Every code, in order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code, such as `TG040`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// The code that libtpu's compiler uses for the same error, if there is one.
            pub const fn also(self) -> Option<&'static str> {
                match self { $(Self::$variant => $also,)* }
            }

            /// How serious it is.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// Its meaning in one line.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

codes! {
    HbmCapacity "TG001" Some("E1000"), Error "HBM capacity exceeded.";
    VmemCapacity "TG002" Some("E1001"), Error "VMEM, or the limit of scoped VMEM, exceeded.";
    ScalarCapacity "TG003" None, Error "SMEM or CMEM capacity exceeded.";
    Block "TG010" Some("E2002"), Error "Block not divisible by the tile and not the full dimension.";
    Alignment "TG011" Some("E2003"), Error "Dynamic offset not provably aligned.";
    ElementType "TG012" Some("E2001"), Error "Element type not supported by the unit on this chip.";
    OutOfBounds "TG020" None, Error "Access or copy outside the buffer.";
    InPadding "TG021" None, Error "Access outside the logical bounds, but inside the padding.";
    Uninitialised "TG030" None, Error "Read of bytes never written.";
    Padding "TG031" None, Error "A padding lane reaches a reduction, comparison or stored element.";
    ReadBeforeDone "TG040" None, Error "Read before the copy that writes it is known to be done.";
    Overwritten "TG041" None, Error "Overwritten while a copy may still read it.";
    TwoWrites "TG042" None, Error "Two unordered writes of the same bytes.";
    NeverStarted "TG050" None, Error "Wait for a copy that was never started.";
    NeverWaited "TG051" None, Error "Copy started and never waited for.";
    ByteCount "TG052" None, Error "Bytes waited for and bytes copied differ.";
    Deadlock "TG053" None, Error "Deadlock.";
    SemaphoreLeft "TG054" None, Warning "Semaphore not zero at the end.";
    UseAfterFree "TG060" None, Error "Use after free.";
    Overlap "TG061" None, Error "Overlapping live allocations.";
    Revisited "TG062" None, Error "Output block revisited after other blocks came between.";
    CheckFailed "TG070" None, Error "A check that the kernel makes of itself does not hold.";
}

impl Code {
    /// Whether it is a data race: two accesses without an order.
    pub fn is_race(self) -> bool {
        matches!(
            self,
            Self::ReadBeforeDone | Self::Overwritten | Self::TwoWrites
        )
    }

    /// Whether it says that a memory is too small.
    pub fn is_capacity(self) -> bool {
        matches!(
            self,
            Self::HbmCapacity | Self::VmemCapacity | Self::ScalarCapacity
        )
    }
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The program does not do what it says, or does not run on this chip.
    Error,
    /// The program works, but leaves something in a state that is hardly intended.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// A defect at the place where it was first met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of defect.
    pub code: Code,
    /// What is wrong, with names and numbers.
    pub message: String,
    /// What to do about it.
    pub help: String,
    /// The statement, as the program's printer writes it.
    pub instruction: String,
    /// The statement's line; 0 if there is none.
    pub line: u32,
    /// The buffer concerned.
    pub buffer: Option<String>,
    /// How often the defect was met.
    pub count: u64,
}

/// The most findings that are kept; further places are only counted.
const MAX_FINDINGS: usize = 1000;

/// The findings collected so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    seen: FxHashMap<(Code, u32, Option<BufferId>), usize>,
    list: Vec<Finding>,
}

/// The texts of a finding; they are made only for a new one.
pub(crate) struct Told {
    pub(crate) message: String,
    pub(crate) help: String,
    pub(crate) instruction: String,
    pub(crate) buffer: Option<String>,
}

impl Findings {
    pub(crate) fn add(
        &mut self,
        code: Code,
        line: u32,
        buffer: Option<BufferId>,
        tell: impl FnOnce() -> Told,
    ) {
        if let Some(&position) = self.seen.get(&(code, line, buffer)) {
            if let Some(finding) = self.list.get_mut(position) {
                finding.count += 1;
            }
            return;
        }
        if self.list.len() >= MAX_FINDINGS {
            return;
        }
        self.seen.insert((code, line, buffer), self.list.len());
        let told = tell();
        self.list.push(Finding {
            code,
            message: told.message,
            help: told.help,
            instruction: told.instruction,
            line,
            buffer: told.buffer,
            count: 1,
        });
    }

    /// The first finding for which the predicate holds. The predicate is not called if there are no
    /// findings.
    pub(crate) fn first(&self, wanted: impl Fn(Code) -> bool) -> Option<&Finding> {
        self.list.iter().find(|finding| wanted(finding.code))
    }

    /// The findings by line, then code. A read of an output block that was lost because its window
    /// came to it again is one finding, not two.
    pub(crate) fn into_list(self) -> Vec<Finding> {
        let Self { seen, mut list } = self;
        let mut again: Vec<Option<String>> = Vec::new();
        for (&(code, _, _), &position) in &seen {
            if code == Code::Revisited {
                again.extend(list.get(position).map(|finding| finding.buffer.clone()));
            }
        }
        list.retain(|finding| {
            finding.code != Code::Uninitialised || !again.contains(&finding.buffer)
        });
        list.sort_by(|a, b| (a.line, a.code, &a.buffer).cmp(&(b.line, b.code, &b.buffer)));
        list
    }
}
