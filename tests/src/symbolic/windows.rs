//! Slices, windows, convolutions and indexed operations on open sizes. Some are invalid at certain
//! sizes, for which all targets must return an error.

use super::{Generator, Known, Size};
use tegula_ir::ElementType;

/// A window along one dimension.
#[derive(Clone, Copy)]
struct Window {
    size: i64,
    stride: i64,
    low: i64,
    high: i64,
    base: i64,
    taps: i64,
}

impl Window {
    const TRIVIAL: Self = Self {
        size: 1,
        stride: 1,
        low: 0,
        high: 0,
        base: 1,
        taps: 1,
    };

    /// The number of its positions in a dimension of this size.
    fn positions(&self, size: i64) -> i64 {
        let dilated = if size == 0 {
            0
        } else {
            (size - 1) * self.base + 1
        };
        let padded = dilated + self.low + self.high;
        let extent = (self.size - 1) * self.taps + 1;
        match padded < extent {
            true => 0,
            false => (padded - extent) / self.stride + 1,
        }
    }

    fn of(&self, size: &Size) -> Size {
        match size {
            Size::Known(size) => Size::Known(self.positions(*size)),
            open => Size::Derived(format!(
                "window({}, {}, {}, {}, {}, {}, {})",
                open.formula(),
                self.size,
                self.stride,
                self.low,
                self.high,
                self.base,
                self.taps
            )),
        }
    }
}

/// The attribute `window={...}`.
fn attribute(windows: &[Window]) -> String {
    let list = |number: &dyn Fn(&Window) -> String| {
        let all: Vec<String> = windows.iter().map(number).collect();
        all.join("x")
    };
    format!(
        "window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={}}}",
        list(&|w| w.size.to_string()),
        list(&|w| w.stride.to_string()),
        list(&|w| format!("{}_{}", w.low, w.high)),
        list(&|w| w.base.to_string()),
        list(&|w| w.taps.to_string())
    )
}

impl Generator {
    /// A slice of each dimension from a start to the end, with a stride.
    pub(super) fn slice(&mut self, value: &Known) {
        let (mut dims, mut slices) = (Vec::new(), Vec::new());
        for dim in &value.dims {
            let stride = self.random.between(1, 3);
            let start = i64::from(self.random.once_in(4));
            dims.push(match dim {
                Size::Known(size) => {
                    let start = start.min(size - 1);
                    slices.push(format!("[{start}:{size}:{stride}]"));
                    Size::Known((size - start + stride - 1) / stride)
                }
                open => {
                    slices.push(format!("[{start}:?:{stride}]"));
                    match (start, stride) {
                        (0, 1) => open.clone(),
                        _ => Size::Derived(format!("slice({}, {start}, {stride})", open.formula())),
                    }
                }
            });
        }
        let operation = format!("slice({}), slice={{{}}}", value.name, slices.join(", "));
        if !dims.is_empty() {
            let result = self.emit(value.ty, &dims, &operation);
            self.values.push(result);
        }
    }

    fn window_for(&mut self, size: &Size) -> Window {
        let window = Window {
            size: self.random.between(1, 3),
            stride: self.random.between(1, 2),
            low: self.random.between(-1, 2),
            high: self.random.between(-1, 2),
            base: self.random.between(1, 2),
            taps: self.random.between(1, 2),
        };
        match size {
            // Only an open size may give a window without positions.
            Size::Known(size) if window.positions(*size) < 1 => Window::TRIVIAL,
            _ => window,
        }
    }

    /// Sums of windows with padding, strides and dilations along every dimension.
    pub(super) fn wide_window(&mut self, value: &Known) {
        if value.dims.is_empty() {
            return;
        }
        let windows: Vec<Window> = value.dims.iter().map(|d| self.window_for(d)).collect();
        let dims: Vec<Size> = windows
            .iter()
            .zip(&value.dims)
            .map(|(w, d)| w.of(d))
            .collect();
        let zero = self.constant(value.ty, 0);
        let operation = format!(
            "reduce-window({}, {zero}), {}, to_apply=add_{}",
            value.name,
            attribute(&windows),
            value.ty
        );
        let result = self.emit(value.ty, &dims, &operation);
        self.keep(&result);
    }

    /// A convolution of batch, spatial and feature dimensions with a kernel of ones.
    pub(super) fn convolution(&mut self, value: &Known) {
        let [batch, space, features] = value.dims.as_slice() else {
            return;
        };
        let window = self.window_for(space);
        let one = self.constant(value.ty, 1);
        let kernel = [Size::Known(window.size), features.clone(), Size::Known(2)];
        let kernel = self.emit(
            value.ty,
            &kernel,
            &format!("broadcast({one}), dimensions={{}}"),
        );
        let dims = [batch.clone(), window.of(space), Size::Known(2)];
        let operation = format!(
            "convolution({}, {}), {}, dim_labels=b0f_0io->b0f",
            value.name,
            kernel.name,
            attribute(&[window])
        );
        let result = self.emit(value.ty, &dims, &operation);
        self.keep_product(&result);
    }

    /// A `select-and-scatter` of the maxima of windows to their positions.
    pub(super) fn select_and_scatter(&mut self, value: &Known) {
        if value.dims.is_empty() {
            return;
        }
        let window = Window {
            size: 2,
            stride: 2,
            ..Window::TRIVIAL
        };
        let windows: Vec<Window> = (value.dims.iter())
            .map(|dim| match dim {
                Size::Known(1) => Window::TRIVIAL,
                _ => window,
            })
            .collect();
        let dims: Vec<Size> = windows
            .iter()
            .zip(&value.dims)
            .map(|(w, d)| w.of(d))
            .collect();
        let attribute = attribute(&windows);
        let least = self.constant(value.ty, -9);
        let name = &value.name;
        let operation = format!(
            "reduce-window({name}, {least}), {attribute}, to_apply=maximum_{}",
            value.ty
        );
        let source = self.emit(value.ty, &dims, &operation);
        let zero = self.constant(value.ty, 0);
        let operation = format!(
            "select-and-scatter({name}, {}, {zero}), {attribute}, select=most_{ty}, scatter=add_{ty}",
            source.name,
            ty = value.ty
        );
        let result = self.emit(value.ty, &value.dims, &operation);
        self.keep(&result);
    }

    /// A gather of windows: two adjacent elements along one known dimension, single elements of
    /// open dimensions, and all of the other dimensions.
    pub(super) fn take_windows(&mut self, value: &Known) {
        let Some(indices) = self.indices() else {
            return;
        };
        if value.dims.is_empty() || value.dims.len() > 3 {
            return;
        }
        let along = self.random.below(value.dims.len());
        let (mut sizes, mut collapsed, mut dims) = (Vec::new(), Vec::new(), Vec::new());
        dims.push(indices.dims[0].clone());
        for (dim, size) in value.dims.iter().enumerate() {
            match size {
                Size::Known(size) => {
                    let taken = if dim == along { 2.min(*size) } else { *size };
                    sizes.push(taken.to_string());
                    dims.push(Size::Known(taken));
                }
                _ => {
                    sizes.push("1".to_owned());
                    collapsed.push(dim.to_string());
                }
            }
        }
        let offsets: Vec<String> = (1..dims.len()).map(|dim| dim.to_string()).collect();
        let operation = format!(
            "gather({}, {}), offset_dims={{{}}}, collapsed_slice_dims={{{}}}, start_index_map={{{along}}}, index_vector_dim=1, slice_sizes={{{}}}",
            value.name,
            indices.name,
            offsets.join(","),
            collapsed.join(","),
            sizes.join(",")
        );
        let result = self.emit(value.ty, &dims, &operation);
        self.values.push(result);
    }

    /// A dynamic slice: a part of each known dimension and all of each open one, at a computed
    /// start.
    pub(super) fn dynamic_slice(&mut self, value: &Known) {
        let Some(indices) = self.indices() else {
            return;
        };
        if value.dims.is_empty() {
            return;
        }
        let start = self.reduced(&indices, &[0], "maximum");
        let (mut sizes, mut dims) = (Vec::new(), Vec::new());
        for dim in &value.dims {
            match dim {
                Size::Known(size) => {
                    let taken = self.random.between(1, (*size).max(1));
                    sizes.push(taken.to_string());
                    dims.push(Size::Known(taken));
                }
                open => {
                    sizes.push("?".to_owned());
                    dims.push(open.clone());
                }
            }
        }
        let starts = vec![start.name; dims.len()];
        let operation = format!(
            "dynamic-slice({}, {}), dynamic_slice_sizes={{{}}}",
            value.name,
            starts.join(", "),
            sizes.join(",")
        );
        let result = self.emit(value.ty, &dims, &operation);
        self.values.push(result);
    }

    /// The index of the largest element along a dimension (arg-max).
    pub(super) fn place_of_largest(&mut self, value: &Known) {
        if value.dims.is_empty() {
            return;
        }
        self.names += 1;
        let (number, ty) = (self.names, value.ty);
        let along = self.random.below(value.dims.len());
        self.called.push_str(&format!(
            "larger{number} {{\n  a = {ty}[] parameter(0)\n  i = s32[] parameter(1)\n  b = {ty}[] parameter(2)\n  j = s32[] parameter(3)\n  p = pred[] compare(a, b), direction=GE\n  x = {ty}[] select(p, a, b)\n  y = s32[] select(p, i, j)\n  ROOT t = ({ty}[], s32[]) tuple(x, y)\n}}\n\n"
        ));
        let places = format!("iota(), iota_dimension={along}");
        let places = self.emit(ElementType::S32, &value.dims, &places);
        let (least, none) = (self.constant(ty, -9), self.constant(ElementType::S32, -1));
        let mut dims = value.dims.clone();
        dims.remove(along);
        let shape = super::shape(ty, &dims);
        let places_shape = super::shape(ElementType::S32, &dims);
        let pair = format!("r{number}");
        self.body.push_str(&format!(
            "  {pair} = ({shape}, {places_shape}) reduce({}, {}, {least}, {none}), dimensions={{{along}}}, to_apply=larger{number}\n",
            value.name, places.name
        ));
        let place = self.emit(
            ElementType::S32,
            &dims,
            &format!("get-tuple-element({pair}), index=1"),
        );
        self.keep(&place);
    }
}
