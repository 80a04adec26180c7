//! Questions about all tiles. The answer is a proof, a tile for which the statement is false, or
//! the condition on symbolic sizes that is missing.

use tegula_expr::{Interval, Term, Var};

use super::condition::Condition;
use super::prover::Prover;
use super::space::TilingSpace;
use super::tile::Tile;
use crate::uses::{Answer, Proof, is_multiple_of};

/// The answer to a question about all tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The statement holds for every tile and all sizes that the space allows.
    Proved(Box<Proof>),
    /// The statement is false for these values of the variables that its term mentions.
    Refuted(Vec<(Var, i64)>),
    /// The statement holds if this condition does.
    Missing(Condition),
}

impl Reply {
    /// Whether the statement is proved.
    pub fn is_proved(&self) -> bool {
        matches!(self, Self::Proved(_))
    }
}

impl TilingSpace {
    /// Whether tiles divide a dimension, so that none extends beyond its edge.
    ///
    /// ```
    /// use tegula_indexing::tiles::{Reply, TilingSpace};
    ///
    /// let space = TilingSpace::of_array(&[1000, 4096]);
    /// let Reply::Missing(condition) = space.divides(0) else { panic!("the size is open") };
    /// let names = |var| space.name(var);
    /// assert_eq!(condition.display(&names).to_string(), "1000 mod t0 = 0");
    /// let given = space.with_sizes(&[Some(8), Some(128)]);
    /// assert!(given.divides(0).is_proved() && given.divides(1).is_proved());
    /// ```
    pub fn divides(&self, dim: usize) -> Reply {
        let Some(own) = self.dims.get(dim) else {
            return Reply::Missing(Condition::never());
        };
        let extent = Term::constant(own.extent);
        self.ask(&extent, &self.size(dim), &[])
    }

    /// Whether a term over the space's variables is a multiple of `of` on every tile. `runtime` are
    /// the bounds of run-time variables.
    ///
    /// ```
    /// use tegula_indexing::tiles::{Reply, TilingSpace};
    ///
    /// // Offsets of tiles along 4096 lanes: multiples of 128 if the sizes are.
    /// let space = TilingSpace::of_array(&[4096]);
    /// let offset = space.index(0).mul(&space.size(0));
    /// let Reply::Missing(condition) = space.ask(&offset, &128.into(), &[]) else {
    ///     panic!("the size is open")
    /// };
    /// let names = |var| space.name(var);
    /// assert_eq!(condition.display(&names).to_string(), "t0 mod 128 = 0");
    /// assert!(space.with_multiple(0, 256).ask(&offset, &128.into(), &[]).is_proved());
    /// ```
    pub fn ask(&self, term: &Term, of: &Term, runtime: &[Interval]) -> Reply {
        let domain = self.domain(runtime);
        let rest = term.modulo(of);
        let answer = match of.as_constant() {
            Some(of) => is_multiple_of(&domain, term, of),
            None => crate::uses::is_zero(&domain, &rest),
        };
        match answer {
            Answer::Yes(proof) => return Reply::Proved(proof),
            Answer::No(point) if !self.is_open() => {
                let mut mentioned: Vec<(Var, i64)> = Vec::new();
                term.for_each_var(&mut |var| {
                    let value = point.get(var.0 as usize).copied();
                    if let Some(value) = value
                        && mentioned.iter().all(|(known, _)| *known != var)
                    {
                        mentioned.push((var, value));
                    }
                });
                return Reply::Refuted(mentioned);
            }
            Answer::No(_) | Answer::Unknown => {}
        }
        let Some(mut prover) = Prover::new(self, runtime) else {
            return Reply::Missing(Condition::always());
        };
        let missing = prover.multiple(term, of);
        Reply::Missing(prover.settle(&missing))
    }
}

impl Tile {
    /// Whether the tile's offset along a dimension is a multiple of a number on every tile, as
    /// needed for loads of whole registers.
    ///
    /// ```
    /// use tegula_indexing::tiles::{Tile, TilingSpace};
    /// use tegula_indexing::IndexingMap;
    ///
    /// let map: IndexingMap = "(d0) -> (d0 + 256), domain: d0 in [0, 1023]".parse()?;
    /// let space = TilingSpace::of_array(&[1024]).with_sizes(&[Some(128)]);
    /// assert!(Tile::of(&map, &space).offset_is_multiple(&space, 0, 128).is_proved());
    /// assert!(!Tile::of(&map, &space).offset_is_multiple(&space, 0, 512).is_proved());
    /// # Ok::<(), tegula_expr::ParseError>(())
    /// ```
    pub fn offset_is_multiple(&self, space: &TilingSpace, dim: usize, of: i64) -> Reply {
        let runtime: Vec<Interval> = self.runtime.iter().map(|r| r.variable.bounds).collect();
        match self.dims.get(dim) {
            Some(dim) if of > 0 => space.ask(&dim.offset, &of.into(), &runtime),
            _ => Reply::Missing(Condition::never()),
        }
    }
}
