//! An image as an ELF object for x86-64 or AArch64.

use super::link::{self, Linker, NARROW, ROUTINE, Tiles};
use super::routines;
use crate::error::Error;
use crate::image::{CodeImage, FunctionId, RelocationKind, Target};
use ar_archive_writer::{ArchiveKind, NewArchiveMember, write_archive_to_stream};
use object::write::{
    Object, Relocation, SectionId, StandardSection, Symbol, SymbolId, SymbolSection,
};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SymbolFlags, SymbolKind, SymbolScope,
    elf,
};
use tegula_ir::{ALIGNMENT, Literal};

/// The roles of an image's functions.
pub(super) struct Entries {
    /// Exported functions, by name.
    pub(super) exported: Vec<(String, FunctionId)>,
    /// For each routine that the code calls, the image's own function, or `None` for one of the C
    /// library.
    pub(super) routines: Vec<Option<FunctionId>>,
}

/// Writes an object file.
///
/// # Errors
/// The code needs something that objects do not have.
pub(super) fn write(
    architecture: tegula_target::Architecture,
    image: &CodeImage,
    entries: &Entries,
    constants: &[&Literal],
    (sine_table, tiles): (&[u32], &Tiles),
) -> Result<Vec<u8>, Error> {
    let machine = match architecture {
        tegula_target::Architecture::X86_64 => Architecture::X86_64,
        tegula_target::Architecture::Aarch64 => Architecture::Aarch64,
    };
    let mut file = Object::new(BinaryFormat::Elf, machine, Endianness::Little);
    let mut writer = Writer {
        architecture,
        text: file.section_id(StandardSection::Text),
        image,
        entries,
        constants,
        sine_table,
        tiles,
        outside: vec![None; image.routines.len()],
        inside: vec![None; image.functions.len()],
        data: vec![None; constants.len()],
        table: None,
        linker: None,
    };
    // The program's own code comes first, before copied routines.
    let code = writer.code()?;
    file.append_section_data(writer.text, &code, ALIGNMENT as u64);
    let relocations = writer.relocations(&mut file)?;
    for relocation in relocations {
        file.add_relocation(writer.text, relocation)
            .map_err(|error| Error::Bug(error.to_string()))?;
    }
    for (name, function) in &entries.exported {
        let symbol = writer.symbol_in_text(&mut file, name, *function, SymbolScope::Dynamic);
        file.symbol_mut(symbol).kind = SymbolKind::Text;
    }
    // Marks the stack as not executable.
    let note = file.add_section(
        Vec::new(),
        b".note.GNU-stack".to_vec(),
        object::SectionKind::Other,
    );
    file.section_mut(note).set_data(Vec::new(), 1);
    file.write().map_err(|error| Error::Bug(error.to_string()))
}

struct Writer<'a> {
    architecture: tegula_target::Architecture,
    text: SectionId,
    image: &'a CodeImage,
    entries: &'a Entries,
    constants: &'a [&'a Literal],
    sine_table: &'a [u32],
    tiles: &'a Tiles,
    /// The symbols that exist already: of routines, functions, constants, and the table.
    outside: Vec<Option<SymbolId>>,
    inside: Vec<Option<SymbolId>>,
    data: Vec<Option<SymbolId>>,
    table: Option<SymbolId>,
    /// The linker that copies routines, once there is one.
    linker: Option<Linker>,
}

impl Writer<'_> {
    /// The code, with relative references between its own functions filled in.
    fn code(&self) -> Result<Vec<u8>, Error> {
        let mut code = self.image.code.clone();
        for relocation in &self.image.relocations {
            let (Target::Function(function), true) =
                (relocation.target, relocation.kind.is_relative())
            else {
                continue;
            };
            let start = u64::from(self.image.functions[function.0 as usize]);
            let address = start.wrapping_add_signed(relocation.addend);
            let here = u64::from(relocation.at);
            let applied = relocation
                .kind
                .apply(&mut code, relocation.at, here, address);
            applied
                .ok_or_else(|| Error::Bug("functions of an object are too far apart".to_owned()))?;
        }
        Ok(code)
    }

    /// The relocations for a linker.
    fn relocations(&mut self, file: &mut Object<'_>) -> Result<Vec<Relocation>, Error> {
        let mut relocations = Vec::new();
        for relocation in &self.image.relocations {
            let symbol = match relocation.target {
                // Filled in already.
                Target::Function(_) if relocation.kind.is_relative() => continue,
                Target::Function(function) => self.function(file, function),
                Target::Routine(number) => self.routine(file, number as usize)?,
                Target::SineTable => self.sine_table(file),
                Target::Constant(number) => self.constant(file, number as usize)?,
                Target::Operation(number) => {
                    let operation = &self.image.operations[number as usize];
                    let name = routines::of_operation(operation).ok_or_else(|| {
                        let operation = String::from(operation.clone());
                        Error::Unsupported(format!("the operation `{operation}` in an object"))
                    })?;
                    self.copied(file, &name)?
                }
            };
            let r_type = match relocation.kind {
                RelocationKind::Relative32 => elf::R_X86_64_PC32,
                RelocationKind::GotRelative32 => elf::R_X86_64_GOTPCREL,
                RelocationKind::Call26 => elf::R_AARCH64_CALL26,
                RelocationKind::Page21 => elf::R_AARCH64_ADR_PREL_PG_HI21,
                RelocationKind::PageOffset12 => elf::R_AARCH64_ADD_ABS_LO12_NC,
                RelocationKind::GotPage21 => elf::R_AARCH64_ADR_GOT_PAGE,
                RelocationKind::GotPageOffset12 => elf::R_AARCH64_LD64_GOT_LO12_NC,
                RelocationKind::Absolute64 => {
                    return Err(Error::Bug(
                        "object code cannot contain an absolute address".to_owned(),
                    ));
                }
            };
            relocations.push(Relocation {
                offset: u64::from(relocation.at),
                symbol,
                addend: relocation.addend,
                flags: RelocationFlags::Elf { r_type },
            });
        }
        Ok(relocations)
    }

    fn symbol_in_text(
        &self,
        file: &mut Object<'_>,
        name: &str,
        function: FunctionId,
        scope: SymbolScope,
    ) -> SymbolId {
        file.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value: u64::from(self.image.functions[function.0 as usize]),
            size: 0,
            kind: SymbolKind::Text,
            scope,
            weak: false,
            section: SymbolSection::Section(self.text),
            flags: SymbolFlags::None,
        })
    }

    fn function(&mut self, file: &mut Object<'_>, function: FunctionId) -> SymbolId {
        if let Some(known) = self.inside[function.0 as usize] {
            return known;
        }
        let name = format!("f{}", function.0);
        let symbol = self.symbol_in_text(file, &name, function, SymbolScope::Compilation);
        self.inside[function.0 as usize] = Some(symbol);
        symbol
    }

    fn routine(&mut self, file: &mut Object<'_>, number: usize) -> Result<SymbolId, Error> {
        if let Some(function) = self.entries.routines[number] {
            return Ok(self.function(file, function));
        }
        if let Some(known) = self.outside[number] {
            return Ok(known);
        }
        let name = &self.image.routines[number];
        let narrow = NARROW.contains(&name.as_str());
        let symbol = match narrow || name.starts_with(ROUTINE) {
            true => {
                let name = match narrow {
                    true => format!("{ROUTINE}{name}"),
                    false => name.clone(),
                };
                self.copied(file, &name)?
            }
            false => link::outside(file, name.as_bytes()),
        };
        self.outside[number] = Some(symbol);
        Ok(symbol)
    }

    /// The symbol of a routine of `crates/rt`.
    fn copied(&mut self, file: &mut Object<'_>, name: &str) -> Result<SymbolId, Error> {
        let linker = match self.linker.take() {
            Some(linker) => linker,
            None => Linker::new(self.architecture, self.tiles)?,
        };
        self.linker.insert(linker).routine(file, name)
    }

    fn constant(&mut self, file: &mut Object<'_>, number: usize) -> Result<SymbolId, Error> {
        let literal = self.constants.get(number);
        let literal = literal.ok_or_else(|| Error::Bug(format!("constant {number}")))?;
        let name = format!("constant{number}");
        Ok(*self.data[number].get_or_insert_with(|| data(file, &name, literal.bytes())))
    }

    fn sine_table(&mut self, file: &mut Object<'_>) -> SymbolId {
        let bytes: Vec<u8> = self
            .sine_table
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        *self
            .table
            .get_or_insert_with(|| data(file, "sine_table", &bytes))
    }
}

/// Adds read-only bytes under a local name.
fn data(file: &mut Object<'_>, name: &str, bytes: &[u8]) -> SymbolId {
    let section = file.section_id(StandardSection::ReadOnlyData);
    let at = file.append_section_data(section, bytes, ALIGNMENT as u64);
    file.add_symbol(Symbol {
        name: name.as_bytes().to_vec(),
        value: at,
        size: bytes.len() as u64,
        kind: SymbolKind::Data,
        scope: SymbolScope::Compilation,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    })
}

/// An archive with one member and an index of its symbols.
pub(super) fn archive(name: &str, object: &[u8]) -> Result<Vec<u8>, Error> {
    let member = NewArchiveMember::new(
        object,
        &ar_archive_writer::DEFAULT_OBJECT_READER,
        format!("{name}.o"),
    );
    let mut bytes = std::io::Cursor::new(Vec::new());
    write_archive_to_stream(&mut bytes, &[member], ArchiveKind::Gnu, false, None)
        .map_err(|error| Error::Bug(error.to_string()))?;
    Ok(bytes.into_inner())
}
