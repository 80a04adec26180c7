//! Decodes an ONNX file to messages that borrow from its bytes.
//!
//! The decoder is hand-written: the format has a dozen messages, the build needs no `protoc`, and
//! generated code would copy every tensor. Fields that do not affect execution (documentation,
//! metadata) and fields of later versions are skipped.

mod wire;

use crate::Error;
pub(crate) use wire::{Field, Fields};

/// The maximum nesting of subgraphs.
const MAX_NESTING: u32 = 32;

/// A model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model<'a> {
    pub(crate) opsets: Vec<(&'a str, i64)>,
    pub(crate) graph: Graph<'a>,
    pub(crate) functions: Vec<Function<'a>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Graph<'a> {
    pub(crate) name: &'a str,
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) initializers: Vec<Tensor<'a>>,
    pub(crate) sparse: Vec<Sparse<'a>>,
    pub(crate) inputs: Vec<ValueInfo<'a>>,
    pub(crate) outputs: Vec<ValueInfo<'a>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) overload: &'a str,
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) defaults: Vec<Attribute<'a>>,
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) opsets: Vec<(&'a str, i64)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Node<'a> {
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) op: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) overload: &'a str,
    pub(crate) attributes: Vec<Attribute<'a>>,
}

impl Node<'_> {
    /// The same node with the name of a standard operator.
    pub(crate) fn as_standard(&self, op: &'static str) -> Self {
        Self {
            op,
            domain: "",
            ..self.clone()
        }
    }
}

/// An attribute. Its type says which field holds the value; without a type, it is the one that is
/// not empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: &'a str,
    pub(crate) reference: &'a str,
    pub(crate) float: Option<f32>,
    pub(crate) int: Option<i64>,
    pub(crate) string: Option<&'a [u8]>,
    pub(crate) tensor: Option<Tensor<'a>>,
    pub(crate) sparse: Option<Sparse<'a>>,
    pub(crate) graph: Option<Graph<'a>>,
    pub(crate) floats: Vec<f32>,
    pub(crate) ints: Vec<i64>,
    pub(crate) strings: Vec<&'a [u8]>,
    pub(crate) ty: Option<Type<'a>>,
}

/// A tensor whose elements are still in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tensor<'a> {
    pub(crate) name: &'a str,
    pub(crate) dims: Vec<i64>,
    pub(crate) data_type: i64,
    pub(crate) raw: Option<&'a [u8]>,
    pub(crate) floats: Vec<f32>,
    pub(crate) ints: Vec<i64>,
    pub(crate) doubles: Vec<f64>,
    pub(crate) strings: usize,
    pub(crate) external: Vec<(&'a str, &'a str)>,
}

/// A sparse tensor: values and their indices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sparse<'a> {
    pub(crate) values: Tensor<'a>,
    pub(crate) indices: Tensor<'a>,
    pub(crate) dims: Vec<i64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ValueInfo<'a> {
    pub(crate) name: &'a str,
    pub(crate) ty: Option<Type<'a>>,
}

/// The type of a value.
#[derive(Clone, Debug)]
pub(crate) enum Type<'a> {
    Tensor {
        element: i64,
        /// `None` if not even the number of dimensions is known.
        dims: Option<Vec<Size<'a>>>,
    },
    Sequence,
    Optional,
    Other,
}

/// The size of a dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size<'a> {
    Known(i64),
    Named(&'a str),
    Unknown,
}

/// Whether the bytes look like an ONNX model: they consist of whole fields, one of which is a
/// graph.
pub(crate) fn looks_like_model(bytes: &[u8]) -> bool {
    let mut has_graph = false;
    let whole = Fields::new(bytes).all(|field| match field {
        Ok((7, Field::Bytes(_))) => {
            has_graph = true;
            true
        }
        Ok((1..=64, _)) => true,
        _ => false,
    });
    whole && has_graph
}

/// Decodes a model.
///
/// # Errors
/// Bytes that are not in the wire format, and subgraphs nested too deeply.
pub(crate) fn model(bytes: &[u8]) -> Result<Model<'_>, Error> {
    let mut model = Model::default();
    for field in Fields::new(bytes) {
        match field? {
            (7, field) => model.graph = graph(field.bytes()?, 0)?,
            (8, field) => model.opsets.push(opset(field.bytes()?)?),
            (25, field) => model.functions.push(function(field.bytes()?)?),
            _ => {}
        }
    }
    Ok(model)
}

fn opset(bytes: &[u8]) -> Result<(&str, i64), Error> {
    let (mut domain, mut version) = ("", 1);
    for field in Fields::new(bytes) {
        match field? {
            (1, field) => domain = field.text()?,
            (2, field) => version = field.integer()?,
            _ => {}
        }
    }
    Ok((domain, version))
}

fn graph(bytes: &[u8], nesting: u32) -> Result<Graph<'_>, Error> {
    if nesting > MAX_NESTING {
        return Err(Error::input(format!(
            "graphs are nested more than {MAX_NESTING} deep"
        )));
    }
    let mut graph = Graph::default();
    for field in Fields::new(bytes) {
        match field? {
            (1, field) => graph.nodes.push(node(field.bytes()?, nesting)?),
            (2, field) => graph.name = field.text()?,
            (5, field) => graph.initializers.push(tensor(field.bytes()?)?),
            (11, field) => graph.inputs.push(value_info(field.bytes()?)?),
            (12, field) => graph.outputs.push(value_info(field.bytes()?)?),
            (15, field) => graph.sparse.push(sparse(field.bytes()?)?),
            _ => {}
        }
    }
    Ok(graph)
}

fn function(bytes: &[u8]) -> Result<Function<'_>, Error> {
    let mut function = Function::default();
    for field in Fields::new(bytes) {
        match field? {
            (1, field) => function.name = field.text()?,
            (4, field) => function.inputs.push(field.text()?),
            (5, field) => function.outputs.push(field.text()?),
            (7, field) => function.nodes.push(node(field.bytes()?, 0)?),
            (9, field) => function.opsets.push(opset(field.bytes()?)?),
            (10, field) => function.domain = field.text()?,
            (11, field) => function.defaults.push(attribute(field.bytes()?, 0)?),
            (13, field) => function.overload = field.text()?,
            _ => {}
        }
    }
    Ok(function)
}

fn node(bytes: &[u8], nesting: u32) -> Result<Node<'_>, Error> {
    let mut node = Node::default();
    for field in Fields::new(bytes) {
        match field? {
            (1, field) => node.inputs.push(field.text()?),
            (2, field) => node.outputs.push(field.text()?),
            (3, field) => node.name = field.text()?,
            (4, field) => node.op = field.text()?,
            (5, field) => node.attributes.push(attribute(field.bytes()?, nesting)?),
            (7, field) => node.domain = field.text()?,
            (8, field) => node.overload = field.text()?,
            _ => {}
        }
    }
    Ok(node)
}

fn attribute(bytes: &[u8], nesting: u32) -> Result<Attribute<'_>, Error> {
    let mut attribute = Attribute::default();
    for field in Fields::new(bytes) {
        match field? {
            (1, field) => attribute.name = field.text()?,
            (2, field) => attribute.float = Some(field.float()?),
            (3, field) => attribute.int = Some(field.integer()?),
            (4, field) => attribute.string = Some(field.bytes()?),
            (5, field) => attribute.tensor = Some(tensor(field.bytes()?)?),
            (6, field) => attribute.graph = Some(graph(field.bytes()?, nesting + 1)?),
            (7, field) => field.floats(&mut attribute.floats)?,
            (8, field) => field.integers(&mut attribute.ints)?,
            (9, field) => attribute.strings.push(field.bytes()?),
            (14, field) => attribute.ty = ty(field.bytes()?)?,
            (21, field) => attribute.reference = field.text()?,
            (22, field) => attribute.sparse = Some(sparse(field.bytes()?)?),
            _ => {}
        }
    }
    Ok(attribute)
}

fn sparse(bytes: &[u8]) -> Result<Sparse<'_>, Error> {
    let mut sparse = Sparse::default();
    for field in Fields::new(bytes) {
        match field? {
            (1, field) => sparse.values = tensor(field.bytes()?)?,
            (2, field) => sparse.indices = tensor(field.bytes()?)?,
            (3, field) => field.integers(&mut sparse.dims)?,
            _ => {}
        }
    }
    Ok(sparse)
}

/// Decodes a tensor.
///
/// # Errors
/// Bytes that are not in the wire format.
pub(crate) fn tensor(bytes: &[u8]) -> Result<Tensor<'_>, Error> {
    let mut tensor = Tensor::default();
    for field in Fields::new(bytes) {
        match field? {
            (1, field) => field.integers(&mut tensor.dims)?,
            (2, field) => tensor.data_type = field.integer()?,
            (4, field) => field.floats(&mut tensor.floats)?,
            (5 | 7 | 11, field) => field.integers(&mut tensor.ints)?,
            (6, _) => tensor.strings += 1,
            (8, field) => tensor.name = field.text()?,
            (9, field) => tensor.raw = Some(field.bytes()?),
            (10, field) => field.doubles(&mut tensor.doubles)?,
            (13, field) => tensor.external.push(entry(field.bytes()?)?),
            _ => {}
        }
    }
    Ok(tensor)
}

fn entry(bytes: &[u8]) -> Result<(&str, &str), Error> {
    let mut entry = ("", "");
    for field in Fields::new(bytes) {
        match field? {
            (1, field) => entry.0 = field.text()?,
            (2, field) => entry.1 = field.text()?,
            _ => {}
        }
    }
    Ok(entry)
}

fn value_info(bytes: &[u8]) -> Result<ValueInfo<'_>, Error> {
    let mut info = ValueInfo::default();
    for field in Fields::new(bytes) {
        match field? {
            (1, field) => info.name = field.text()?,
            (2, field) => info.ty = ty(field.bytes()?)?,
            _ => {}
        }
    }
    Ok(info)
}

fn ty(bytes: &[u8]) -> Result<Option<Type<'_>>, Error> {
    let mut found = None;
    for field in Fields::new(bytes) {
        found = Some(match field? {
            (1, field) => tensor_type(field.bytes()?)?,
            (4, _) => Type::Sequence,
            (9, field) => optional_type(field.bytes()?)?,
            (5 | 8, _) => Type::Other,
            _ => continue,
        });
    }
    Ok(found)
}

/// An optional input of a graph is taken to have a value, so its type is that of the value.
fn optional_type(bytes: &[u8]) -> Result<Type<'_>, Error> {
    let mut found = None;
    for field in Fields::new(bytes) {
        if let (1, field) = field? {
            for inner in Fields::new(field.bytes()?) {
                if let (1, tensor) = inner? {
                    found = Some(tensor_type(tensor.bytes()?)?);
                }
            }
        }
    }
    Ok(found.unwrap_or(Type::Optional))
}

fn tensor_type(bytes: &[u8]) -> Result<Type<'_>, Error> {
    let (mut element, mut dims) = (0, None);
    for field in Fields::new(bytes) {
        match field? {
            (1, field) => element = field.integer()?,
            (2, field) => {
                let mut sizes = Vec::new();
                for dim in Fields::new(field.bytes()?) {
                    if let (1, dim) = dim? {
                        sizes.push(size(dim.bytes()?)?);
                    }
                }
                dims = Some(sizes);
            }
            _ => {}
        }
    }
    Ok(Type::Tensor { element, dims })
}

fn size(bytes: &[u8]) -> Result<Size<'_>, Error> {
    let mut size = Size::Unknown;
    for field in Fields::new(bytes) {
        match field? {
            // Some exporters write -1 for unknown sizes.
            (1, field) => size = Size::Known(field.integer()?),
            (2, field) => size = Size::Named(field.text()?),
            _ => {}
        }
    }
    Ok(match size {
        Size::Known(known) if known < 0 => Size::Unknown,
        // These are not names: exporters write them for any unknown size, even several times in a
        // shape.
        Size::Named("" | "?" | "None" | "-1") => Size::Unknown,
        size => size,
    })
}
