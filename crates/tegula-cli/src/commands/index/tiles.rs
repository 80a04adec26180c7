//! `tegula index --tiles`: the tile of each operand that a tile of the result reads.

use crate::documents;
use anyhow::anyhow;
use clap::Args;
use std::path::PathBuf;
use tegula_draw::tiles::{Picture, PictureLimits, paint};
use tegula_expr::Style;
use tegula_indexing::tiles::{DimensionKind, Reason, Reply, Tile, Tiling, TilingSpace};
use tegula_indexing::{IndexingMap, Simplifier, Unknown};
use tegula_ir::{ArrayShape, InstructionId, Module, Shape};

/// The options of tiles.
#[derive(Debug, Args)]
pub(crate) struct TileArgs {
    /// Cut each result into tiles of these sizes, and print which tile of every operand a tile of
    /// the result is computed from. The sizes are those of the result's last dimensions, for
    /// example 8,128; `?` keeps a size symbolic.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size)]
    pub tiles: Option<Vec<Size>>,
    /// The tile sizes of the dimensions that are summed over, such as the contracted dimension of a
    /// dot product, in the order of the sums. Without it these dimensions are not cut.
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        value_parser = size,
        requires = "tiles"
    )]
    pub summed: Option<Vec<Size>>,
    /// Draw which elements are in one tile of the result and of each operand, as text.
    #[arg(long, requires = "tiles")]
    pub draw: bool,
    /// Draw the same as SVG, into this file. Requires `--instruction`.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tiles",
        requires = "instruction"
    )]
    pub svg: Option<PathBuf>,
}

/// The size of a tile along a dimension; `None` if it is left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(Option<i64>);

fn size(text: &str) -> Result<Size, String> {
    if text == "?" {
        return Ok(Size(None));
    }
    match text.parse::<i64>() {
        Ok(size) if size > 0 => Ok(Size(Some(size))),
        _ => Err("expected a positive number or `?`".into()),
    }
}

/// The tiling of one array of an instruction's result.
pub(super) struct Tiled {
    tiling: Tiling,
    space: TilingSpace,
    result: ArrayShape,
}

/// One tile of an operand.
struct Printed {
    tile: Tile,
    text: String,
    exact: Option<String>,
    present: Option<String>,
    reasons: Vec<String>,
}

impl Tiled {
    /// Returns the tiling of an array of an instruction's result; `None` if the instruction reads
    /// nothing or the result is not an array.
    pub(super) fn of(
        module: &Module,
        id: InstructionId,
        output: usize,
        args: &TileArgs,
        simplifier: &mut Simplifier,
    ) -> Option<Result<Self, Unknown>> {
        let result = array_of(&module[id].shape, output)?.clone();
        if module[id].operands.is_empty() {
            return None;
        }
        let tiling = match Tiling::of(module, id, output, simplifier) {
            Ok(tiling) => tiling,
            Err(unknown) => return Some(Err(unknown)),
        };
        let space = sized(&tiling.space, args);
        Some(Ok(Self {
            tiling,
            space,
            result,
        }))
    }

    fn names(&self) -> impl Fn(tegula_expr::Var) -> String + '_ {
        |var| self.space.name(var)
    }

    fn operands(&self) -> Vec<(usize, usize, Result<Vec<Printed>, Unknown>)> {
        let maps = self.tiling.operand_maps();
        let all = maps.iter().map(|own| {
            let maps = own.maps.as_ref().map_err(Clone::clone);
            let printed = maps.map(|maps| self.printed(maps));
            (own.operand, own.leaf, printed)
        });
        all.collect()
    }

    fn printed(&self, maps: &[IndexingMap]) -> Vec<Printed> {
        let mut all: Vec<Printed> = Vec::new();
        for map in maps {
            let tile = Tile::of(map, &self.space);
            if all.iter().any(|known| known.tile == tile) {
                continue;
            }
            let names = self.names();
            let map_names = |var| map.name(var);
            let reason = |reason: &Reason| reason.display(&names, &map_names).to_string();
            let condition = |condition: &tegula_indexing::tiles::Condition| {
                let shown = condition.display(&names).to_string();
                (!condition.is_always()).then_some(shown)
            };
            let text = tile.display(&self.space).to_string();
            all.push(Printed {
                text,
                exact: condition(&tile.exact),
                present: condition(&tile.present),
                reasons: tile.reasons.iter().map(reason).collect(),
                tile,
            });
        }
        all
    }

    /// Describes each dimension of the tiling space.
    fn dimensions(&self, module: &Module) -> Vec<documents::SpaceDim> {
        let dims = self.space.dims.iter().enumerate();
        dims.map(|(number, dim)| {
            let owner = dim.instruction.map(|id| module[id].name.to_string());
            let names = self.names();
            let divides = match self.space.divides(number) {
                Reply::Proved(_) => None,
                Reply::Refuted(_) => Some("never".to_owned()),
                Reply::Missing(condition) => Some(condition.display(&names).to_string()),
            };
            documents::SpaceDim {
                name: match dim.kind {
                    DimensionKind::Parallel => format!("d{}", dim.number),
                    DimensionKind::Sequential => format!("s{}", dim.number),
                },
                kind: match dim.kind {
                    DimensionKind::Parallel => "parallel",
                    DimensionKind::Sequential => "sequential",
                },
                instruction: owner,
                extent: dim.extent,
                size: dim.sizes.as_point(),
                tiles: dim.tile_count(),
                divides,
            }
        })
        .collect()
    }

    /// Returns the JSON document: the space, and the tiles of each operand's arrays.
    pub(super) fn document(&self, module: &Module) -> documents::Tiles {
        let operand = |(operand, leaf, found): (usize, usize, Result<Vec<Printed>, Unknown>)| {
            let (tiles, unknown) = match found {
                Ok(tiles) => (tiles, None),
                Err(unknown) => (Vec::new(), Some(unknown.cause.to_string())),
            };
            documents::OperandTiles {
                operand,
                leaf: (leaf > 0).then_some(leaf),
                tiles: tiles.iter().map(|own| self.tile_document(own)).collect(),
                unknown,
            }
        };
        documents::Tiles {
            space: self.dimensions(module),
            operands: self.operands().into_iter().map(operand).collect(),
        }
    }

    fn tile_document(&self, own: &Printed) -> documents::Tile {
        let names = self.names();
        let spell = |term: &tegula_expr::Term| term.display(&names, Style::Xla).to_string();
        let dims = own.tile.dims.iter().map(|dim| documents::TileDim {
            offset: spell(&dim.offset),
            size: spell(&dim.size),
            stride: spell(&dim.stride),
            lower: dim.lower.as_ref().map(spell),
            upper: dim.upper.as_ref().map(spell),
        });
        documents::Tile {
            dims: dims.collect(),
            exact: own.exact.is_none(),
            exact_if: own.exact.clone(),
            present_if: own.present.clone(),
            smallest: own.tile.is_smallest,
            reasons: own.reasons.clone(),
        }
    }

    /// Prints the space and the tiles.
    pub(super) fn print(&self, module: &Module) {
        for dim in self.dimensions(module) {
            let of = dim.instruction.filter(|_| dim.kind == "sequential");
            let of = of.map_or(String::new(), |name| format!(" of {name}"));
            let size = dim.size.map_or("open".to_owned(), |size| size.to_string());
            let count = match dim.tiles {
                Some(1) => "1 tile".to_owned(),
                Some(count) => format!("{count} tiles"),
                None => "tiles".to_owned(),
            };
            let edge = match (dim.divides.as_deref(), dim.size) {
                (None, _) => String::new(),
                (Some(_), Some(_)) => ", the last one shorter".to_owned(),
                (Some(condition), None) => format!(", which divide it if {condition}"),
            };
            let size = if size == "open" {
                "open size".to_owned()
            } else {
                size
            };
            say!(
                "  {} {}{of}: {} in {count} of {size}{edge}",
                dim.kind,
                dim.name,
                dim.extent
            );
        }
        for (operand, leaf, found) in self.operands() {
            let name = match leaf {
                0 => operand.to_string(),
                leaf => format!("{operand}, array {leaf}"),
            };
            match found {
                Ok(tiles) => tiles.iter().for_each(|own| print_tile(&name, own)),
                Err(unknown) => say!("  operand {name}: unknown: {}", unknown.cause),
            }
        }
    }

    /// Draws the elements that the tiles contain.
    pub(super) fn picture(
        &self,
        module: &Module,
        id: InstructionId,
        limits: PictureLimits,
    ) -> anyhow::Result<Picture> {
        if self.space.is_open() {
            return Err(anyhow!(
                "tiles whose sizes are open cannot be drawn: give all sizes"
            ));
        }
        let title = format!("{} = {}", module[id].name, module[id].shape);
        let result = self.result.static_dims().ok_or_else(|| {
            anyhow!(
                "{}: sizes known at run time cannot be drawn",
                module[id].name
            )
        })?;
        let own: Vec<IndexingMap> = {
            // The map of the result's own tiles is the identity on the parallel dimensions.
            let extents: Vec<i64> = self.space.dims.iter().map(|dim| dim.extent).collect();
            let mut map = IndexingMap::over(&extents);
            map.results = (0..result.len()).map(|dim| map.dim(dim)).collect();
            vec![map]
        };
        let own = own.iter().map(|map| Tile::of(map, &self.space)).collect();
        let mut arrays = vec![("result".to_owned(), result.to_vec(), own)];
        for (operand, leaf, found) in self.operands() {
            let shape = module.operand_shape(id, operand);
            let sizes = shape.and_then(|shape| array_of(shape, leaf)?.static_dims());
            let (Some(sizes), Ok(tiles)) = (sizes, found) else {
                continue;
            };
            if sizes.is_empty() {
                continue;
            }
            let tiles = tiles.into_iter().map(|own| own.tile).collect();
            arrays.push((format!("operand {operand}"), sizes.to_vec(), tiles));
        }
        Ok(paint(title, &self.space, &arrays, limits))
    }
}

fn print_tile(name: &str, own: &Printed) {
    say!("  operand {name}: tile {}", own.text);
    if let Some(present) = &own.present {
        say!("    reads nothing unless {present}");
    }
    if let Some(exact) = &own.exact {
        let smallest = if own.tile.is_smallest {
            ", and is the smallest that does"
        } else {
            ""
        };
        say!(
            "    covers what is read{smallest}: {}",
            own.reasons.join("; ")
        );
        if exact != "never" {
            say!("    exact if {exact}");
        }
    }
}

/// Returns the tiling space with the tile sizes of the command line.
fn sized(space: &TilingSpace, args: &TileArgs) -> TilingSpace {
    let minor: Vec<Option<i64>> = args.tiles.iter().flatten().map(|size| size.0).collect();
    let summed: Vec<Option<i64>> = args.summed.iter().flatten().map(|size| size.0).collect();
    let parallel = space.parallel().count();
    let sizes = space
        .dims
        .iter()
        .enumerate()
        .map(|(number, dim)| match dim.kind {
            DimensionKind::Parallel => (number + minor.len())
                .checked_sub(parallel)
                .and_then(|at| minor.get(at).copied())
                .unwrap_or(Some(1)),
            DimensionKind::Sequential => {
                let own = summed.get(number - parallel).copied();
                own.unwrap_or(Some(dim.extent.max(1)))
            }
        });
    space.with_sizes(&sizes.collect::<Vec<_>>())
}

/// Returns array `leaf` of a shape.
fn array_of(shape: &Shape, leaf: usize) -> Option<&ArrayShape> {
    match shape {
        Shape::Array(array) => (leaf == 0).then_some(array),
        Shape::Tuple(elements) => {
            let mut left = leaf;
            for element in elements {
                let count = element.leaf_count();
                if left < count {
                    return array_of(element, left);
                }
                left -= count;
            }
            None
        }
        _ => None,
    }
}
