//! The boundary between a program and its caller: the caller's arrays are logical, the program's
//! have dimension orders in memory.

use crate::{Arg, Error, ErrorKind, Signature, Tensor};
use std::borrow::Cow;
use tegula_fusion::array_leaves;
use tegula_ir::{
    ArrayShape, Literal, Module, RequiredValue, RunTimeSizes, Shape, Symbol, display_shape,
};
use tegula_layout::apply_layouts::{Orders, Permutation, in_order, is_row_major, row_major};
use tegula_plan::{Plan, ValueId};

/// The arrays among a program's parameters and results, with their dimension orders.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Boundary {
    parameters: Vec<(ArrayShape, Permutation)>,
    results: Vec<Permutation>,
    symbols: Vec<Symbol>,
    sizes: RunTimeSizes,
    required: Vec<RequiredValue>,
}

impl Boundary {
    /// The boundary with all arrays in row-major order.
    pub(crate) fn row_major(module: &Module) -> Self {
        let entry = module.entry_computation();
        let parameters = entry.parameters.iter();
        let parameters = parameters.flat_map(|&p| array_leaves(&module[p].shape));
        let results = array_leaves(&module[entry.root].shape);
        Self {
            parameters: parameters
                .map(|shape| (shape.clone(), row_major(shape.rank())))
                .collect(),
            results: results
                .iter()
                .map(|shape| row_major(shape.rank()))
                .collect(),
            symbols: module.symbols.clone(),
            sizes: module.sizes.clone(),
            required: module.required.clone(),
        }
    }

    /// The boundary with one more dimension in every array, the most major one.
    #[cfg(feature = "devices")]
    pub(crate) fn stacked(mut self, count: i64) -> Self {
        for (shape, order) in &mut self.parameters {
            shape.dims.insert(0, tegula_ir::Dim::Static(count));
            *order = row_major(shape.rank());
        }
        for order in &mut self.results {
            *order = row_major(order.len() + 1);
        }
        for source in &mut self.sizes.sources {
            source.dimension += 1;
        }
        self
    }

    /// The shapes of the parameters.
    pub(crate) fn parameter_shapes(&self) -> impl Iterator<Item = &ArrayShape> {
        self.parameters.iter().map(|(shape, _)| shape)
    }

    /// The boundary with the dimension orders that were chosen for a flattened program.
    pub(crate) fn of(module: &Module, program: &tegula_fusion::Program, orders: &Orders) -> Self {
        let mut boundary = Self::row_major(module);
        let parameters = boundary.parameters.iter_mut().zip(&program.parameters);
        for ((_, order), value) in parameters {
            if let Some(chosen) = orders.values.get(value) {
                order.clone_from(chosen);
            }
        }
        for (order, chosen) in boundary.results.iter_mut().zip(&orders.results) {
            order.clone_from(chosen);
        }
        boundary
    }

    /// The boundary of a compiled plan, whose parameters and results have these dimension orders.
    pub(crate) fn of_plan(plan: &Plan, orders: &[Vec<Vec<usize>>; 2]) -> Result<Self, Error> {
        let wrong = || {
            Error::new(
                ErrorKind::Input,
                "the number of dimension orders differs from that of the program's arrays",
            )
        };
        let [parameters, results] = orders.each_ref().map(|orders| {
            let orders = orders.iter();
            orders
                .map(|order| Permutation::from_slice(order))
                .collect::<Vec<_>>()
        });
        let fits = |order: &Permutation, rank: usize| {
            order.len() == rank && (0..rank).all(|dim| order.contains(&dim))
        };
        let shapes = |values: &[ValueId]| -> Vec<&ArrayShape> {
            values.iter().map(|&v| &plan.values[v].shape).collect()
        };
        let (given, gives) = (shapes(&plan.parameters), shapes(&plan.results));
        let all = given
            .iter()
            .zip(&parameters)
            .chain(gives.iter().zip(&results));
        let counts = given.len() == parameters.len() && gives.len() == results.len();
        if !counts
            || !all
                .into_iter()
                .all(|(shape, order)| fits(order, shape.rank()))
        {
            return Err(wrong());
        }
        let mut sizes = plan.sizes.clone();
        for source in &mut sizes.sources {
            let order = parameters.get(source.parameter).ok_or_else(wrong)?;
            source.dimension = *order.get(source.dimension).ok_or_else(wrong)?;
        }
        let logical = |(shape, order): (&ArrayShape, Permutation)| {
            (
                in_order(shape, &tegula_layout::apply_layouts::inverse(&order)),
                order,
            )
        };
        Ok(Self {
            parameters: given.into_iter().zip(parameters).map(logical).collect(),
            results,
            symbols: plan.symbols.clone(),
            sizes,
            // Programs with such values are never serialised.
            required: Vec::new(),
        })
    }

    /// The signatures of a plan's inputs and results. A plan has no names for them.
    pub(crate) fn signatures(&self, plan: &Plan) -> (Vec<Signature>, Vec<Signature>) {
        let inputs = self.parameters.iter().enumerate();
        let inputs = inputs.map(|(number, (shape, _))| {
            Signature::new(&format!("in{number}"), shape, &self.symbols)
        });
        let outputs = plan.results.iter().zip(&self.results).enumerate();
        let outputs = outputs.map(|(number, (&value, order))| {
            let stored = &plan.values[value].shape;
            let shape = in_order(stored, &tegula_layout::apply_layouts::inverse(order));
            Signature::new(&format!("out{number}"), &shape, &self.symbols)
        });
        (inputs.collect(), outputs.collect())
    }

    /// The dimension orders of parameters, then those of results.
    pub(crate) fn orders(&self) -> [Vec<Vec<usize>>; 2] {
        let parameters = self.parameters.iter().map(|(_, order)| order.to_vec());
        let results = self.results.iter().map(|order| order.to_vec());
        [parameters.collect(), results.collect()]
    }

    /// The number of parameters.
    pub(crate) fn parameters(&self) -> usize {
        self.parameters.len()
    }

    /// The dimension order of a parameter.
    pub(crate) fn parameter_order(&self, index: usize) -> Option<&[usize]> {
        self.parameters
            .get(index)
            .map(|(_, order)| order.as_slice())
    }

    /// The dimension order of a result.
    pub(crate) fn result_order(&self, index: usize) -> Option<&[usize]> {
        self.results.get(index).map(Permutation::as_slice)
    }

    /// The dimension order of a parameter; without such a parameter, the array's own order.
    pub(crate) fn order(&self, parameter: usize, array: &Tensor) -> Permutation {
        match self.parameters.get(parameter) {
            Some((_, order)) if order.len() == array.shape().rank() => order.clone(),
            _ => row_major(array.shape().rank()),
        }
    }

    /// Converts an argument to the form that the program takes.
    ///
    /// # Errors
    /// For parameters that are not row-major: an array of another type, rank or known size. It must
    /// be checked here, because later checks do not see the caller's dimensions. For an input that
    /// the program was specialised to: another value.
    pub(crate) fn take<'a>(&self, index: usize, arg: Arg<'a>) -> Result<Cow<'a, Literal>, Error> {
        let order = self.order(index, arg.buffer());
        self.check(index, arg.buffer().shape())?;
        self.check_value(index, arg.buffer())?;
        arg.in_order(&order)
    }

    /// Checks the value of an input that determines shapes.
    ///
    /// # Errors
    /// The value differs from the one that the program was specialised to.
    pub(crate) fn check_value(&self, index: usize, given: &Tensor) -> Result<(), Error> {
        let found = self.required.iter().find(|r| r.parameter == index);
        let Some(required) = found.filter(|r| r.value != *given.literal()) else {
            return Ok(());
        };
        let (name, value, given) = (
            &required.name,
            spell(&required.value),
            spell(given.literal()),
        );
        let message = format!(
            "input {index} (`{name}`) is {given}, but its value decides shapes and the program was \
             made for {value}: read the model again with this value"
        );
        Err(Error::new(ErrorKind::Input, message))
    }

    /// The values that inputs must have, because the program was specialised to them.
    pub(crate) fn required(&self) -> &[RequiredValue] {
        &self.required
    }

    fn check(&self, index: usize, given: &ArrayShape) -> Result<(), Error> {
        let Some((wanted, order)) = self.parameters.get(index) else {
            return Ok(());
        };
        let mut dims = wanted.dims.iter().zip(&given.dims);
        let fits = wanted.element_type == given.element_type
            && wanted.rank() == given.rank()
            && dims.all(|(w, g)| w.as_static().is_none() || w.as_static() == g.as_static());
        if is_row_major(order) || fits {
            return Ok(());
        }
        let wanted = display_shape(&Shape::Array(wanted.clone()), &self.symbols);
        let message = format!("input {index}: expected {wanted}, got {given}");
        Err(Error::new(ErrorKind::Input, message))
    }

    /// Checks open sizes in a run's arguments if any argument is not row-major, so that messages
    /// use the caller's dimensions.
    ///
    /// # Errors
    /// A size that is out of bounds or contradicts the other sizes.
    pub(crate) fn check_sizes(&self, inputs: &[Cow<'_, Literal>]) -> Result<(), Error> {
        if self.sizes.sources.is_empty() || self.parameters.iter().all(|(_, o)| is_row_major(o)) {
            return Ok(());
        }
        let logical = inputs
            .iter()
            .zip(&self.parameters)
            .map(|(literal, (_, order))| {
                in_order(
                    literal.shape(),
                    &tegula_layout::apply_layouts::inverse(order),
                )
            });
        let logical: Vec<ArrayShape> = logical.collect();
        let logical: Vec<&ArrayShape> = logical.iter().collect();
        let bound = self.sizes.bind(&self.symbols, &logical);
        bound
            .map(drop)
            .map_err(|message| Error::new(ErrorKind::Input, message))
    }

    /// Converts results to the form that the caller gets.
    pub(crate) fn give(&self, results: Vec<Literal>) -> Vec<Tensor> {
        let given = results.into_iter().enumerate().map(|(index, stored)| {
            let order = self
                .results
                .get(index)
                .filter(|o| o.len() == stored.shape().rank());
            match order {
                Some(order) => Tensor::stored_in(stored, order),
                None => Tensor::from(stored),
            }
        });
        given.collect()
    }
}

/// Displays an array in a message: its first elements.
fn spell(literal: &Literal) -> String {
    const SHOWN: usize = 8;
    let shown = literal
        .scalars()
        .take(SHOWN)
        .map(|scalar| scalar.to_string());
    let mut shown: Vec<String> = shown.collect();
    if literal.len() > SHOWN {
        shown.push("...".to_owned());
    }
    format!("{} [{}]", literal.shape(), shown.join(", "))
}
