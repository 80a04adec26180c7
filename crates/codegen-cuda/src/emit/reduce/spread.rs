//! Chooses how the work of a reduction is spread over threads.

use super::super::lanes;
use crate::access::{self, LANES, accesses, sectors, set_digits, typical_values};
use crate::function::points;
use crate::reduction::{self, Reduction};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::Statement;

/// The number of threads of a block.
pub(super) const THREADS: i64 = 256;
/// With this many points, every lane of a large GPU has work without groups (an H100 has 132
/// multiprocessors with 2048 threads each; divided by eight).
const MANY_POINTS: i64 = 32768;
/// The number of blocks wanted: four for each multiprocessor of a large GPU. With at least half as
/// many, points are not split. A sum of 8192 x 8192 floats takes 91 us with this value on an H100,
/// and 96 us with two blocks per multiprocessor (27 November 2026).
const BLOCKS: i64 = 528;
/// The fewest accesses per thread for which a further block is worth a second launch.
const WORTH_A_BLOCK: i64 = 8;

/// How a kernel's work is spread over threads.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    /// The number of threads that split the loops of a point.
    pub group: i64,
    /// If `None`, the threads of a group are adjacent and take adjacent elements. Otherwise, they
    /// have the same position in each row of threads, and the threads of a row take adjacent
    /// points.
    pub columns: Option<Columns>,
    /// How the loops are split over several blocks, if they are.
    pub split: Option<Split>,
    pub reason: String,
}

/// Rows of threads whose adjacent threads have adjacent points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// The number of threads in a row.
    pub lanes: i64,
    /// The number of points of a thread.
    pub width: i64,
}

/// Several blocks share a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub blocks: i64,
    /// The size of a block's part, in elements, or in vectors if a thread reads several elements at
    /// once.
    pub chunk: i64,
}

/// How many adjacent elements a thread takes at once when adjacent threads take adjacent elements.
pub(super) fn width(reduction: &Reduction<'_>, kernel: &Kernel) -> i64 {
    let Some(&inner) = reduction.vars.last() else {
        return 1;
    };
    let mut statements = reduction.body.statements.iter();
    lanes::width(kernel, inner, &mut statements).map_or(1, |(width, _)| width)
}

/// How many adjacent points a thread takes.
fn points_of_thread(kernel: &Kernel) -> i64 {
    let Some(&inner) = kernel.domain.last() else {
        return 1;
    };
    let mut all = Vec::new();
    for statement in &kernel.body.statements {
        match reduction::of(kernel, statement) {
            Some(reduction) => all.extend(&reduction.body.statements),
            None => all.push(statement),
        }
    }
    lanes::width(kernel, inner, &mut all.into_iter()).map_or(1, |(width, _)| width)
}

/// Chooses whether groups suit the kernel, and how large they are.
pub(super) fn choose(kernel: &Kernel, apart: bool) -> Option<Spread> {
    // Otherwise, the threads of a group might read what one of them overwrites.
    if !apart {
        return None;
    }
    let mut longest: Option<(i64, Reduction<'_>)> = None;
    let mut reductions = 0;
    let values = typical_values(kernel);
    for statement in &kernel.body.statements {
        match reduction::of(kernel, statement) {
            Some(found) => {
                reductions += 1;
                let extent = access::value(&found.extent, &values)?;
                if longest.as_ref().is_none_or(|(known, _)| extent > *known) {
                    longest = Some((extent, found));
                }
            }
            None if is_plain(statement) => {}
            None => return None,
        }
    }
    let (extent, reduction) = longest?;
    let count = access::value(&points(kernel), &values)?;
    if extent < 2 || count < 1 {
        return None;
    }
    let lanes = (extent as u64).next_power_of_two().min(LANES as u64) as i64;
    let mut read = Vec::new();
    accesses(kernel, reduction.body, &mut read);
    // Compares a warp whose lanes are points with a warp whose lanes are elements.
    let by_point = sectors(kernel, &read, &|lane| {
        let mut values = values.clone();
        set_digits(kernel, &kernel.domain, lane as i64, &mut values)?;
        Some(values)
    });
    let by_element = sectors(kernel, &read, &|lane| {
        let (point, element) = (lane as i64 / lanes, lane as i64 % lanes);
        let mut values = values.clone();
        set_digits(kernel, &kernel.domain, point, &mut values)?;
        set_digits(kernel, &reduction.vars, element, &mut values)?;
        Some(values)
    });
    let few = count < MANY_POINTS && extent >= 32;
    // The costs are for equal numbers of elements: a warp may have fewer points than lanes.
    let [all_points, all_elements] = [count.min(LANES as i64) as u64, whole(count, extent, lanes)];
    let cost_by_point = by_point * all_elements;
    let cost_by_element = by_element * all_points;
    // The number of blocks is known only for static sizes, and only one loop can be split.
    let known = reduction.extent.as_constant().is_some() && points(kernel).as_constant().is_some();
    let may_split = reductions == 1 && known;
    if cost_by_element > cost_by_point && (few || count >= MANY_POINTS) {
        let width = points_of_thread(kernel);
        if !few && width == 1 {
            return None;
        }
        let threads = ((count / width) as u64).next_power_of_two() as i64;
        let lanes = if few {
            threads.clamp(8, LANES as i64)
        } else {
            THREADS
        };
        let group = THREADS / lanes;
        let reason = format!(
            "{group} threads per {width} points: a warp's reads touch {by_point} sectors \
             with neighbouring points, {by_element} with neighbouring elements"
        );
        let blocks = (count + lanes * width - 1) / (lanes * width);
        return Some(
            Spread {
                group,
                columns: Some(Columns { lanes, width }),
                split: split(may_split, blocks, extent, group, 1),
                reason,
            }
            .told(),
        );
    }
    if cost_by_element >= cost_by_point && !few {
        return None;
    }
    let width = width(&reduction, kernel);
    let vectors = (extent + width - 1) / width;
    let group = match vectors {
        THREADS.. => THREADS,
        _ => (vectors as u64).next_power_of_two().min(LANES as u64) as i64,
    };
    let who = match group {
        THREADS => "a block of 256 threads".to_owned(),
        32 => "a warp".to_owned(),
        1 => "a thread".to_owned(),
        group => format!("{group} lanes"),
    };
    let at_once = match width {
        1 => String::new(),
        width => format!(", {width} elements at once"),
    };
    let reason = format!(
        "{who} per point{at_once}: 32 elements of a point touch {by_element} sectors, \
         an element of 32 points {by_point}"
    );
    let may_split = may_split && group == THREADS;
    Some(
        Spread {
            group,
            columns: None,
            split: split(may_split, count, vectors, group, group),
            reason,
        }
        .told(),
    )
}

/// The number of elements of a warp in which `lanes` lanes share a point, one element each.
fn whole(count: i64, extent: i64, lanes: i64) -> u64 {
    let points = (LANES as i64 / lanes).min(count);
    (points * extent.min(lanes)) as u64
}

/// Splits each point over several blocks if there are few points and a thread would still have
/// enough to do. A block begins at a multiple of `multiple`.
fn split(may: bool, blocks: i64, steps: i64, group: i64, multiple: i64) -> Option<Split> {
    let wanted = (BLOCKS / blocks).min(steps / (group * WORTH_A_BLOCK));
    if !may || wanted < 2 {
        return None;
    }
    let chunk = ((steps + wanted - 1) / wanted + multiple - 1) / multiple * multiple;
    Some(Split {
        blocks: (steps + chunk - 1) / chunk,
        chunk,
    })
}

impl Spread {
    fn told(mut self) -> Self {
        if let Some(split) = self.split {
            self.reason += &format!("; {} blocks for each", split.blocks);
        }
        self
    }
}

/// Whether a statement may be run by every thread of a group, or is a store.
fn is_plain(statement: &Statement) -> bool {
    match statement {
        Statement::Compute { .. }
        | Statement::Load { .. }
        | Statement::Bind { .. }
        | Statement::Store { .. } => true,
        Statement::Loop { body, .. } => body.statements.iter().all(is_pure),
        Statement::If {
            then, otherwise, ..
        } => then
            .statements
            .iter()
            .chain(&otherwise.statements)
            .all(is_pure),
    }
}

fn is_pure(statement: &Statement) -> bool {
    is_plain(statement) && !matches!(statement, Statement::Store { .. })
}
