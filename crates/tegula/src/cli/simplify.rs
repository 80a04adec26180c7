//! `tegula simplify`: the simplest form of an indexing map.

use super::report::Failure;
use super::{BAD_USAGE, Common, SUCCESS};
use clap::Args;
use serde_json::json;
use std::io::BufRead;
use tegula_expr::Style;
use tegula_indexing::{Session, Status, parse_map};

/// The options of `tegula simplify`.
#[derive(Debug, Args)]
pub(crate) struct SimplifyArgs {
    /// The map, or `-`: one map per line of standard input.
    pub map: String,
}

/// Simplifies maps.
pub(crate) fn simplify(args: &SimplifyArgs, common: &Common) -> Result<u8, Failure> {
    if args.map != "-" {
        return Ok(one(&args.map, common));
    }
    let mut code = SUCCESS;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(anyhow::Error::new)?;
        if !line.trim().is_empty() {
            code = code.max(one(&line, common));
        }
    }
    Ok(code)
}

/// One map: a line out for a line in, whatever is wrong with it.
fn one(text: &str, common: &Common) -> u8 {
    // A session of its own: what else is asked for must not matter.
    match parse_map(text) {
        Ok(map) => {
            let map = Session::new().simplify_map(&map);
            let text = map.display(Style::Xla).to_string();
            if common.json {
                let status = match map.status {
                    Status::Ok => "ok",
                    Status::Empty => "empty",
                    Status::Undefined => "undefined",
                };
                println!("{}", json!({ "map": text, "status": status }));
            } else {
                println!("{text}");
            }
            SUCCESS
        }
        Err(error) => {
            let message = error.to_string();
            eprintln!("error: {message}\n  {text}");
            if common.json {
                println!("{}", json!({ "error": { "message": message } }));
            } else {
                println!("error: {message}");
            }
            BAD_USAGE
        }
    }
}
