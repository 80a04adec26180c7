//! Shardings: which part of an array each device has.
//!
//! A program for several devices that has no collectives of its own (`jit` over sharded arrays) means
//! the same as on one device. So its arguments are put together from their parts, it runs once on
//! whole arrays, and the results are cut. That is exact; it is not faster than one device.

use crate::error::Error;
use tegula_stablehlo::mlir::{Attribute, Module, Operation};

/// How an array is cut over the devices of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sharding {
    /// By dimension: into how many parts.
    parts: Vec<i64>,
    /// By device: which part of each dimension it has. The order is the execution's.
    places: Vec<Vec<i64>>,
}

/// The shardings of a program's arrays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shardings {
    pub(crate) parameters: Vec<Sharding>,
    pub(crate) results: Vec<Sharding>,
}

/// Named axes of devices.
struct Mesh {
    name: String,
    axes: Vec<(String, i64)>,
    /// The devices in the order of the axes; empty if that is their own.
    devices: Vec<i64>,
}

impl Sharding {
    /// The whole array on every device.
    fn replicated(rank: usize, devices: usize) -> Self {
        Self {
            parts: vec![1; rank],
            places: vec![vec![0; rank]; devices],
        }
    }

    /// The dimensions of a part of an array.
    pub(crate) fn part(&self, dims: &[i64]) -> Vec<i64> {
        dims.iter()
            .zip(&self.parts)
            .map(|(dim, parts)| dim / parts)
            .collect()
    }

    /// Where the part of a device begins.
    pub(crate) fn start(&self, dims: &[i64], device: usize) -> Vec<i64> {
        let part = self.part(dims);
        let place = &self.places[device];
        part.iter()
            .zip(place)
            .map(|(size, place)| size * place)
            .collect()
    }

    /// Whether the parts are equal: others are not cut.
    fn divides(&self, dims: &[i64]) -> bool {
        dims.iter()
            .zip(&self.parts)
            .all(|(dim, parts)| dim % parts == 0)
    }

    pub(crate) fn is_replicated(&self) -> bool {
        self.parts.iter().all(|parts| *parts == 1)
    }

    /// `xla.OpSharding`: 1 the type (0 replicated, 3 tiled), 3 the tiles by dimension, 4 the
    /// devices of the tiles, 6 whether a last dimension of tiles is of copies.
    pub(crate) fn to_proto(&self) -> Vec<u8> {
        if self.is_replicated() {
            return vec![8, 0];
        }
        let tiles: i64 = self.parts.iter().product();
        let copies = self.places.len() as i64 / tiles.max(1);
        let mut devices: Vec<usize> = (0..self.places.len()).collect();
        devices.sort_by_key(|&device| self.places[device].clone());
        let mut dims = self.parts.clone();
        if copies > 1 {
            dims.push(copies);
        }
        let devices: Vec<i64> = devices.into_iter().map(|device| device as i64).collect();
        let mut bytes = vec![8, 3];
        for (field, numbers) in [(3_u8, &dims), (4, &devices)] {
            let mut packed = Vec::new();
            numbers
                .iter()
                .for_each(|&number| put(&mut packed, number as u64));
            bytes.push(field << 3 | 2);
            put(&mut bytes, packed.len() as u64);
            bytes.extend(packed);
        }
        if copies > 1 {
            bytes.extend([6 << 3, 1]);
        }
        bytes
    }
}

/// Writes a number as protocol buffers have it.
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

impl Shardings {
    /// What a program says of its arrays; those of which it says nothing are whole everywhere.
    ///
    /// # Errors
    /// A sharding that cuts no equal parts, or that is written in a way that we do not read.
    pub(crate) fn read(
        module: &Module,
        parameters: &[Vec<i64>],
        results: &[Vec<i64>],
        devices: usize,
    ) -> Result<Self, Error> {
        let body = module.body();
        let meshes: Vec<Mesh> = body.iter().filter_map(Mesh::read).collect();
        let functions = || {
            body.iter()
                .filter(|operation| &*operation.name == "func.func")
        };
        let name = |operation: &&Operation| {
            let name = operation.attribute("sym_name").and_then(Attribute::as_str);
            name == Some("main")
        };
        let main = functions().find(name).or_else(|| functions().next());
        let main = main.ok_or_else(|| Error::invalid("the program has no function"))?;
        check_alike(body)?;
        let read = |lists: &str, arrays: &[Vec<i64>]| -> Result<Vec<Sharding>, Error> {
            let lists = main.attribute(lists).and_then(Attribute::as_array);
            let lists = lists.unwrap_or_default();
            let shardings = arrays.iter().enumerate().map(|(number, dims)| {
                let entries = lists.get(number).and_then(Attribute::as_entries);
                one(entries, &meshes, dims, devices)
            });
            shardings.collect()
        };
        Ok(Self {
            parameters: read("arg_attrs", parameters)?,
            results: read("res_attrs", results)?,
        })
    }
}

/// Operations whose results differ from device to device: a program with one of them is not the same
/// on one device.
const BY_DEVICE: [&str; 11] = [
    "stablehlo.all_reduce",
    "stablehlo.all_gather",
    "stablehlo.all_to_all",
    "stablehlo.reduce_scatter",
    "stablehlo.collective_permute",
    "stablehlo.collective_broadcast",
    "stablehlo.cross-replica-sum",
    "stablehlo.partition_id",
    "stablehlo.replica_id",
    "sdy.manual_computation",
    "mpmd.named_computation",
];

/// # Errors
/// The program says what each device does.
fn check_alike(operations: &[Operation]) -> Result<(), Error> {
    for operation in operations {
        let target = operation
            .attribute("call_target_name")
            .and_then(Attribute::as_str);
        let by_hand = target.is_some_and(|target| target.starts_with("SPMD"));
        if BY_DEVICE.contains(&&*operation.name) || by_hand {
            let what = format!("`{}` in a program for several devices", operation.name);
            return Err(crate::entry::unimplemented(&what));
        }
        for region in &operation.regions {
            for block in &region.blocks {
                check_alike(&block.operations)?;
            }
        }
    }
    Ok(())
}

/// The sharding of one array.
fn one(
    entries: Option<&tegula_stablehlo::mlir::Attributes>,
    meshes: &[Mesh],
    dims: &[i64],
    devices: usize,
) -> Result<Sharding, Error> {
    let find = |wanted: &str| {
        let entries = entries?;
        entries
            .iter()
            .find(|(name, _)| &**name == wanted)
            .map(|(_, value)| value)
    };
    if let Some(value) = find("mhlo.sharding") {
        let text = value.as_str().unwrap_or_default();
        if text != "{replicated}" {
            return Err(crate::entry::unimplemented(&format!("the sharding {text}")));
        }
    }
    let Some(value) = find("sdy.sharding") else {
        return Ok(Sharding::replicated(dims.len(), devices));
    };
    let text = tegula_stablehlo::attribute_text(value);
    let sharding = of_text(&text, meshes, dims.len(), devices);
    let sharding = sharding
        .ok_or_else(|| crate::entry::unimplemented(&format!("the sharding {text} of {dims:?}")))?;
    if !sharding.divides(dims) {
        let what = format!("cutting {dims:?} into parts that are not equal ({text})");
        return Err(crate::entry::unimplemented(&what));
    }
    Ok(sharding)
}

/// Reads `#sdy.sharding<@mesh, [{"x"}, {"y", "z"}, {?}]>`: by dimension the axes that cut it.
fn of_text(text: &str, meshes: &[Mesh], rank: usize, devices: usize) -> Option<Sharding> {
    let body = text.strip_prefix("#sdy.sharding<")?;
    let (name, rest) = body.strip_prefix('@')?.split_once(',')?;
    let mesh = meshes
        .iter()
        .find(|mesh| mesh.name == name.trim_matches('"'))?;
    let list = rest.trim_start().strip_prefix('[')?;
    let mut axes_by_dim: Vec<Vec<String>> = Vec::new();
    let mut rest = list;
    while let Some(open) = rest.find(['{', ']']) {
        if rest[open..].starts_with(']') {
            break;
        }
        let close = rest[open..].find('}')? + open;
        let axes = rest[open + 1..close].split(',').map(str::trim);
        let axes = axes.filter(|axis| !axis.is_empty() && *axis != "?");
        // A part of an axis is written `"x":(1)2`.
        let axes: Option<Vec<String>> = axes
            .map(|axis| Some(axis.strip_prefix('"')?.strip_suffix('"')?.to_owned()))
            .collect();
        axes_by_dim.push(axes?);
        rest = &rest[close + 1..];
        // Priorities follow a dimension: `p1`.
    }
    if axes_by_dim.len() != rank {
        return None;
    }
    mesh.sharding(&axes_by_dim, devices)
}

impl Mesh {
    /// A mesh, if the operation is one. Its text is `<["x"=2, "y"=2], device_ids=[...]>`.
    fn read(operation: &Operation) -> Option<Self> {
        if &*operation.name != "sdy.mesh" {
            return None;
        }
        let name = operation.attribute("sym_name")?.as_str()?.to_owned();
        let text = tegula_stablehlo::attribute_text(operation.attribute("mesh")?);
        let (_, list) = text.split_once("<[")?;
        let (list, rest) = list.split_once(']')?;
        let axes = list
            .split(',')
            .filter(|axis| !axis.trim().is_empty())
            .map(|axis| {
                let (name, size) = axis.split_once('=')?;
                Some((
                    name.trim().trim_matches('"').to_owned(),
                    size.trim().parse().ok()?,
                ))
            });
        let devices = match rest.split_once("device_ids=[") {
            Some((_, ids)) => {
                let ids = ids.split(']').next()?.split(',');
                ids.map(|id| id.trim().parse().ok())
                    .collect::<Option<_>>()?
            }
            None => Vec::new(),
        };
        Some(Self {
            name,
            axes: axes.collect::<Option<_>>()?,
            devices,
        })
    }

    /// Cuts each dimension by some axes, the first the most major.
    fn sharding(&self, axes_by_dim: &[Vec<String>], devices: usize) -> Option<Sharding> {
        let count: i64 = self.axes.iter().map(|(_, size)| size).product();
        // A mesh of one device without axes: the whole array.
        if self.axes.is_empty() {
            return Some(Sharding::replicated(axes_by_dim.len(), devices));
        }
        if usize::try_from(count).ok()? != devices {
            return None;
        }
        let size = |axis: &str| {
            self.axes
                .iter()
                .find(|(name, _)| name == axis)
                .map(|(_, s)| *s)
        };
        let mut sharding = Sharding::replicated(axes_by_dim.len(), devices);
        for (dim, axes) in axes_by_dim.iter().enumerate() {
            for axis in axes {
                sharding.parts[dim] *= size(axis)?;
            }
        }
        for place in 0..devices {
            let device = self.devices.get(place).copied().unwrap_or(place as i64);
            let coordinates = self.coordinates(place as i64);
            let own = sharding.places.get_mut(usize::try_from(device).ok()?)?;
            for (dim, axes) in axes_by_dim.iter().enumerate() {
                own[dim] = axes.iter().try_fold(0, |place, axis| {
                    let number = self.axes.iter().position(|(name, _)| name == axis)?;
                    Some(place * size(axis)? + coordinates[number])
                })?;
            }
        }
        Some(sharding)
    }

    /// Where a device is along each axis.
    fn coordinates(&self, mut place: i64) -> Vec<i64> {
        let mut coordinates = vec![0; self.axes.len()];
        for (number, (_, size)) in self.axes.iter().enumerate().rev() {
            coordinates[number] = place % size;
            place /= size;
        }
        coordinates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh() -> Mesh {
        Mesh {
            name: "mesh".to_owned(),
            axes: vec![("x".to_owned(), 2), ("y".to_owned(), 2)],
            devices: Vec::new(),
        }
    }

    #[test]
    fn axes_cut_dimensions() {
        let meshes = [mesh()];
        let text = r#"#sdy.sharding<@mesh, [{"y"}, {}]>"#;
        let sharding = of_text(text, &meshes, 2, 4).expect("a sharding");
        assert_eq!(sharding.part(&[8, 6]), [4, 6]);
        let starts: Vec<Vec<i64>> = (0..4).map(|d| sharding.start(&[8, 6], d)).collect();
        assert_eq!(starts, [[0, 0], [4, 0], [0, 0], [4, 0]]);
        // Two tiles by one, each on two devices.
        let expected = [8, 3, 26, 3, 2, 1, 2, 34, 4, 0, 2, 1, 3, 48, 1];
        assert_eq!(sharding.to_proto(), expected);
        let both = of_text(r#"#sdy.sharding<@mesh, [{"x", "y"}, {?}]>"#, &meshes, 2, 4);
        let both = both.expect("a sharding");
        assert_eq!(both.part(&[8, 6]), [2, 6]);
        assert_eq!(both.start(&[8, 6], 3), [6, 0]);
        let nothing = of_text("#sdy.sharding<@mesh, [{}, {}]>", &meshes, 2, 4);
        assert!(nothing.expect("a sharding").is_replicated());
        assert_eq!(
            of_text(r#"#sdy.sharding<@mesh, [{"x":(1)2}, {}]>"#, &meshes, 2, 4),
            None
        );
    }
}
