//! The modified Bessel function of order 1, scaled by `exp(-|x|)`.
//!
//! Chebyshev series from S. L. Moshier, Cephes Mathematical Library, `i1.c`. The f32 series are the
//! last coefficients of the f64 ones.

#![allow(
    clippy::excessive_precision,
    reason = "coefficients stand as their authors give them"
)]

use super::{Formula, Value};
use crate::lower::Local;
use tegula_ir::{Direction, ElementType, Unary};

/// Coefficients in x/2 - 2, the highest order first, of the function divided by x, for |x| up to 8.
const UP_TO_8: [f64; 29] = [
    2.77791411276104639959e-18,
    -2.11142121435816608115e-17,
    1.55363195773620046921e-16,
    -1.10559694773538630805e-15,
    7.60068429473540693410e-15,
    -5.04218550472791168711e-14,
    3.22379336594557470981e-13,
    -1.98397439776494371520e-12,
    1.17361862988909016308e-11,
    -6.66348972350202774223e-11,
    3.62559028155211703701e-10,
    -1.88724975172282928790e-9,
    9.38153738649577178388e-9,
    -4.44505912879632808065e-8,
    2.00329475355213526229e-7,
    -8.56872026469545474066e-7,
    3.47025130813767847674e-6,
    -1.32731636560394358279e-5,
    4.78156510755005422638e-5,
    -1.61760815825896745588e-4,
    5.12285956168575772895e-4,
    -1.51357245063125314899e-3,
    4.15642294431288815669e-3,
    -1.05640848946261981558e-2,
    2.47264490306265168283e-2,
    -5.29459812080949914269e-2,
    1.02643658689847095384e-1,
    -1.76416518357834055153e-1,
    2.52587186443633654823e-1,
];

/// Coefficients in 32/x - 2 of the function times the square root of x, for |x| above 8.
const ABOVE_8: [f64; 25] = [
    7.51729631084210481353e-18,
    4.41434832307170791151e-18,
    -4.65030536848935832153e-17,
    -3.20952592199342395980e-17,
    2.96262899764595013876e-16,
    3.30820231092092828324e-16,
    -1.88035477551078244854e-15,
    -3.81440307243700780478e-15,
    1.04202769841288027642e-14,
    4.27244001671195135429e-14,
    -2.10154184277266431302e-14,
    -4.08355111109219731823e-13,
    -7.19855177624590851209e-13,
    2.03562854414708950722e-12,
    1.41258074366137813316e-11,
    3.25260358301548823856e-11,
    -1.89749581235054123450e-11,
    -5.58974346219658380687e-10,
    -3.83538038596423702205e-9,
    -2.63146884688951950684e-8,
    -2.51223623787020892529e-7,
    -3.88256480887769039346e-6,
    -1.10588938762623716291e-4,
    -9.76109749136146840777e-3,
    7.78576235018280120474e-1,
];

/// The numbers of coefficients that suffice for f32.
const TERMS_F32: [usize; 2] = [17, 7];

impl Formula<'_, '_, '_> {
    /// `exp(-|x|) I1(x)`.
    pub(super) fn bessel_i1e(&mut self, x: Local) -> Value {
        let (low, high) = match self.shape.element_type {
            ElementType::F64 => (&UP_TO_8[..], &ABOVE_8[..]),
            _ => (
                &UP_TO_8[UP_TO_8.len() - TERMS_F32[0]..],
                &ABOVE_8[ABOVE_8.len() - TERMS_F32[1]..],
            ),
        };
        let magnitude = self.unary(Unary::Abs, x)?;
        let half = self.number(x, 0.5)?;
        let argument = self.mul(magnitude, half)?;
        let argument = self.shifted(argument, 2.0)?;
        let near = self.chebyshev(argument, low)?;
        let near = self.mul(near, magnitude)?;
        let scale = self.number(x, 32.0)?;
        let argument = self.div(scale, magnitude)?;
        let argument = self.shifted(argument, 2.0)?;
        let far = self.chebyshev(argument, high)?;
        let root = self.unary(Unary::Sqrt, magnitude)?;
        let far = self.div(far, root)?;
        let bound = self.number(x, 8.0)?;
        let is_near = self.compare(Direction::Le, magnitude, bound)?;
        let value = self.select(is_near, near, far)?;
        let sign = self.unary(Unary::Sign, x)?;
        self.mul(sign, value)
    }

    /// Evaluates a Chebyshev series by Clenshaw's recurrence; the constant coefficient counts half.
    fn chebyshev(&mut self, x: Local, coefficients: &[f64]) -> Value {
        let zero = self.number(x, 0.0)?;
        let [mut newest, mut older, mut oldest] = [zero; 3];
        for coefficient in coefficients {
            oldest = older;
            older = newest;
            let product = self.mul(x, older)?;
            let difference = self.sub(product, oldest)?;
            let coefficient = self.number(x, *coefficient)?;
            newest = self.add(difference, coefficient)?;
        }
        let difference = self.sub(newest, oldest)?;
        let half = self.number(x, 0.5)?;
        self.mul(half, difference)
    }
}
