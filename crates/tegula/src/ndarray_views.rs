//! Conversions between tensors and arrays of the crate `ndarray`.

use crate::{Element, Error, Tensor};
use ndarray::{ArrayBase, ArrayViewD, Data, Dimension, IxDyn};

impl Tensor {
    /// A view of the elements, if they are of this type. It copies nothing, except that an array
    /// that is not row-major is converted at the first call.
    ///
    /// ```
    /// use tegula::Tensor;
    ///
    /// let tensor = Tensor::from_ndarray(&ndarray::array![[1.0_f32, 2.0], [3.0, 4.0]].t())?;
    /// let view = tensor.view::<f32>().expect("its type");
    /// assert_eq!(view, ndarray::array![[1.0, 3.0], [2.0, 4.0]].into_dyn());
    /// assert!(tensor.view::<f64>().is_none());
    /// # Ok::<(), tegula::Error>(())
    /// ```
    pub fn view<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        let dims = self.dims();
        let sizes = dims.iter().map(|&size| usize::try_from(size).ok());
        let sizes: Option<Vec<usize>> = sizes.collect();
        ArrayViewD::from_shape(IxDyn(&sizes?), self.as_slice::<T>()?).ok()
    }

    /// A tensor with the elements of an array, which may have any strides.
    ///
    /// # Errors
    /// The array does not fit in memory.
    pub fn from_ndarray<T: Element, D: Dimension>(
        array: &ArrayBase<impl Data<Elem = T>, D>,
    ) -> Result<Self, Error> {
        let dims: Vec<i64> = array.shape().iter().map(|&size| size as i64).collect();
        match array.as_slice() {
            Some(elements) => Self::from_slice(&dims, elements),
            None => Self::from_slice(&dims, &array.iter().copied().collect::<Vec<T>>()),
        }
    }
}
