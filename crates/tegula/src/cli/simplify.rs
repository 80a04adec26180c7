//! `tegula simplify`: the simplest form of an indexing map.

use super::report::Failure;
use super::{BAD_USAGE, Common, FINDING, SUCCESS};
use clap::Args;
use serde_json::json;
use std::io::BufRead;
use tegula_expr::{Style, Var};
use tegula_indexing::{Checked, Difference, Session, Status, check_same, parse_map};

/// The options of `tegula simplify`.
#[derive(Debug, Args)]
pub(crate) struct SimplifyArgs {
    /// The map, or `-`: one map per line of standard input.
    pub map: String,
    /// Print the rules that led to the result.
    #[arg(long)]
    pub explain: bool,
    /// Verify the result by evaluating both maps.
    #[arg(long)]
    pub check: bool,
}

/// Points at which `--check` evaluates both maps, at most.
const CHECKED_POINTS: usize = 1 << 20;

/// Simplifies maps.
pub(crate) fn simplify(args: &SimplifyArgs, common: &Common) -> Result<u8, Failure> {
    if args.map != "-" {
        return Ok(one(&args.map, args, common));
    }
    let mut code = SUCCESS;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(anyhow::Error::new)?;
        if !line.trim().is_empty() {
            code = code.max(one(&line, args, common));
        }
    }
    Ok(code)
}

/// One map.
fn one(text: &str, args: &SimplifyArgs, common: &Common) -> u8 {
    let map = match parse_map(text) {
        Ok(map) => map,
        Err(error) => return malformed(text, &error.to_string(), args.map == "-", common),
    };
    // A session of its own: what else is asked for must not matter.
    let mut session = if args.explain {
        Session::new().explaining()
    } else {
        Session::new()
    };
    let (simplified, report) = session.simplify_with_report(&map);
    let names = |var: Var| map.name(var);
    let steps: Vec<String> = report
        .steps
        .iter()
        .map(|s| s.display(&names, Style::Xla).to_string())
        .collect();
    let checked = args
        .check
        .then(|| check_same(&map, &simplified, CHECKED_POINTS));
    let printed = simplified.display(Style::Xla).to_string();
    if common.json {
        let status = match simplified.status {
            Status::Ok => "ok",
            Status::Empty => "empty",
            Status::Undefined => "undefined",
        };
        let mut object = json!({ "map": printed, "status": status });
        if args.explain {
            object["stop"] = json!(format!("{:?}", report.stop));
            object["steps"] = json!(steps);
        }
        if let Some(checked) = &checked {
            object["check"] = json!(describe_check(checked));
        }
        println!("{object}");
    } else {
        println!("{printed}");
        steps.iter().for_each(|step| println!("  {step}"));
        if args.explain {
            println!(
                "  stopped: {:?} after {} round(s)",
                report.stop, report.rounds
            );
        }
        if let Some(checked) = &checked {
            println!("  check: {}", describe_check(checked));
        }
    }
    if matches!(checked, Some(Err(_))) {
        FINDING
    } else {
        SUCCESS
    }
}

fn describe_check(checked: &Result<Checked, Difference>) -> String {
    match checked {
        Ok(Checked {
            points,
            exhaustive: true,
        }) => format!("same on all {points} points"),
        Ok(Checked { points, .. }) => format!("same on {points} sampled points"),
        Err(difference) => format!("DIFFERS: {difference}"),
    }
}

/// Of standard input, every line gets a line, whatever is wrong with it.
fn malformed(text: &str, message: &str, lines: bool, common: &Common) -> u8 {
    eprintln!("error: {message}\n  {text}");
    if common.json {
        println!("{}", json!({ "error": { "message": message } }));
    } else if lines {
        println!("error: {message}");
    }
    BAD_USAGE
}
