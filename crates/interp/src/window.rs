//! Sliding windows: `reduce-window` and `select-and-scatter`.
//!
//! The window at result position `o` covers, along each dimension, the positions `o * stride -
//! padding_low + w * window_dilation` of the dilated base, in which element `i` is at `i *
//! base_dilation`. Positions in the padding and between elements hold no element and are skipped.

use crate::callee::Callee;
use crate::error::{OpError, invalid};
use crate::numbers::to_f64s;
use crate::reduce::{Fold, Reduced, fold_kernel, with_fold};
use crate::strided::{Sizes, Strides, product, row_major, sizes};
use smallvec::{SmallVec, smallvec};
use tegula_ir::{ArrayShape, Binary, ElementType, Literal, WindowDim};
use tegula_scalar::{Bits, BitsMut};

/// A window over a base array.
pub(crate) struct Windows<'a> {
    window: &'a [WindowDim],
    base: Sizes,
    strides: Strides,
    /// The number of the window's positions, by dimension.
    pub(crate) positions: Sizes,
}

impl<'a> Windows<'a> {
    pub(crate) fn new(window: &'a [WindowDim], base: &[usize]) -> Result<Self, OpError> {
        if window.len() != base.len() {
            return Err(invalid("expected one window dimension for each dimension"));
        }
        let positions = window.iter().zip(base).map(|(w, &size)| count(w, size));
        Ok(Self {
            window,
            base: base.into(),
            strides: row_major(base),
            positions: positions.collect::<Option<_>>().ok_or_else(|| {
                invalid("expected window sizes, strides and dilations that are positive and do not overflow")
            })?,
        })
    }

    /// The number of elements of the window.
    fn size(&self) -> usize {
        self.window.iter().map(|w| w.size as usize).product()
    }

    /// Calls `visit` with each element of the window at a position, in order.
    fn visit(&self, position: &[usize], visit: &mut impl FnMut(usize)) {
        self.visit_from(0, 0, position, visit);
    }

    fn visit_from(&self, d: usize, offset: isize, at: &[usize], visit: &mut impl FnMut(usize)) {
        let Some(w) = self.window.get(d) else {
            visit(offset as usize);
            return;
        };
        let start = at[d] as i64 * w.stride - w.padding_low;
        for i in 0..w.size {
            let i = if w.reversal { w.size - 1 - i } else { i };
            let place = start + i * w.window_dilation;
            if place >= 0 && place % w.base_dilation == 0 {
                let element = place / w.base_dilation;
                if element < self.base[d] as i64 {
                    let offset = offset + element as isize * self.strides[d];
                    self.visit_from(d + 1, offset, at, visit);
                }
            }
        }
    }

    fn fold<T: Copy>(&self, x: &[T], init: T, f: impl Fn(T, T) -> T) -> Vec<T> {
        let mut results = Vec::with_capacity(product(&self.positions));
        self.for_each_position(|position| {
            let mut sum = init;
            self.visit(position, &mut |place| sum = f(sum, x[place]));
            results.push(sum);
        });
        results
    }

    fn for_each_position(&self, mut visit: impl FnMut(&[usize])) {
        let mut position: Sizes = smallvec![0; self.positions.len()];
        for _ in 0..product(&self.positions) {
            if tegula_limits::is_stopped() {
                return;
            }
            visit(&position);
            for (p, &size) in position.iter_mut().zip(&self.positions).rev() {
                *p += 1;
                if *p < size {
                    break;
                }
                *p = 0;
            }
        }
    }
}

fold_kernel!(Windows<'_>);

/// The number of a window's positions along a dimension of `size` elements.
fn count(w: &WindowDim, size: usize) -> Option<usize> {
    if w.size < 1 || w.stride < 1 || w.base_dilation < 1 || w.window_dilation < 1 {
        return None;
    }
    let dilated = |size: i64, dilation: i64| match size {
        0 => Some(0),
        _ => (size - 1).checked_mul(dilation)?.checked_add(1),
    };
    let base = dilated(i64::try_from(size).ok()?, w.base_dilation)?
        .checked_add(w.padding_low)?
        .checked_add(w.padding_high)?;
    let window = dilated(w.size, w.window_dilation)?;
    if base < window {
        return Some(0);
    }
    usize::try_from((base - window) / w.stride + 1).ok()
}

/// Evaluates `reduce-window(inputs..., inits...)`; `magnitudes` is as for a reduce.
pub(crate) fn reduce_window(
    inputs: &[&Literal],
    inits: &[&Literal],
    window: &[WindowDim],
    callee: &mut Callee<'_, '_>,
    magnitudes: bool,
) -> Result<Reduced, OpError> {
    let Some(&x) = inputs.first() else {
        return Err(invalid("expected at least one operand"));
    };
    let dims = sizes(x);
    let windows = Windows::new(window, &dims)?;
    let agrees = inputs.len() == inits.len()
        && inputs.iter().all(|input| sizes(input) == dims)
        && inits.iter().all(|init| init.len() == 1)
        && inputs
            .iter()
            .zip(inits)
            .all(|(x, i)| x.element_type() == i.element_type());
    if !agrees {
        return Err(invalid(
            "expected inputs of equal shapes, each with a scalar initial value of its type",
        ));
    }
    let positions = crate::strided::to_i64s(&windows.positions);
    let terms = windows.size();
    if let (&[init], Some(op)) = (inits, callee.as_binary())
        && let Some(fold) = Fold::new(op, x.element_type())
    {
        let shape = ArrayShape::new(x.element_type(), &positions);
        let result = with_fold(&fold, x, init, &shape, &windows)?;
        let magnitudes = (magnitudes && matches!(fold, Fold::Sum)).then(|| {
            let init = to_f64s(init).first().map_or(0.0, |x| x.abs());
            windows.fold(&to_f64s(x), init, |sum, x| sum + x.abs())
        });
        return Ok(Reduced {
            results: vec![result],
            magnitudes,
            terms,
        });
    }
    Ok(Reduced {
        results: general(inputs, inits, &windows, &positions, callee)?,
        magnitudes: None,
        terms,
    })
}

fn general(
    inputs: &[&Literal],
    inits: &[&Literal],
    windows: &Windows<'_>,
    positions: &[i64],
    callee: &mut Callee<'_, '_>,
) -> Result<Vec<Literal>, OpError> {
    let bits: Vec<Bits<'_>> = inputs.iter().map(|input| Bits::of(input)).collect();
    let init: SmallVec<[u128; 2]> = inits.iter().map(|init| Bits::of(init).get(0)).collect();
    let mut results = Vec::with_capacity(inputs.len());
    for input in inputs {
        results.push(Literal::zeros(&ArrayShape::new(
            input.element_type(),
            positions,
        ))?);
    }
    let mut outs: Vec<BitsMut<'_>> = results.iter_mut().map(BitsMut::of).collect();
    let mut error = None;
    let mut done = 0;
    windows.for_each_position(|position| {
        let mut sums = init.clone();
        windows.visit(position, &mut |place| {
            if error.is_some() {
                return;
            }
            let new = bits.iter().map(|bits| bits.get(place));
            let arguments: SmallVec<[u128; 4]> = sums.iter().copied().chain(new).collect();
            match callee.call(&arguments) {
                Ok(next) if next.len() == init.len() => sums = next,
                Ok(_) => {
                    error = Some(invalid(
                        "the number of results of the called computation is not that of the operands",
                    ));
                }
                Err(failed) => error = Some(failed),
            }
        });
        for (out, &sum) in outs.iter_mut().zip(&sums) {
            out.set(done, sum);
        }
        done += 1;
    });
    error.map_or(Ok(results), Err)
}

/// How a select-and-scatter chooses between two elements: a function of the values for the usual
/// comparisons, else a call.
pub(crate) trait Prefer {
    /// Whether the chosen element is kept, given a candidate.
    fn keeps(&mut self, chosen: u128, candidate: u128) -> Result<bool, OpError>;
}

impl Prefer for Callee<'_, '_> {
    fn keeps(&mut self, chosen: u128, candidate: u128) -> Result<bool, OpError> {
        self.test(&[chosen, candidate])
    }
}

/// The position in the operand that a select-and-scatter chooses for each window position; `None`
/// where the window has no element.
pub(crate) fn select_places(
    operand: &Literal,
    window: &[WindowDim],
    select: &mut dyn Prefer,
) -> Result<(Sizes, Vec<Option<usize>>), OpError> {
    let windows = Windows::new(window, &sizes(operand))?;
    let bits = Bits::of(operand);
    let mut places = Vec::with_capacity(product(&windows.positions));
    let mut error = None;
    windows.for_each_position(|position| {
        let mut chosen: Option<(usize, u128)> = None;
        windows.visit(position, &mut |place| {
            let candidate = bits.get(place);
            let keeps = match chosen {
                Some((_, value)) if error.is_none() => select.keeps(value, candidate),
                Some(_) => Ok(true),
                None => Ok(false),
            };
            match keeps {
                Ok(true) => {}
                Ok(false) => chosen = Some((place, candidate)),
                Err(failed) => error = Some(failed),
            }
        });
        places.push(chosen.map(|(place, _)| place));
    });
    error.map_or(Ok((windows.positions, places)), Err)
}

/// Combines each source element into the result at its chosen position, in order.
///
/// A sum of floats is accumulated in `f64` and rounded once, as in a reduce.
pub(crate) fn scatter_places(
    operand: &Literal,
    source: &Literal,
    init: &Literal,
    (positions, places): &(Sizes, Vec<Option<usize>>),
    scatter: &mut Callee<'_, '_>,
) -> Result<Literal, OpError> {
    let ty: ElementType = source.element_type();
    if sizes(source) != *positions || init.len() != 1 || init.element_type() != ty {
        return Err(invalid(
            "expected one source element for each window position, and a scalar initial value of its type",
        ));
    }
    let shape = operand.shape().with_element_type(ty);
    let pairs = places.iter().enumerate();
    if ty.is_float() && scatter.as_binary() == Some(Binary::Add) {
        let mut sums = vec![to_f64s(init).first().copied().unwrap_or(0.0); operand.len()];
        let values = to_f64s(source);
        for (i, place) in pairs {
            if let Some(place) = place {
                sums[*place] += values[i];
            }
        }
        return crate::numbers::from_f64s(&shape, &sums);
    }
    let mut result = crate::movement::filled(&shape, init)?;
    let values = Bits::of(source);
    let mut out = BitsMut::of(&mut result);
    for (i, place) in pairs {
        if let Some(place) = *place {
            let combined = scatter.call_one(&[out.get(place), values.get(i)])?;
            out.set(place, combined);
        }
    }
    Ok(result)
}
