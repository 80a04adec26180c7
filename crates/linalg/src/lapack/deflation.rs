//! Deflation in divide and conquer: selects the columns of two decompositions that take part in
//! merging them. Eigenvalues and singular values share this scan over the poles.

/// What becomes of a column, beside the one before it that takes part so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is a vector of the whole already.
    Out,
    /// The poles are nearly equal, and a rotation of both columns has made a vector of the previous
    /// one.
    PreviousOut,
    /// Both take part.
    Stays,
}

/// The columns by what becomes of them.
#[derive(Debug)]
pub(crate) struct Deflation<'a> {
    /// Those that take part, in order.
    pub(crate) kept: &'a [usize],
    /// Those that are vectors already.
    pub(crate) out: &'a [usize],
}

impl<'a> Deflation<'a> {
    /// Asks what becomes of each column in `order`. `room` is for both lists, of which the first
    /// begins with `first` columns that are there.
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
