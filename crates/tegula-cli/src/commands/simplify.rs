//! `tegula simplify`: prints the simplest form of an indexing map.

use crate::documents::{self, Failed, Simplified};
use crate::exit_code::{BAD_USAGE, FINDING, SUCCESS};
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::count;
use crate::terminal::output::complain;
use clap::Args;
use std::io::BufRead;
use tegula_expr::{Style, Var};
use tegula_indexing::{
    Checked, Difference, IndexingMap, Simplifier, Status, check_same, parse_map,
};

/// The options of `tegula simplify`.
#[derive(Debug, Args)]
pub(crate) struct SimplifyArgs {
    /// The map, for example `(d0) -> (d0 floordiv 4), domain: d0 in [0, 3]`. `-` reads one map per
    /// line of standard input.
    pub map: String,
    /// Print the rules that were applied, in order, each with the term before and after.
    #[arg(long, visible_alias = "why")]
    pub explain: bool,
    /// Verify the result by evaluating both maps at up to a million points of the domain.
    #[arg(long)]
    pub check: bool,
}

/// The maximum number of points at which `--check` evaluates both maps.
const CHECKED_POINTS: usize = 1 << 20;
/// The maximum number of operations that `--check` evaluates over all points.
const CHECKED_WORK: usize = 1 << 26;

/// Returns the number of points at which `--check` evaluates both maps in a few seconds.
fn points_to_check(map: &IndexingMap) -> usize {
    let constraints = map.constraints.iter().map(|constraint| &constraint.term);
    let terms = map.results.iter().chain(constraints);
    let work: usize = terms.map(|term| term.size() as usize).sum();
    let each = work.saturating_add(map.variable_count()).max(1);
    (CHECKED_WORK / each).clamp(1, CHECKED_POINTS)
}

/// Simplifies one map, or one per line of standard input.
pub(crate) fn simplify(args: &SimplifyArgs, common: &Common) -> Result<u8, Failure> {
    if args.map != "-" {
        return Ok(one(&args.map, args, common));
    }
    let mut code = SUCCESS;
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.map_err(anyhow::Error::new)?;
        // A line that is not UTF-8 is not a map: it gets an error message of its own like any
        // other.
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if !line.is_empty() {
            code = code.max(one(line, args, common));
        }
    }
    Ok(code)
}

/// Simplifies one map.
fn one(text: &str, args: &SimplifyArgs, common: &Common) -> u8 {
    let map = match parse_map(text) {
        Ok(map) => map,
        Err(error) => return malformed(text, &error.to_string(), args.map == "-", common),
    };
    // Each map gets a simplifier of its own, so that earlier maps do not influence it.
    let mut session = if args.explain {
        Simplifier::new().explaining()
    } else {
        Simplifier::new()
    };
    let (simplified, report) = session.simplify_with_report(&map);
    let names = |var: Var| map.name(var);
    let mut steps = report.domain.lines(&names, Style::Xla);
    steps.extend(
        report
            .steps
            .iter()
            .map(|s| s.display(&names, Style::Xla).to_string()),
    );
    let checked = args
        .check
        .then(|| check_same(&map, &simplified, points_to_check(&map)));
    let printed = simplified.display(Style::Xla).to_string();
    if common.json {
        let status = match simplified.status {
            Status::Ok => "ok",
            Status::Empty => "empty",
            Status::Undefined => "undefined",
        };
        documents::print(&Simplified {
            map: printed,
            status,
            stop: args.explain.then(|| format!("{:?}", report.stop)),
            steps: args.explain.then_some(steps),
            check: checked.as_ref().map(describe_check),
        });
    } else {
        say!("{printed}");
        for step in &steps {
            say!("  {step}");
        }
        if args.explain {
            let rounds = count(report.rounds, "round");
            say!("  stopped: {:?} after {rounds}", report.stop);
        }
        if let Some(checked) = &checked {
            say!("  check: {}", describe_check(checked));
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

/// The maximum number of characters of a malformed map that are shown.
const SHOWN: usize = 400;

/// Reports a malformed map. With `lines`, the report is one line, as standard input needs one per
/// map.
fn malformed(text: &str, message: &str, lines: bool, common: &Common) -> u8 {
    let shown: String = text.chars().take(SHOWN).collect();
    let more = if shown.len() < text.len() { " ..." } else { "" };
    complain(format_args!("error: {message}\n  {shown}{more}"));
    if common.json {
        documents::print(&Failed::without_line(message));
    } else if lines {
        say!("error: {message}");
    }
    BAD_USAGE
}
