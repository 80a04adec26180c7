//! Simulates a program on many chips of a TPU slice, to predict the time of a step.
//!
//! A program over sharded arrays is partitioned first; a program with collectives is taken as the
//! program of each device. No values are computed.

use crate::{Chip, Error, ErrorKind, Module};
use tegula_ir::Module as Program;
pub use tegula_sim_slice::{
    CollectiveKind, CollectiveTime, Event, Memory, Options, Overlap, Report, Row, Share, Slice,
};

/// Predicts the time of a program on a slice of these chips; `topology` is a text such as `16x16`.
///
/// # Errors
/// An invalid topology, or one that does not match the program; a chip whose links are not known;
/// shardings that do not fit.
///
/// # Examples
/// ```
/// use tegula::{Chip, Module, slice};
///
/// let module: Module = "
///     HloModule sum, num_partitions=16
///     add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
///     ENTRY e {
///       x = f32[1048576] parameter(0)
///       ROOT r = f32[1048576] all-reduce(x), to_apply=add, channel_id=1, use_global_device_ids=true,
///         replica_groups=[1,16]<=[16]
///     }"
/// .parse()?;
/// let report = slice::simulate(&module, &Chip::by_name("v5e")?, "4x4", &slice::Options::default())?;
/// assert_eq!(report.bound_by(), slice::Share::Links);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn simulate(
    module: &Module,
    chip: &Chip,
    topology: &str,
    options: &Options,
) -> Result<Report, Error> {
    simulate_program(module.program(), chip, topology, options)
}

/// As [`simulate`], for a verified program.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_program(
    program: &Program,
    chip: &Chip,
    topology: &str,
    options: &Options,
) -> Result<Report, Error> {
    let failed = |error: tegula_sim_slice::Error| {
        use tegula_sim_slice::Error as Slice;
        match error {
            Slice::Program(error) => error.into(),
            Slice::Groups { span, .. } => Error {
                span,
                ..Error::new(ErrorKind::Input, error.to_string())
            },
            error => Error::new(ErrorKind::Input, error.to_string()),
        }
    };
    let slice = Slice::new(chip, topology).map_err(failed)?;
    let run = |program: &Program| {
        tracing::info_span!("simulate")
            .in_scope(|| tegula_sim_slice::simulate(program, &slice, options))
            .map_err(failed)
    };
    if !tegula_partition::is_sharded(program) {
        return run(program);
    }
    let devices = slice.devices();
    if let Some(stated) = tegula_partition::stated_devices(program)
        && stated != devices
        && stated > 1
    {
        return Err(failed(tegula_sim_slice::Error::Devices {
            stated,
            topology: slice.links.torus.to_string(),
            devices,
        }));
    }
    let how = tegula_partition::Options {
        devices: Some(devices),
        ..tegula_partition::Options::default()
    };
    let partitioned = crate::backend::devices::partitioned(program, &how)?;
    run(&partitioned.module)
}
