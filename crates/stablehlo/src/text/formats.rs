//! The pretty forms of operations, as a table that the reader and the printer share.
//!
//! A form is a line of items, separated by white space:
//!
//! | item | meaning |
//! |---|---|
//! | `%` | one operand |
//! | `%*` | all remaining operands, separated by commas |
//! | `%,*` | the same, with a comma after each |
//! | `$name:kind` | the attribute `name`, in the form of its [`Kind`] |
//! | `[ , ... ]` | a part that is present only if its attribute is |
//! | `{}` | the other attributes, as a dictionary |
//! | `::kind` | types, in the form of a [`Types`] |
//! | anything else | literal text |

/// The form of an attribute in a pretty form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `3`: a 64-bit integer.
    Integer,
    /// `3.0`: a 64-bit floating-point number.
    Float,
    /// Any attribute, with its type.
    Any,
    /// `true`.
    Bool,
    /// `[0, 1]`.
    Integers,
    /// `"text"`.
    String,
    /// A case of an enumeration of StableHLO.
    Case(&'static str),
    /// `@name`, for a string attribute.
    SymbolString,
    /// `[b, f, 0]x[i, o, 0]->[b, f, 0]`.
    Convolution,
    /// `stride = [1], pad = [[0, 0]], ...`, which are five attributes of a convolution.
    Window,
    /// `batching_dims = [0] x [0], contracting_dims = [1] x [0]`.
    DotDimensions,
    /// `, precision = [DEFAULT, DEFAULT]`, omitted if there is none.
    Precision,
    /// `, algorithm = <...>`, omitted if there is none.
    Algorithm,
    /// `e5m10`, which is two attributes.
    ExponentMantissa,
    /// `[0:2, 1:3:2]`, which is three attributes.
    SliceRanges,
}

/// The form of the types of operands and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Types {
    /// One type for all operands and results, or a function type.
    Same,
    /// A function type.
    Function,
    /// The types of the results; there are no operands.
    Results,
    /// `a, b`: the types of the predicate and of the others; or a function type.
    Select,
    /// The type of the complex result, or a function type.
    Complex,
    /// The type of a tuple, which consists of the operands' types.
    Tuple,
    /// The types of the operands, which are also those of the results.
    Pairwise,
    /// `a, b -> c`.
    Arrow,
    /// `: a, b` with the types of the operands, if there are any; there are no results.
    Operands,
    /// One type for all operands; there are no results.
    OneOperand,
    /// No text: the operand has the type of the attribute `value`.
    Value,
}

/// One item of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// One operand.
    Operand,
    /// All remaining operands.
    Operands,
    /// All remaining operands, with a comma after each.
    OperandsWithCommas,
    /// An attribute with this name, and how its value is written.
    Attribute(&'static str, Kind),
    /// The beginning of an optional part.
    OptionalBegin,
    /// The end of an optional part.
    OptionalEnd,
    /// The other attributes.
    Dictionary,
    /// The types.
    Types(Types),
    /// Punctuation or a word.
    Literal(&'static str),
}

/// Lists of operation names, each with their common form.
const FORMS: &[(&str, &str)] = &[
    (
        "stablehlo.abs stablehlo.cbrt stablehlo.ceil stablehlo.convert \
         stablehlo.count_leading_zeros stablehlo.cosine stablehlo.exponential \
         stablehlo.exponential_minus_one stablehlo.floor stablehlo.imag stablehlo.log \
         stablehlo.log_plus_one stablehlo.logistic stablehlo.not stablehlo.negate \
         stablehlo.popcnt stablehlo.real stablehlo.round_nearest_afz \
         stablehlo.round_nearest_even stablehlo.rsqrt stablehlo.sign stablehlo.sine \
         stablehlo.sqrt stablehlo.tan stablehlo.tanh stablehlo.uniform_quantize \
         stablehlo.uniform_dequantize",
        "% {} : ::same",
    ),
    (
        "stablehlo.add stablehlo.atan2 stablehlo.divide stablehlo.maximum stablehlo.minimum \
         stablehlo.multiply stablehlo.power stablehlo.remainder stablehlo.shift_left \
         stablehlo.shift_right_arithmetic stablehlo.shift_right_logical stablehlo.subtract \
         stablehlo.and stablehlo.or stablehlo.xor stablehlo.clamp",
        "%* {} : ::same",
    ),
    (
        "stablehlo.is_finite stablehlo.bitcast_convert stablehlo.dynamic_update_slice \
         stablehlo.reshape stablehlo.dynamic_reshape stablehlo.dynamic_pad \
         stablehlo.real_dynamic_slice",
        "%* {} : ::function",
    ),
    ("stablehlo.complex", "%* {} : ::complex"),
    ("stablehlo.select", "%* {} : ::select"),
    ("stablehlo.tuple", "%* {} : ::tuple"),
    ("stablehlo.after_all", "%* {} : ::same"),
    (
        "stablehlo.create_token stablehlo.replica_id stablehlo.partition_id",
        "{} : ::results",
    ),
    (
        "stablehlo.iota",
        "dim = $iota_dimension:integer {} : ::results",
    ),
    (
        "stablehlo.dynamic_iota",
        "% , dim = $iota_dimension:integer {} : ::function",
    ),
    (
        "stablehlo.get_dimension_size",
        "% , dim = $dimension:integer {} : ::function",
    ),
    (
        "stablehlo.set_dimension_size",
        "% , % , dim = $dimension:integer {} : ::function",
    ),
    (
        "stablehlo.get_tuple_element",
        "% [[ $index:integer ]] {} : ::function",
    ),
    (
        "stablehlo.compare",
        "$comparison_direction:comparison_direction , % , % [ , $compare_type:comparison_type ] \
         {} : ::function",
    ),
    (
        "stablehlo.dynamic_slice",
        "%,* sizes = $slice_sizes:integers {} : ::function",
    ),
    (
        "stablehlo.concatenate",
        "%,* dim = $dimension:integer {} : ::function",
    ),
    (
        "stablehlo.broadcast",
        "% , sizes = $broadcast_sizes:integers {} : ::function",
    ),
    (
        "stablehlo.broadcast_in_dim",
        "% , dims = $broadcast_dimensions:integers {} : ::function",
    ),
    (
        "stablehlo.dynamic_broadcast_in_dim",
        "% , % , dims = $broadcast_dimensions:integers {} : ::function",
    ),
    (
        "stablehlo.transpose",
        "% , dims = $permutation:integers {} : ::function",
    ),
    (
        "stablehlo.reverse",
        "% , dims = $dimensions:integers {} : ::same",
    ),
    (
        "stablehlo.cholesky",
        "% [ , lower = $lower:bool ] {} : ::same",
    ),
    (
        "stablehlo.pad",
        "% , % , low = $edge_padding_low:integers , high = $edge_padding_high:integers , \
         interior = $interior_padding:integers {} : ::function",
    ),
    (
        "stablehlo.fft",
        "% , type = $fft_type:fft_type , length = $fft_length:integers {} : ::function",
    ),
    (
        "stablehlo.rng",
        "% , % , % , distribution = $rng_distribution:rng_distribution {} : ::function",
    ),
    (
        "stablehlo.rng_bit_generator",
        "% , algorithm = $rng_algorithm:rng_algorithm {} : ::function",
    ),
    (
        "stablehlo.einsum",
        "% , % , config = $einsum_config:string {} : ::function",
    ),
    (
        "stablehlo.unary_einsum",
        "% , config = $einsum_config:string {} : ::function",
    ),
    (
        "stablehlo.reduce_precision",
        "% , format = $exponent_bits:exponent_mantissa {} : ::same",
    ),
    (
        "stablehlo.slice",
        "% $start_indices:slice_ranges {} : ::function",
    ),
    (
        "stablehlo.dot",
        "% , % $precision_config:precision {} : ::function",
    ),
    (
        "stablehlo.dot_general",
        "% , % , $dot_dimension_numbers:dot_dimensions $precision_config:precision \
         $algorithm:algorithm {} : ::function",
    ),
    (
        "stablehlo.convolution",
        "( %* ) dim_numbers = $dimension_numbers:convolution , window = {{ \
         $window_strides:window }} {} : ::function",
    ),
    (
        "stablehlo.custom_call",
        "$call_target_name:symbol_string ( %* ) {} : ::function",
    ),
    ("stablehlo.composite", "$name:string %* {} : ::function"),
    ("stablehlo.optimization_barrier", "{} %* : ::pairwise"),
    (
        "stablehlo.return func.return sdy.return",
        "%* {} ::operands",
    ),
    ("func.call", "$callee:any ( %* ) {} : ::function"),
    (
        "chlo.acos chlo.acosh chlo.asin chlo.asinh chlo.atan chlo.atanh chlo.bessel_i1e \
         chlo.conj chlo.cosh chlo.digamma chlo.erf chlo.erf_inv chlo.erfc chlo.is_inf \
         chlo.is_neg_inf chlo.is_pos_inf chlo.lgamma chlo.sinh chlo.square chlo.tan \
         chlo.constant_like chlo.next_after chlo.polygamma chlo.zeta chlo.mulhi",
        "%* {} : ::arrow",
    ),
    (
        "chlo.broadcast_add chlo.broadcast_and chlo.broadcast_atan2 chlo.broadcast_complex \
         chlo.broadcast_divide chlo.broadcast_maximum chlo.broadcast_minimum \
         chlo.broadcast_multiply chlo.broadcast_next_after chlo.broadcast_or \
         chlo.broadcast_polygamma chlo.broadcast_power chlo.broadcast_remainder \
         chlo.broadcast_select chlo.broadcast_shift_left \
         chlo.broadcast_shift_right_arithmetic chlo.broadcast_shift_right_logical \
         chlo.broadcast_subtract chlo.broadcast_xor chlo.broadcast_zeta",
        "%* {} : ::function",
    ),
    ("chlo.broadcast_compare", "%* {} : ::function"),
    (
        "chlo.top_k",
        "( % , k = $k:integer [ , is_stable = $is_stable:bool ] ) {} : ::arrow",
    ),
    ("check.expect_eq_const", "% , $value:any {} ::value"),
    (
        "check.expect_almost_eq_const",
        "% , $value:any [ , tolerance = $tolerance:float ] {} ::value",
    ),
    (
        "interpreter.probe",
        "% , probe_id = $probe_id:string {} : ::same",
    ),
    ("interpreter.print", "% {} : ::one_operand"),
    ("check.expect_eq", "% , % {} : ::one_operand"),
    (
        "check.expect_almost_eq",
        "% , % [ , tolerance = $tolerance:float ] {} : ::one_operand",
    ),
    (
        "check.expect_close",
        "% , % , max_ulp_difference = $max_ulp_difference:integer [ , min_ulp_difference = \
         $min_ulp_difference:integer ] {} : ::operands_only",
    ),
];

/// The form of an operation, if it has one that the table describes.
pub(crate) fn form(operation: &str) -> Option<&'static [Item]> {
    use rustc_hash::FxHashMap;
    use std::sync::OnceLock;
    static FORM_OF: OnceLock<FxHashMap<&'static str, Vec<Item>>> = OnceLock::new();
    let forms = FORM_OF.get_or_init(|| {
        let mut forms = FxHashMap::default();
        for (names, form) in FORMS {
            let items: Vec<Item> = form.split_whitespace().map(item).collect();
            for name in names.split_whitespace() {
                forms.insert(name, items.clone());
            }
        }
        forms
    });
    forms.get(operation).map(Vec::as_slice)
}

fn item(text: &'static str) -> Item {
    match text {
        "%" => Item::Operand,
        "%*" => Item::Operands,
        "%,*" => Item::OperandsWithCommas,
        "[" => Item::OptionalBegin,
        "]" => Item::OptionalEnd,
        "[[" => Item::Literal("["),
        "]]" => Item::Literal("]"),
        "{{" => Item::Literal("{"),
        "}}" => Item::Literal("}"),
        "{}" => Item::Dictionary,
        _ => match (text.strip_prefix('$'), text.strip_prefix("::")) {
            (Some(attribute), _) => {
                let (name, kind) = attribute.split_once(':').unwrap_or((attribute, "any"));
                Item::Attribute(name, attribute_kind(kind))
            }
            (None, Some(types)) => Item::Types(types_kind(types)),
            (None, None) => Item::Literal(text),
        },
    }
}

fn attribute_kind(kind: &'static str) -> Kind {
    match kind {
        "integer" => Kind::Integer,
        "float" => Kind::Float,
        "bool" => Kind::Bool,
        "integers" => Kind::Integers,
        "string" => Kind::String,
        "symbol_string" => Kind::SymbolString,
        "convolution" => Kind::Convolution,
        "window" => Kind::Window,
        "dot_dimensions" => Kind::DotDimensions,
        "precision" => Kind::Precision,
        "algorithm" => Kind::Algorithm,
        "exponent_mantissa" => Kind::ExponentMantissa,
        "slice_ranges" => Kind::SliceRanges,
        "any" => Kind::Any,
        case => Kind::Case(case),
    }
}

fn types_kind(types: &str) -> Types {
    match types {
        "same" => Types::Same,
        "results" => Types::Results,
        "select" => Types::Select,
        "complex" => Types::Complex,
        "tuple" => Types::Tuple,
        "pairwise" => Types::Pairwise,
        "arrow" => Types::Arrow,
        "operands" => Types::Operands,
        "operands_only" => Types::Pairwise,
        "one_operand" => Types::OneOperand,
        "value" => Types::Value,
        _ => Types::Function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_types_last_and_one_dictionary() {
        for (names, _) in FORMS {
            for name in names.split_whitespace() {
                let form = form(name).expect("every name of the table has its form");
                assert!(matches!(form.last(), Some(Item::Types(_))), "{name}");
                let dictionaries = form.iter().filter(|item| **item == Item::Dictionary);
                assert_eq!(dictionaries.count(), 1, "{name}");
            }
        }
    }
}
