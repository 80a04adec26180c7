//! Assigns VMEM offsets to the buffers that kernels use while they run, and proves that there is
//! room.
//!
//! The schedule fixes the offsets of its own buffers. A kernel's other buffers (blocks, windows,
//! sums) are placed after the last of those that are live then, in the order of their declaration.
//! Two limits are checked at every declaration: the end of the memory, and the most that a kernel
//! may use. This does not rely on how block sizes were chosen: it walks the statements and measures
//! every buffer again.

use super::LowerError;
use tegula_ir::ArrayShape;
use tegula_layout::physical::PhysicalLayout;
use tegula_sim_tpu::alignment;
use tegula_sim_tpu::copies_of;
use tegula_sim_tpu::program::{BufferId, Space, Statement, StatementKind, TpuProgram};

/// The first usable offset in VMEM after this many bytes.
pub(super) fn begin(end: i64) -> i64 {
    let granule = alignment(Space::Vmem);
    match end.rem_euclid(granule) {
        0 => end,
        beyond => end.saturating_add(granule - beyond),
    }
}

/// Assigns an offset to every buffer in VMEM that has none. `vmem` is the size of the memory,
/// `scoped` what a kernel may use of it, in bytes; `instructions` has the names by line.
///
/// # Errors
/// A kernel uses more, or there is no room after the buffers that are live at the same time.
pub(super) fn place(
    program: &mut TpuProgram,
    vmem: i64,
    scoped: i64,
    instructions: &[String],
) -> Result<(), LowerError> {
    let mut placer = Placer {
        program,
        vmem,
        scoped,
        instructions,
        live: Vec::new(),
    };
    let body = std::mem::take(&mut placer.program.body);
    let placed = placer.statements(&body);
    placer.program.body = body;
    placed
}

/// The bytes of VMEM that a buffer occupies.
#[derive(Clone, Copy, Debug)]
struct Held {
    buffer: BufferId,
    start: i64,
    end: i64,
    /// Whether it belongs to a kernel rather than to the schedule.
    own: bool,
}

struct Placer<'a> {
    program: &'a mut TpuProgram,
    vmem: i64,
    scoped: i64,
    instructions: &'a [String],
    live: Vec<Held>,
}

impl Placer<'_> {
    fn statements(&mut self, statements: &[Statement]) -> Result<(), LowerError> {
        for statement in statements {
            let line = statement.line;
            match &statement.kind {
                StatementKind::Declare(id) => self.declare(*id, 1, line)?,
                StatementKind::Free(id) => self.live.retain(|held| held.buffer != *id),
                StatementKind::Grid(grid) => {
                    for window in &grid.windows {
                        self.declare(window.block, window.buffers, line)?;
                    }
                    self.statements(&grid.body)?;
                    let is_block =
                        |held: &Held| grid.windows.iter().any(|w| w.block == held.buffer);
                    self.live.retain(|held| !is_block(held));
                }
                StatementKind::If {
                    then, otherwise, ..
                } => {
                    // After the conditional, the buffers that are live after either branch are
                    // live.
                    let before = self.live.clone();
                    self.statements(then)?;
                    let after = std::mem::replace(&mut self.live, before);
                    self.statements(otherwise)?;
                    for held in after {
                        if self.live.iter().all(|other| other.buffer != held.buffer) {
                            self.live.push(held);
                        }
                    }
                }
                _ => {
                    for body in statement.bodies() {
                        self.statements(body)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, id: BufferId, copies: i64, line: u32) -> Result<(), LowerError> {
        let buffer = &self.program.buffers[id];
        if buffer.space != Space::Vmem {
            return Ok(());
        }
        self.live.retain(|held| held.buffer != id);
        let bytes = match copies {
            1 => bytes(&buffer.shape),
            copies => bytes(&copies_of(&buffer.shape, copies)),
        };
        let own = !buffer.program_lifetime;
        let behind = begin(self.live.iter().map(|held| held.end).max().unwrap_or(0));
        let start = buffer.offset.unwrap_or(behind);
        let held = Held {
            buffer: id,
            start,
            end: start.saturating_add(bytes),
            own,
        };
        let of_kernel = self.live.iter().chain([&held]).filter(|held| held.own);
        let of_kernel = of_kernel.map(|held| held.end - held.start);
        let needed = of_kernel.fold(0, i64::saturating_add);
        let meets = |other: &&Held| other.start < held.end && held.start < other.end;
        let overlaps = self.live.iter().find(meets);
        if held.end > self.vmem || (own && needed > self.scoped) || overlaps.is_some() {
            let schedule = self.live.iter().filter(|held| !held.own);
            let schedule = begin(schedule.map(|held| held.end).max().unwrap_or(0));
            let line = (line as usize).checked_sub(1);
            let name = line.and_then(|at| self.instructions.get(at));
            return Err(LowerError::Reserved {
                instruction: name.map_or("the program", String::as_str).to_owned(),
                needed,
                limit: self.scoped.min(self.vmem - schedule),
            });
        }
        self.program.buffers[id].offset = Some(start);
        self.live.push(held);
        Ok(())
    }
}

fn bytes(shape: &ArrayShape) -> i64 {
    PhysicalLayout::new(shape).map_or(i64::MAX / 8, |layout| layout.padded_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_sim_tpu::text::read_kernel;

    fn placed(vmem: i64, scoped: i64, text: &str) -> Result<Vec<Option<i64>>, LowerError> {
        let mut program = read_kernel(text).unwrap();
        let instructions = vec!["a kernel".to_owned(); 20];
        place(&mut program, vmem, scoped, &instructions)?;
        let buffers = program.buffers.values();
        let vmem = buffers.filter(|buffer| buffer.space == Space::Vmem);
        Ok(vmem.map(|buffer| buffer.offset).collect())
    }

    const TWO_KERNELS: &str = "kernel k {
  hbm x : f32[64,128]{1,0:T(8,128)} = parameter(0)
  vmem kept : f32[8,128]{1,0:T(8,128)} at 4096 program
  vmem a : f32[16,128]{1,0:T(8,128)}
  vmem b : f32[8,128]{1,0:T(8,128)}
  free a
  free b
  for i in 0..2 {
    vmem c : f32[8,128]{1,0:T(8,128)}
    free c
  }
  free kept
  grid i in 0..8 {
    window w = x block (8,128) at (i, 0) buffers 2
    w[:, :] = copy(w[:, :])
  }
}";

    #[test]
    fn what_a_kernel_holds_lies_behind_what_the_schedule_holds() {
        let offsets = placed(1 << 20, 1 << 20, TWO_KERNELS).unwrap();
        let expected = [4096, 8192, 16384, 8192, 0].map(Some);
        assert_eq!(offsets, expected);
    }

    #[test]
    fn a_kernel_that_holds_too_much_is_named() {
        // The first kernel holds 12 KiB at once.
        assert!(placed(20480, 12288, TWO_KERNELS).is_ok());
        let error = placed(1 << 20, 12287, TWO_KERNELS).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`a kernel` needs 12288 bytes of VMEM besides the arrays kept there, but only \
             12287 are reserved for it"
        );
        let error = placed(20479, 1 << 20, TWO_KERNELS).unwrap_err();
        assert!(error.to_string().contains("12287 are reserved"), "{error}");
    }

    #[test]
    fn a_place_that_another_buffer_has_is_not_given_away() {
        let text = "kernel k {
  vmem a : f32[16,128]{1,0:T(8,128)}
  vmem kept : f32[8,128]{1,0:T(8,128)} at 4096 program
}";
        assert!(placed(1 << 20, 1 << 20, text).is_err());
    }
}
