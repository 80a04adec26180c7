//! Copies routines of `crates/rt` to an object: the section that contains each routine, and the
//! sections that it refers to. The copies are local to the object, so that two programs with the
//! same routines can be linked together.

use crate::error::Error;
use object::read::{File, ObjectSection, ObjectSymbol};
use object::write::{Relocation, StandardSection, Symbol, SymbolId, SymbolSection};
use object::{
    Object as _, RelocationFlags, RelocationTarget, SectionIndex, SymbolFlags, SymbolKind,
    SymbolScope,
};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_linalg::gemm::{Product, TileForm};
use tegula_rt::TILE;
use tegula_target::Architecture;

/// The prefix of the names of `crates/rt`'s routines.
pub(super) const ROUTINE: &str = "tegula_rt_";

/// The routines there that generated code calls by names without the prefix.
pub(super) const NARROW: [&str; 3] = ["decode_narrow", "encode_narrow", "encode_narrow_f64"];

/// The tiles of matrix products that a program calls, by the suffixes of their functions' names.
#[derive(Default)]
pub(super) struct Tiles {
    /// Whether any tile may be called, because products have open sizes.
    any: bool,
    named: FxHashSet<String>,
}

impl Tiles {
    /// Adds the tiles that a product calls.
    pub(super) fn add(&mut self, product: &Product) {
        self.named
            .extend(product.tiles().iter().map(TileForm::name));
    }

    /// Adds all tiles.
    pub(super) fn add_all(&mut self) {
        self.any = true;
    }

    /// Whether a routine is a tile that is never called.
    fn lack(&self, routine: &str) -> bool {
        let is_called = || self.named.iter().any(|name| routine.ends_with(name));
        !self.any && routine.starts_with(TILE) && !is_called()
    }
}

/// The available routines, and those that have been copied to the object.
pub(super) struct Linker {
    routines: File<'static>,
    named: FxHashMap<&'static str, SectionIndex>,
    copied: FxHashMap<SectionIndex, SymbolId>,
    /// The sections that replace tiles that are never called.
    instead: FxHashMap<SectionIndex, SectionIndex>,
}

/// The routines' object for an architecture.
///
/// # Errors
/// Tegula was built without it.
pub(super) fn routines_for(architecture: Architecture) -> Result<&'static [u8], Error> {
    let routines = match architecture {
        Architecture::X86_64 => &tegula_rt::X86_64,
        Architecture::Aarch64 => &tegula_rt::AARCH64,
    };
    let routines = routines
        .object()
        .map_err(|error| Error::Bug(format!("the routines' object: {error}")))?;
    if routines.is_empty() {
        let triple = architecture.linux_triple();
        return Err(Error::Cpu(format!(
            "a program that calls routines (products, sorts, factorisations, random bits and others) cannot be \
             compiled for {triple}: when this Tegula was built, Rust's core library for it was not there; \
             install that (`rustup target add {triple}`) and build Tegula again"
        )));
    }
    Ok(routines)
}

fn unreadable(error: object::Error) -> Error {
    Error::Bug(format!("the routines' object: {error}"))
}

impl Linker {
    /// Reads the routines' object for an architecture, without tiles that are never called.
    pub(super) fn new(architecture: Architecture, tiles: &Tiles) -> Result<Self, Error> {
        let routines = File::parse(routines_for(architecture)?).map_err(unreadable)?;
        let mut named = FxHashMap::default();
        for symbol in routines.symbols().filter(ObjectSymbol::is_global) {
            if let (Ok(name), Some(section)) = (symbol.name(), symbol.section_index()) {
                named.insert(name, section);
            }
        }
        let absent = named.get(tegula_rt::ABSENT).copied();
        let absent = absent.ok_or_else(|| {
            Error::Bug(format!(
                "the routines' object does not define {}",
                tegula_rt::ABSENT
            ))
        })?;
        let lacks = named.iter().filter(|(name, _)| tiles.lack(name));
        let instead = lacks.map(|(_, &section)| (section, absent)).collect();
        Ok(Self {
            routines,
            named,
            copied: FxHashMap::default(),
            instead,
        })
    }

    /// The symbol of a routine, which is copied with everything that it needs, unless it has been
    /// copied already.
    pub(super) fn routine(
        &mut self,
        file: &mut object::write::Object<'_>,
        name: &str,
    ) -> Result<SymbolId, Error> {
        let section = self.named.get(name).copied();
        let section = section.ok_or_else(|| {
            Error::Bug(format!(
                "the routines' object does not define the routine {name}"
            ))
        })?;
        let mut left = Vec::new();
        let symbol = self.section(file, section, &mut left)?;
        while let Some((section, to, start)) = left.pop() {
            self.relocations(file, section, (to, start), &mut left)?;
        }
        Ok(symbol)
    }

    /// The symbol at the beginning of a section's copy. Sections whose references have not been
    /// copied yet are added to `left`, with their new offsets.
    fn section(
        &mut self,
        file: &mut object::write::Object<'_>,
        index: SectionIndex,
        left: &mut Vec<(SectionIndex, object::write::SectionId, u64)>,
    ) -> Result<SymbolId, Error> {
        let index = self.instead.get(&index).copied().unwrap_or(index);
        if let Some(&known) = self.copied.get(&index) {
            return Ok(known);
        }
        let section = self.routines.section_by_index(index).map_err(unreadable)?;
        let name = section.name().map_err(unreadable)?;
        let (standard, kind) = match name {
            _ if name.starts_with(".text") => (StandardSection::Text, SymbolKind::Text),
            _ if name.starts_with(".rodata") => (StandardSection::ReadOnlyData, SymbolKind::Data),
            _ if name.starts_with(".data.rel.ro") => {
                (StandardSection::ReadOnlyDataWithRel, SymbolKind::Data)
            }
            _ => {
                return Err(Error::Bug(format!(
                    "the routines' object has the unexpected section {name}"
                )));
            }
        };
        let bytes = section.data().map_err(unreadable)?;
        let to = file.section_id(standard);
        let start = file.append_section_data(to, bytes, section.align().max(1));
        let symbol = file.add_symbol(Symbol {
            name: format!("tegula_rt{}", self.copied.len()).into_bytes(),
            value: start,
            size: bytes.len() as u64,
            kind,
            scope: SymbolScope::Compilation,
            weak: false,
            section: SymbolSection::Section(to),
            flags: SymbolFlags::None,
        });
        self.copied.insert(index, symbol);
        left.push((index, to, start));
        Ok(symbol)
    }

    fn relocations(
        &mut self,
        file: &mut object::write::Object<'_>,
        index: SectionIndex,
        (to, start): (object::write::SectionId, u64),
        left: &mut Vec<(SectionIndex, object::write::SectionId, u64)>,
    ) -> Result<(), Error> {
        let section = self.routines.section_by_index(index).map_err(unreadable)?;
        let all: Vec<(u64, object::Relocation)> = section.relocations().collect();
        for (at, relocation) in all {
            let RelocationTarget::Symbol(target) = relocation.target() else {
                return Err(Error::Bug(
                    "the routines' object has a relocation without a symbol".to_owned(),
                ));
            };
            let target = self.routines.symbol_by_index(target).map_err(unreadable)?;
            let (section, offset) = (target.section_index(), target.address());
            let (symbol, offset) = match section {
                Some(section) => (self.section(file, section, left)?, offset as i64),
                None => (outside(file, target.name_bytes().map_err(unreadable)?), 0),
            };
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                return Err(Error::Bug(
                    "the routines' object is not an ELF file".to_owned(),
                ));
            };
            let relocation = Relocation {
                offset: start + at,
                symbol,
                addend: relocation.addend() + offset,
                flags: RelocationFlags::Elf { r_type },
            };
            file.add_relocation(to, relocation)
                .map_err(|error| Error::Bug(error.to_string()))?;
        }
        Ok(())
    }
}

/// A function of the C library.
pub(super) fn outside(file: &mut object::write::Object<'_>, name: &[u8]) -> SymbolId {
    if let Some(known) = file.symbol_id(name) {
        return known;
    }
    file.add_symbol(Symbol {
        name: name.to_vec(),
        value: 0,
        size: 0,
        kind: SymbolKind::Text,
        scope: SymbolScope::Unknown,
        weak: false,
        section: SymbolSection::Undefined,
        flags: SymbolFlags::None,
    })
}
