//! `tegula shape`: prints how large an array is, and where its elements lie in memory.

use super::sizes::{SizesArgs, sizes};
use crate::documents::{self, Failed, ShapeFacts};
use crate::exit_code::{BAD_USAGE, SUCCESS};
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::output::complain;
use crate::terminal::style::{HEADING, paint};
use anyhow::anyhow;
use clap::Args;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use tegula_draw::layout::{Limits, Picture};
use tegula_ir::{ArrayShape, Shape, parse_shape};
use tegula_layout::physical::PhysicalLayout;

/// The options of `tegula shape`.
#[derive(Debug, Args)]
pub(crate) struct ShapeArgs {
    /// A shape with its layout, such as `f32[3,5]{1,0:T(2,2)}`: dimension 1 is the most minor, and
    /// tiles have 2 by 2 elements. `-` reads one shape per line of standard input, each with an
    /// optional index after a tab. For a program's file, the shapes of its values are printed as by
    /// `tegula sizes`.
    pub shape: String,
    /// Print the position in the buffer of the element with this index, which has one number per
    /// dimension: 2,4.
    #[arg(
        long,
        value_name = "I,J,...",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub index: Option<Vec<i64>>,
    /// Print the index of the element at position N of the buffer. Positions are counted in
    /// elements, from 0.
    #[arg(long, value_name = "N")]
    pub linear: Option<i64>,
    /// For a program: prove that sizes A and B are equal. See `tegula sizes`.
    #[arg(long, num_args = 2, value_names = ["A", "B"], allow_hyphen_values = true)]
    pub why: Option<Vec<String>>,
    /// For an ONNX model whose shapes depend on the values of inputs: read those values from this
    /// NumPy `.npz` file.
    #[arg(long, value_name = "NPZ")]
    pub inputs: Option<PathBuf>,
    /// For an ONNX model: print the shapes of its nodes' outputs. See `tegula sizes`.
    #[arg(long)]
    pub nodes: bool,
    /// Draw the tiles, and the position of each element in memory, as text.
    #[arg(long)]
    pub draw: bool,
    /// Draw the same as SVG, into this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Draw into this file: as SVG if its name ends in `.svg`, otherwise as text.
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub dims: crate::inputs::DimArgs,
}

/// Sizes of a picture that fit a terminal.
const TEXT_LIMITS: Limits = Limits {
    planes: 4,
    rows: 16,
    columns: 16,
    places: 256,
};
/// Sizes of a picture that fit a page.
const SVG_LIMITS: Limits = Limits {
    planes: 8,
    rows: 64,
    columns: 64,
    places: 4096,
};

/// Prints the sizes of an array and the positions of its elements.
pub(crate) fn shape(args: &ShapeArgs, common: &Common) -> Result<u8, Failure> {
    if args.shape == "-" {
        let mut code = SUCCESS;
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(anyhow::Error::new)?;
            if line.trim().is_empty() {
                continue;
            }
            code = code.max(one_line(&line, args, common));
        }
        return Ok(code);
    }
    if !args.shape.contains('[') || Path::new(&args.shape).is_file() {
        let args = SizesArgs {
            model: PathBuf::from(&args.shape),
            dims: args.dims.clone(),
            why: args.why.clone(),
            inputs: args.inputs.clone(),
            nodes: args.nodes,
        };
        return sizes(&args, common);
    }
    if args.why.is_some() {
        return Err(anyhow!("`--why` needs a program, not a shape").into());
    }
    let facts = describe(&args.shape, args.index.as_deref(), args.linear)?;
    print(&args.shape, &facts, common);
    draw(args, common)?;
    Ok(SUCCESS)
}

/// Draws the array to the files given by the options, or to standard output.
fn draw(args: &ShapeArgs, common: &Common) -> anyhow::Result<()> {
    let array = array(&args.shape)?;
    let is_svg = |path: &PathBuf| path.extension().is_some_and(|e| e == "svg");
    for path in args.svg.iter().chain(&args.output) {
        let picture = if Some(path) == args.svg.as_ref() || is_svg(path) {
            tegula_draw::layout::svg(&Picture::new(&array, SVG_LIMITS)?)
        } else {
            tegula_draw::layout::text(&Picture::new(&array, TEXT_LIMITS)?)
        };
        crate::terminal::result_file::write(path, picture)?;
    }
    let to_file = args.svg.is_some() || args.output.is_some();
    if args.draw && !to_file && !common.json {
        let picture = Picture::new(&array, TEXT_LIMITS)?;
        let picture = tegula_draw::layout::text(&picture);
        say!("\n{}", picture.trim_end_matches('\n'));
    }
    Ok(())
}

fn array(text: &str) -> anyhow::Result<ArrayShape> {
    match parse_shape(text)? {
        Shape::Array(array) => Ok(array),
        _ => Err(anyhow!("`{text}` is not an array")),
    }
}

/// Prints exactly one line for a line of input, even if the input is wrong.
fn one_line(line: &str, args: &ShapeArgs, common: &Common) -> u8 {
    let (text, index) = line.split_once('\t').unwrap_or((line, ""));
    let index: Result<Vec<i64>, _> = index
        .split(',')
        .filter(|s| !s.trim().is_empty())
        .map(|s| s.trim().parse())
        .collect();
    let facts = match index {
        Ok(index) if line.contains('\t') => describe(text, Some(&index), args.linear),
        Ok(_) => describe(text, None, args.linear),
        Err(_) => Err(anyhow!("the index is not a list of numbers")),
    };
    match facts {
        Ok(facts) => {
            print(text, &facts, common);
            SUCCESS
        }
        Err(error) => {
            complain(format_args!("error: {text}: {error:#}"));
            documents::print(&Failed::without_line(&format!("{error:#}")));
            BAD_USAGE
        }
    }
}

fn describe(text: &str, index: Option<&[i64]>, linear: Option<i64>) -> anyhow::Result<ShapeFacts> {
    let layout = PhysicalLayout::new(&array(text)?)?;
    let mut facts = ShapeFacts {
        elements: layout.elements(),
        bytes: layout.bytes(),
        padded_elements: layout.padded_elements(),
        padded_bytes: layout.padded_bytes(),
        linear_index: None,
        index: None,
    };
    if let Some(index) = index {
        facts.linear_index = Some(layout.linear_index(index)?);
        facts.index = Some(index.to_vec());
    }
    if let Some(linear) = linear {
        facts.linear_index = Some(linear);
        // `None` if the position is padding.
        facts.index = layout.index_of(linear)?;
    }
    Ok(facts)
}

fn print(text: &str, facts: &ShapeFacts, common: &Common) {
    if common.json {
        documents::print(facts);
        return;
    }
    // The factor is undefined for an empty array.
    let waste = match facts.bytes {
        0 => String::new(),
        bytes => format!("{:.2} times, ", facts.padded_bytes as f64 / bytes as f64),
    };
    let lost = facts.padded_bytes - facts.bytes;
    say!(
        "{}: {} elements, {} bytes",
        paint(HEADING, text),
        facts.elements,
        facts.bytes
    );
    say!(
        "padded: {} elements, {} bytes ({waste}{lost} bytes wasted)",
        facts.padded_elements,
        facts.padded_bytes
    );
    match (&facts.index, facts.linear_index) {
        (Some(index), Some(linear)) => say!("element {index:?} is at {linear}"),
        (None, Some(linear)) => say!("position {linear} is padding"),
        _ => {}
    }
}
