//! Relocations: fills in references in machine code.

use super::RelocationKind;
use cranelift_codegen::binemit::Reloc;

/// The page size for AArch64's instructions, in bytes.
const PAGE: u64 = 4096;

impl RelocationKind {
    /// The kind for Cranelift's; [`None`] for kinds that code here never has.
    pub(super) fn of(kind: Reloc) -> Option<Self> {
        Some(match kind {
            Reloc::Abs8 => Self::Absolute64,
            Reloc::X86PCRel4 | Reloc::X86CallPCRel4 | Reloc::X86CallPLTRel4 => Self::Relative32,
            Reloc::X86GOTPCRel4 => Self::GotRelative32,
            Reloc::Arm64Call => Self::Call26,
            Reloc::Aarch64AdrPrelPgHi21 => Self::Page21,
            Reloc::Aarch64AddAbsLo12Nc => Self::PageOffset12,
            Reloc::Aarch64AdrGotPage21 => Self::GotPage21,
            Reloc::Aarch64Ld64GotLo12Nc => Self::GotPageOffset12,
            _ => return None,
        })
    }

    /// Whether it stores the distance to the address, so that references within the code can be
    /// filled in before it has an address.
    pub(crate) fn is_relative(self) -> bool {
        matches!(self, Self::Relative32 | Self::Call26)
    }

    /// Fills in an address at a place of the code whose own address is `here`. [`None`] if the
    /// place is outside of the code, the address is too far away, or the kind is for linkers only.
    pub(crate) fn apply(self, code: &mut [u8], at: u32, here: u64, address: u64) -> Option<()> {
        let distance = address.wrapping_sub(here).cast_signed();
        let at = at as usize;
        if self == Self::Absolute64 {
            let place = code.get_mut(at..at + 8)?;
            place.copy_from_slice(&address.to_le_bytes());
            return Some(());
        }
        let place = code.get_mut(at..at + 4)?.first_chunk_mut()?;
        let word = u32::from_le_bytes(*place);
        let word = match self {
            Self::Absolute64 | Self::GotRelative32 | Self::GotPage21 | Self::GotPageOffset12 => {
                return None;
            }
            Self::Relative32 => i32::try_from(distance).ok()?.cast_unsigned(),
            // Words of four bytes, in the low bits of the instruction.
            Self::Call26 => {
                let fits = distance % 4 == 0 && (-(1 << 27)..1 << 27).contains(&distance);
                let words = (distance >> 2) as u32 & 0x03ff_ffff;
                fits.then_some(word & 0xfc00_0000 | words)?
            }
            // The number of pages, whose two low bits are in a separate field.
            Self::Page21 => {
                let pages = (address / PAGE).wrapping_sub(here / PAGE).cast_signed();
                let fits = (-(1 << 20)..1 << 20).contains(&pages);
                let pages = pages as u32;
                let bits = (pages & 3) << 29 | (pages >> 2 & 0x7_ffff) << 5;
                fits.then_some(word & 0x9f00_001f | bits)?
            }
            Self::PageOffset12 => word & 0xffc0_03ff | ((address % PAGE) as u32) << 10,
        };
        *place = word.to_le_bytes();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::RelocationKind;

    /// An instruction with an address filled in.
    fn applied(kind: RelocationKind, word: u32, here: u64, address: u64) -> Option<u32> {
        let mut code = word.to_le_bytes();
        kind.apply(&mut code, 0, here, address)?;
        Some(u32::from_le_bytes(code))
    }

    /// Compared with an assembler's output for the same instructions.
    #[test]
    fn instructions_of_aarch64_are_filled_in() {
        // bl .+8; bl .-4
        let call = |to| applied(RelocationKind::Call26, 0x9400_0000, 0x1000, to);
        assert_eq!(call(0x1008), Some(0x9400_0002));
        assert_eq!(call(0x0ffc), Some(0x97ff_ffff));
        assert_eq!(call(0x1001), None);
        assert_eq!(call(0x1000 + (1 << 27)), None);
        // adrp x0, three pages on; one page back
        let page = |to| applied(RelocationKind::Page21, 0x9000_0000, 0x5123, to);
        assert_eq!(page(0x8fff), Some(0xf000_0000));
        assert_eq!(page(0x4000), Some(0xf0ff_ffe0));
        // add x0, x0, #0x123
        let offset = applied(RelocationKind::PageOffset12, 0x9100_0000, 0, 0x7123);
        assert_eq!(offset, Some(0x9104_8c00));
        assert_eq!(applied(RelocationKind::GotPage21, 0, 0, 0), None);
    }
}
