//! TPU chips, by name.

use crate::param::Param;
use crate::quantity::Quantity;
use crate::tile::{TileError, TileRule};
use std::collections::BTreeMap;
use tegula_ir::Layout;

/// The built-in chips, oldest first.
const BUILT_IN: &[&str] = &[
    include_str!("../chips/v2.chip"),
    include_str!("../chips/v3.chip"),
    include_str!("../chips/v4i.chip"),
    include_str!("../chips/v4.chip"),
    include_str!("../chips/v5e.chip"),
    include_str!("../chips/v5p.chip"),
    include_str!("../chips/v6e.chip"),
    include_str!("../chips/7x.chip"),
];

/// A TPU chip.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chip {
    /// The name, as used on the command line.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// The rule for the chip's default layouts, if it was measured.
    pub tile_rule: Option<TileRule>,
    /// The known parameters, and those known to be unavailable.
    pub quantities: BTreeMap<Param, Quantity>,
}

/// The error for an unknown chip name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no chip `{name}`; there are {}", known.join(", "))]
pub struct UnknownChip {
    /// The unknown name.
    pub name: String,
    /// The known names.
    pub known: Vec<String>,
}

/// A memory of a chip.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpace<'a> {
    /// Its name, such as `VMEM`.
    pub name: &'static str,
    /// The `n` of `S(n)` in layouts, if it was observed in libtpu's output.
    pub layout_number: Option<i64>,
    /// The size, if it is stated.
    pub size: Option<&'a Quantity>,
    /// Whether each core has its own; otherwise the chip's cores share it.
    pub per_core: bool,
}

impl Chip {
    /// The built-in chips, oldest first.
    pub fn built_in() -> Vec<Self> {
        // A test parses each of them.
        BUILT_IN
            .iter()
            .filter_map(|text| Self::parse(text).ok())
            .collect()
    }

    /// The chip with this name or alias.
    ///
    /// # Errors
    /// An unknown name; the error lists the known ones.
    pub fn by_name(name: &str) -> Result<Self, UnknownChip> {
        let chips = Self::built_in();
        let called = |chip: &&Self| chip.name == name || chip.aliases.iter().any(|a| a == name);
        if let Some(chip) = chips.iter().find(called) {
            return Ok(chip.clone());
        }
        let names = chips.into_iter().flat_map(|chip| {
            let Self { name, aliases, .. } = chip;
            std::iter::once(name).chain(aliases)
        });
        Err(UnknownChip {
            name: name.to_owned(),
            known: names.collect(),
        })
    }

    /// The stated value of a parameter.
    pub fn quantity(&self, param: Param) -> Option<&Quantity> {
        self.quantities.get(&param)
    }

    /// A parameter in base units (bytes, seconds, operations per second, ...), if
    /// it is known.
    pub fn value(&self, param: Param) -> Option<f64> {
        self.quantity(param)?.base_value()
    }

    /// The chip's memories, without those of size 0.
    ///
    /// Their numbers in layouts were observed in programs that libtpu 0.0.50 optimised: S(1) is
    /// VMEM, and S(3) occurs where a v4 prefetches to CMEM.
    pub fn memory_spaces(&self) -> Vec<MemorySpace<'_>> {
        let spaces = [
            ("HBM", Some(0), Param::HbmBytes, false),
            ("VMEM", Some(1), Param::VmemBytes, true),
            ("CMEM", Some(3), Param::CmemBytes, false),
            ("SMEM", None, Param::SmemBytes, true),
        ];
        let space = |(name, layout_number, param, per_core)| MemorySpace {
            name,
            layout_number,
            size: self.quantity(param),
            per_core,
        };
        let there = |space: &MemorySpace<'_>| space.size.is_none_or(|s| s.value != Some(0.0));
        spaces.into_iter().map(space).filter(there).collect()
    }

    /// The layout that the chip's compiler gives an array by default.
    ///
    /// # Errors
    /// The rule was not measured for this chip; as [`TileRule::default_layout`].
    pub fn default_layout(&self, element_bits: u32, dims: &[i64]) -> Result<Layout, TileError> {
        let rule = self.tile_rule;
        let rule = rule.ok_or_else(|| TileError::Chip(self.name.clone()))?;
        rule.default_layout(element_bits, dims)
    }
}
