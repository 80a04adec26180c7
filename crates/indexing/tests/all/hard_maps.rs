//! Tests the corpus of hard maps, `tests/data/hard_maps.json`: each map is simplified to its
//! simplest known form, keeps its value, and is explained by the listed rules.
//!
//! `TEGULA_BLESS=1` rewrites forms and rules. `scripts/hard_maps.py` records the results of other
//! simplifiers.

use std::path::PathBuf;

use crate::common::proof::prove;
use serde_json::{Value, json};
use tegula_indexing::{IndexingMap, Limits, Simplifier, check_same};

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/hard_maps.json")
}

fn text<'a>(entry: &'a Value, member: &str) -> &'a str {
    entry[member].as_str().unwrap_or("")
}

#[test]
fn have_their_simplest_forms() {
    let file = file();
    let json = std::fs::read_to_string(&file).expect("the corpus");
    let mut corpus: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(text(&corpus, "form"), "tegula.hard-maps.v1");
    let bless = std::env::var_os("TEGULA_BLESS").is_some();
    let maps = corpus["maps"].as_array_mut().expect("maps");
    assert!(maps.len() >= 40);
    for entry in maps.iter_mut() {
        let name = text(entry, "name").to_owned();
        let map: IndexingMap = text(entry, "map")
            .parse()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let (simple, report) = Simplifier::new().explaining().simplify_with_report(&map);
        prove(&map, &simple, Limits::default());
        // The value, on every point or on many.
        if let Err(difference) = check_same(&map, &simple, 2_000_000) {
            panic!("{name}: {difference:?}");
        }
        let mut rules: Vec<&str> = report.steps.iter().map(|step| step.rule).collect();
        rules.dedup();
        let simplest = if simple.is_empty() {
            "empty".to_owned()
        } else {
            simple.to_string()
        };
        if bless {
            entry["simplest"] = json!(simplest);
            entry["proof"] = json!(rules);
            continue;
        }
        assert_eq!(simplest, text(entry, "simplest"), "{name}");
        assert_eq!(json!(rules), entry["proof"], "{name}");
    }
    if bless {
        let text = serde_json::to_string_pretty(&corpus).expect("JSON");
        std::fs::write(file, text + "\n").expect("written");
    }
}
