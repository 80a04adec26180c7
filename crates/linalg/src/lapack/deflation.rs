//! Deflation in divide and conquer: selects the columns of two decompositions that take part in
//! merging them. Eigenvalues and singular values share this scan over the poles.

/// The fate of a column, compared with the column that is kept before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is an eigenvector or singular vector of the whole matrix already.
    Out,
    /// The poles are nearly equal: a rotation of both columns has made the previous one a vector of
    /// the whole matrix.
    PreviousOut,
    /// The column takes part.
    Stays,
}

/// The columns, divided by their fate.
#[derive(Debug)]
pub(crate) struct Deflation<'a> {
    /// The columns that take part, in order.
    pub(crate) kept: &'a [usize],
    /// The columns that are vectors of the whole matrix already.
    pub(crate) out: &'a [usize],
}

impl<'a> Deflation<'a> {
    /// Asks for the fate of each column in `order`. `room` is memory for both lists; the first
    /// begins with `first` columns that are already there.
    #[inline(always)]
    pub(crate) fn new(
        order: &[usize],
        room: [&'a mut [usize]; 2],
        first: usize,
        mut fate: impl FnMut(Option<usize>, usize) -> Fate,
    ) -> Self {
        let [kept_at, out_at] = room;
        let (mut kept, mut out) = (first, 0);
        let mut previous: Option<usize> = None;
        for &next in order {
            match (fate(previous, next), previous) {
                (Fate::Out, _) => {
                    out_at[out] = next;
                    out += 1;
                    continue;
                }
                (Fate::PreviousOut, Some(last)) => {
                    out_at[out] = last;
                    out += 1;
                }
                (_, Some(last)) => {
                    kept_at[kept] = last;
                    kept += 1;
                }
                (_, None) => {}
            }
            previous = Some(next);
        }
        if let Some(last) = previous {
            kept_at[kept] = last;
            kept += 1;
        }
        Self {
            kept: &kept_at[..kept],
            out: &out_at[..out],
        }
    }
}
