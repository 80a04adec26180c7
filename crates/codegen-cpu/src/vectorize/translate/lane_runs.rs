//! Arrays that lanes go through in a few runs of neighbours: the rows of a tile side by side, the pixels of
//! a depth-to-space.
//!
//! Where the place of a lane's element depends on the lane's number alone, but for what is the same for all
//! lanes, it is known when the kernel is compiled. If it goes up by one with each lane but for a few jumps,
//! each run is a load or a store under a mask. Both take less than a gather, which loads each element by
//! itself (8 ns for 16 lanes on a Zen 5, measured).

use super::{Reason, Translator};
use crate::simd::ir::{Condition, Type, V};
use smallvec::SmallVec;
use tegula_expr::{Term, Var};

/// The most runs: so many loads are made in each vector.
const MAX_RUNS: usize = 4;
/// Lanes of a run, on the average, that are worth a load of their own.
const MIN_RUN: i64 = 3;
/// The most lanes whose places are looked at.
const MAX_LANES: i64 = 4096;

/// Lanes that go through neighbours.
pub(super) struct LaneRun {
    /// Where the elements would be if all lanes were of this run.
    pub access: u32,
    /// The lanes.
    pub mask: V,
}

impl Translator<'_> {
    /// The runs of an array's elements; `None` if there are too many, or if the place of a lane's element
    /// is not known.
    pub(super) fn lane_runs(
        &mut self,
        param: usize,
        index: &[Term],
    ) -> Result<Option<SmallVec<[LaneRun; MAX_RUNS]>>, Reason> {
        let Some((lane, lanes)) = self.ranges.lanes else {
            return Ok(None);
        };
        let (linear, storage, scale) = self.linear(param, index);
        // AVX2 has no masks for what is narrower, and two words of one element lie apart.
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

/// A sum cut into what depends on the lane's number alone and what does not depend on it.
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

/// The first lane of each run of neighbours, and what its place is more than its number.
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
        // A run of each pixel is too short.
        let apart = i.floor_div(&c(2)).mul(&c(7)).add(&i.modulo(&c(2)));
        assert!(runs(&apart, lane, 6).is_none());
        // One run is no matter of lanes.
        assert!(runs(&i, lane, 12).is_none());
        let (of_lane, rest) = lane_part(&place.add(&Term::var(Var(0)).mul(&c(144))), lane).unwrap();
        assert_eq!(runs(&of_lane, lane, 12), runs(&place, lane, 12));
        assert_eq!(rest, Term::var(Var(0)).mul(&c(144)));
        let both = i.add(&Term::var(Var(0))).floor_div(&c(6));
        assert!(lane_part(&both, lane).is_none());
    }
}
