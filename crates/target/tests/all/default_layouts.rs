//! Default layouts, compared with the real compiler's.

use tegula_ir::{ElementType, parse_shape};
use tegula_target::{Chip, TileError, TileRule};

fn text(bits: u32, dims: &[i64]) -> String {
    text_by(TileRule::Compact, bits, dims)
}

fn text_by(rule: TileRule, bits: u32, dims: &[i64]) -> String {
    rule.default_layout(bits, dims).unwrap().to_string()
}

#[test]
fn measured_points() {
    for (bits, dims, expected) in [
        (32, &[][..], "{:T(128)}"),
        (16, &[], "{:T(256)}"),
        (8, &[], "{:T(512)}"),
        (4, &[], "{:T(1024)E(4)}"),
        (32, &[1], "{0:T(128)}"),
        (32, &[129], "{0:T(256)}"),
        (32, &[100_000], "{0:T(1024)}"),
        (16, &[1], "{0:T(256)(128)(2,1)}"),
        (8, &[127], "{0:T(512)(128)(4,1)}"),
        (4, &[7], "{0:T(1024)(128)(8,1)E(4)}"),
        (32, &[1, 257], "{1,0:T(1,128)}"),
        (32, &[5, 224, 1], "{1,2,0:T(1,128)}"),
        (16, &[5, 224, 1], "{1,0,2:T(8,128)(2,1)}"),
        (8, &[32, 31], "{1,0:T(32,128)(4,1)}"),
        (8, &[12, 63, 16], "{1,2,0:T(8,128)(4,1)}"),
        (4, &[32, 31], "{1,0:T(8,128)(8,1)E(4)}"),
        (16, &[512, 16, 3072], "{2,1,0:T(8,128)(2,1)}"),
        (64, &[64, 256], "{1,0:T(8,128)}"),
        (128, &[261, 222], "{1,0:T(8,128)}"),
        (2, &[], "{:T(2048)E(2)}"),
        (2, &[127], "{0:T(2048)(128)(16,1)E(2)}"),
        (2, &[24, 384, 250], "{1,0,2:T(16,128)(16,1)E(2)}"),
        (2, &[9, 1], "{0,1:T(16,128)(16,1)E(2)}"),
        (2, &[257, 128, 31], "{1,0,2:T(16,128)(16,1)E(2)}"),
        // Among equal orders, the one without padding is chosen.
        (2, &[64, 200, 256], "{2,0,1:T(16,128)(16,1)E(2)}"),
        (2, &[48, 24, 269], "{2,1,0:T(16,128)(16,1)E(2)}"),
        (2, &[128, 256], "{1,0:T(128,128)(16,1)E(2)}"),
    ] {
        assert_eq!(text(bits, dims), expected, "{bits} bits, {dims:?}");
    }
    for (bits, dims, expected) in [
        (32, &[][..], "{:T(256)}"),
        (8, &[], "{:T(1024)}"),
        (4, &[], "{:T(1024)}"),
        (32, &[31], "{0:T(256)}"),
        (32, &[513], "{0:T(1024)}"),
        (16, &[1], "{0:T(512)(128)(2,1)}"),
        (4, &[127], "{0:T(1024)(128)(4,1)}"),
        (2, &[1025], "{0:T(2048)(128)(4,1)}"),
        (32, &[1, 5], "{1,0:T(2,128)}"),
        (32, &[12, 1, 3, 145], "{3,2,1,0:T(4,128)}"),
        (16, &[8, 96, 2], "{1,0,2:T(8,128)(2,1)}"),
        (8, &[96, 384], "{1,0:T(8,128)(4,1)}"),
        (4, &[127, 250], "{1,0:T(8,128)(4,1)}"),
        (2, &[197, 2], "{0,1:T(16,128)(4,1)}"),
        (64, &[1, 2048, 99], "{1,2,0:T(8,128)}"),
    ] {
        let own = text_by(TileRule::TwoRows, bits, dims);
        assert_eq!(own, expected, "{bits} bits, {dims:?}");
    }
}

#[test]
fn what_was_not_measured_is_an_error() {
    let rule = TileRule::Compact;
    let in_order = rule.layout_in_order(32, &[4, 5], &[1]);
    assert_eq!(in_order, Err(TileError::Order(2)));
    for (bits, dims, error) in [
        (6, [8, 1], TileError::Bits(6)),
        (0, [8, 1], TileError::Bits(0)),
        (32, [-1, 1], TileError::Dimension(-1)),
        (32, [i64::MAX, i64::MAX], TileError::TooLarge),
    ] {
        assert_eq!(rule.default_layout(bits, &dims), Err(error));
    }
    assert_eq!(text(32, &[0, 5]), "{1,0:T(1,128)}");
    let v4i = Chip::by_name("v4i").unwrap().default_layout(32, &[8, 128]);
    assert_eq!(v4i, Err(TileError::Chip("v4i".to_owned())));
    let v5e = Chip::by_name("v5e").unwrap().default_layout(32, &[8, 128]);
    assert_eq!(v5e.unwrap().to_string(), "{1,0:T(8,128)}");
}

/// Reads `{"f32": {"scalar": "{:T(128)}", "5x7": "..."}, ...}` as quoted texts: one that `{`
/// follows is a type, the others come in pairs.
fn entries(json: &str) -> Vec<(String, String, String)> {
    let parts: Vec<&str> = json.split('"').collect();
    let mut entries = Vec::new();
    let mut element_type = "";
    let mut key = None;
    for pair in parts[1..].chunks(2) {
        let (quoted, after) = (pair[0], pair.get(1).copied().unwrap_or_default());
        if after.contains('{') {
            element_type = quoted;
        } else if after.contains(':') {
            key = Some(quoted);
        } else if let Some(key) = key.take() {
            entries.push((element_type.to_owned(), key.to_owned(), quoted.to_owned()));
        }
    }
    entries
}

#[test]
fn the_real_compiler_agrees() {
    let Some(folder) = std::env::var_os("TEGULA_TPU_FACTS") else {
        eprintln!("skipped: TEGULA_TPU_FACTS is not set");
        return;
    };
    let path = std::path::Path::new(&folder).join("entry_layouts_v5e.json");
    let json = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let entries = entries(&json);
    assert!(entries.len() >= 3000, "{} entries", entries.len());
    let mut wrong = Vec::new();
    for (element_type, key, expected) in &entries {
        let element = ElementType::from_name(element_type).unwrap();
        let sizes = key.split('x').filter(|&size| size != "scalar");
        let dims: Vec<i64> = sizes.map(|size| size.parse().unwrap()).collect();
        let bits = if element == ElementType::Pred {
            8
        } else {
            element.bits()
        };
        let ours = text(bits, &dims);
        // The printed layout can be parsed as HLO.
        let shape: Vec<String> = dims.iter().map(ToString::to_string).collect();
        parse_shape(&format!("{element_type}[{}]{ours}", shape.join(","))).unwrap();
        if ours != *expected {
            wrong.push(format!("{element_type}[{key}]: {ours}, not {expected}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}: {wrong:#?}",
        wrong.len(),
        entries.len()
    );
}
