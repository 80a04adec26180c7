//! The attributes of the plug-in.

use crate::c_api::*;
use crate::entry::entries;
use crate::named::{Attributes, Value};
use std::sync::LazyLock;

/// The newest supported version of StableHLO. Newer front ends convert programs to it, and refuse
/// those that need a newer one: accuracies of some functions need 1.10, asynchronous collectives
/// 1.15.
const STABLEHLO: [i64; 3] = [1, 17, 0];
/// The oldest supported version of StableHLO.
const OLDEST_STABLEHLO: [i64; 3] = [0, 9, 0];

static ATTRIBUTES: LazyLock<Attributes> = LazyLock::new(|| {
    let integers = |name: &str, value: [i64; 3]| (name.to_owned(), Value::Integers(value.into()));
    Attributes::new(vec![
        ("xla_version".to_owned(), Value::Integer(2)),
        integers("stablehlo_current_version", STABLEHLO),
        integers("stablehlo_minimum_version", OLDEST_STABLEHLO),
    ])
});

entries! {
    fn PJRT_Plugin_Attributes(args: PJRT_Plugin_Attributes_Args) {
        args.attributes = ATTRIBUTES.as_ptr();
        args.num_attributes = ATTRIBUTES.len();
    }
}
