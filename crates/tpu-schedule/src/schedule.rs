//! Schedules a program with layouts: first the steps in order, then a memory space for each buffer,
//! then the copies that fetch inputs.

use super::Schedule;
use super::builder::{Builder, Scope};
use super::options::Options;
use super::space_assignment::Placer;
use super::time::Speeds;
use tegula_ir::Module;
use tegula_layout::assign::{Assignment, Region};
use tegula_target::{Chip, Param, TileRule};

/// Schedules a program, including its loops and branches.
pub fn schedule(
    module: &Module,
    assignment: &Assignment,
    chip: &Chip,
    options: &Options,
) -> Schedule {
    let vmem = chip.value(Param::VmemBytes).unwrap_or(0.0) as i64;
    let is_entry = |region: &Region| region.of.is_none();
    let Some(entry) = assignment.regions.iter().position(is_entry) else {
        return Schedule::default();
    };
    let mut builder = Builder {
        module,
        assignment,
        options,
        speeds: Speeds::new(chip),
        keeps_arrays: chip.tile_rule != Some(TileRule::TwoRows),
        schedule: Schedule {
            vmem_bytes: options.vmem_bytes.unwrap_or(vmem),
            ..Schedule::default()
        },
        scope: Scope::default(),
    };
    for &parameter in &assignment.program.parameters {
        builder.home(parameter);
    }
    builder.kernels(entry);
    builder.results(entry);
    let mut placer = Placer::new(&builder, false);
    placer.place_all();
    if placer.is_short {
        let mut other = Placer::new(&builder, true);
        other.place_all();
        if other.saved > placer.saved {
            placer = other;
        }
    }
    let fetches = std::mem::take(&mut placer.fetches);
    let peak = placer.heap.peak();
    let decided = std::mem::take(&mut placer.decided);
    builder.apply(decided);
    builder.insert_copies(fetches);
    builder.schedule.vmem_peak = peak;
    builder.schedule
}
