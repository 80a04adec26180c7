//! Arrays that lanes access in a few contiguous runs, such as the rows of a tile that are beside
//! each other, or the pixels of a depth-to-space.
//!
//! If the offset of a lane's element depends only on the lane's number and uniform values, it is
//! known when the kernel is compiled. If it increases by one with each lane except for a few jumps,
//! each run is a load or a store under a mask. These take less time than a gather, which loads each
//! element separately (8 ns for 16 lanes on a Zen 5, measured).

use super::{Reason, Translator};
use crate::simd::ir::{Condition, Type, V};
use smallvec::SmallVec;
use tegula_expr::{Term, Var};

/// The maximum number of runs: each vector needs as many loads.
const MAX_RUNS: usize = 4;
/// The minimum average number of lanes of a run that is worth a load of its own.
const MIN_RUN: i64 = 3;
/// The maximum number of lanes whose offsets are examined.
const MAX_LANES: i64 = 4096;

/// A run of lanes whose elements are contiguous.
pub(super) struct LaneRun {
    /// The access that all lanes would make if they belonged to this run.
    pub access: u32,
    /// The lanes of the run.
    pub mask: V,
}

impl Translator<'_> {
    /// The runs of an array's elements; `None` if there are too many, or if a lane's offset is
    /// unknown.
    pub(super) fn lane_runs(
        &mut self,
        param: usize,
        index: &[Term],
    ) -> Result<Option<SmallVec<[LaneRun; MAX_RUNS]>>, Reason> {
        let Some((lane, lanes)) = self.ranges.lanes else {
            return Ok(None);
        };
        let (linear, storage, scale) = self.linear(param, index);
        // AVX2 has no masked accesses to narrower elements, and elements of two words are not
        // contiguous.
        if storage.bytes < 4 || scale != 1 {
            return Ok(None);
        }
        let Some((of_lane, rest)) = lane_part(&linear, lane) else {
            return Ok(None);
        };
        let Some(runs) = runs(&of_lane, lane, lanes) else {
            return Ok(None);
        };
        let Some(neighbours) = self.linear_place(&rest.add(&Term::var(lane))) else {
            return Ok(None);
        };
        let number = self.term(&Term::var(lane))?;
        let mut found = SmallVec::new();
        for (i, &(first, offset)) in runs.iter().enumerate() {
            let (rest, steps, _) = neighbours.clone();
            let rest = rest.add(&Term::constant(offset));
            let access = self.access((param, 0), (rest, steps), storage, &Term::constant(1), None);
            let b = &mut self.builder;
            let bound = b.integer(Type::I32, first);
            let from = (i > 0).then(|| b.compare(Condition::LessEqual, bound, number));
            let until = runs.get(i + 1).map(|&(end, _)| {
                let bound = b.integer(Type::I32, end);
                b.compare(Condition::Less, number, bound)
            });
            let masks = [from, until, self.mask].into_iter().flatten();
            let mask = masks.reduce(|a, c| b.and(a, c));
            found.extend(mask.map(|mask| LaneRun { access, mask }));
        }
        Ok((found.len() == runs.len()).then_some(found))
    }
}

/// Splits a sum into the part that depends only on the lane's number and the part that does not
/// depend on it.
fn lane_part(linear: &Term, lane: Var) -> Option<(Term, Term)> {
    let (terms, constant) = linear.as_linear()?;
    let (mut of_lane, mut rest) = (Term::constant(0), Term::constant(constant));
    for (atom, factor) in terms {
        let term = atom.mul(&Term::constant(factor));
        if !atom.mentions(lane) {
            rest = rest.add(&term);
            continue;
        }
        let mut alone = true;
        atom.for_each_var(&mut |var| alone &= var == lane);
        if !alone {
            return None;
        }
        of_lane = of_lane.add(&term);
    }
    Some((of_lane, rest))
}

/// The first lane of each contiguous run, and the difference between its offset and its number.
fn runs(place: &Term, lane: Var, lanes: i64) -> Option<SmallVec<[(i64, i64); MAX_RUNS]>> {
    if !(2 * MIN_RUN..=MAX_LANES).contains(&lanes) {
        return None;
    }
    let mut runs: SmallVec<[(i64, i64); MAX_RUNS]> = SmallVec::new();
    for number in 0..lanes {
        let place = place.eval(&|var| (var == lane).then_some(number)).ok()?;
        let offset = place.checked_sub(number)?;
        if runs.last().is_none_or(|&(_, last)| last != offset) {
            if runs.len() == MAX_RUNS {
                return None;
            }
            runs.push((number, offset));
        }
    }
    let long = lanes >= MIN_RUN * runs.len() as i64;
    (long && runs.len() > 1).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_side_by_side_are_two_runs() {
        let lane = Var(2);
        let i = Term::var(lane);
        let c = Term::constant;
        // i floordiv 6 * 72 + (i floordiv 3) mod 2 * 3 + i mod 3
        let place = (i.floor_div(&c(6)).mul(&c(72)))
            .add(&i.floor_div(&c(3)).modulo(&c(2)).mul(&c(3)))
            .add(&i.modulo(&c(3)));
        assert_eq!(runs(&place, lane, 12).unwrap()[..], [(0, 0), (6, 66)]);
        // A run for each pixel is too short.
        let apart = i.floor_div(&c(2)).mul(&c(7)).add(&i.modulo(&c(2)));
        assert!(runs(&apart, lane, 6).is_none());
        // A single run is an ordinary contiguous access.
        assert!(runs(&i, lane, 12).is_none());
        let (of_lane, rest) = lane_part(&place.add(&Term::var(Var(0)).mul(&c(144))), lane).unwrap();
        assert_eq!(runs(&of_lane, lane, 12), runs(&place, lane, 12));
        assert_eq!(rest, Term::var(Var(0)).mul(&c(144)));
        let both = i.add(&Term::var(Var(0))).floor_div(&c(6));
        assert!(lane_part(&both, lane).is_none());
    }
}
