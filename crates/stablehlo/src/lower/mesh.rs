//! Meshes of devices, and groups of devices along some of their axes.
//!
//! A mesh is an array of devices whose dimensions have names. Collectives say which axes they go
//! along: devices that differ in these alone are a group.

use super::{Lowerer, access::Access};
use crate::Error;
use crate::mlir::Attribute;

/// More devices than any program is for.
const MAX_DEVICES: i64 = 1 << 20;

/// An array of devices.
#[derive(Debug)]
struct Mesh {
    /// Names and sizes of the axes, from the slowest to the fastest.
    axes: Vec<(String, i64)>,
    /// The devices, row-major; empty if they are in order.
    devices: Vec<i64>,
}

/// A part of an axis: the axis is cut in `before`, `size` and the rest, of which this is the middle.
#[derive(Debug)]
struct AxisPart {
    axis: usize,
    before: i64,
    size: i64,
}

impl Lowerer<'_> {
    /// The groups that `#stablehlo.replica_group_mesh_axes<mesh = ..., axes = [...]>` names.
    ///
    /// # Errors
    /// A mesh or an axis that there is not, sizes that do not divide each other.
    pub(super) fn groups_of_axes(
        &self,
        access: &Access<'_>,
        value: &Attribute,
    ) -> Result<Vec<Vec<i64>>, Error> {
        let wrong = |what: &str| access.error(format!("in `replica_groups`: {what}"));
        let field = |name: &str| {
            let entries = value.as_entries().map(Vec::as_slice).unwrap_or_default();
            let found = entries.iter().find(|(key, _)| &**key == name);
            found.map(|(_, value)| value)
        };
        let (Some(mesh), Some(axes)) = (field("mesh"), field("axes")) else {
            return Err(access.unsupported("this form of `replica_groups` is not known"));
        };
        let mesh = self
            .mesh(mesh)
            .ok_or_else(|| wrong("expected the name of a mesh, or a mesh"))?;
        let total = mesh.axes.iter().try_fold(1_i64, |total, (_, size)| {
            let total = total.checked_mul(*size)?;
            (*size > 0 && total <= MAX_DEVICES).then_some(total)
        });
        let total = total.ok_or_else(|| wrong("a mesh of no devices, or of too many"))?;
        let parts: Option<Vec<AxisPart>> = axes
            .as_array()
            .unwrap_or_default()
            .iter()
            .map(|axis| axis_part(axis, &mesh))
            .collect();
        let parts = parts.ok_or_else(|| wrong("expected axes of the mesh"))?;
        Ok(mesh.groups(total, &parts))
    }

    /// A mesh by its name, or as it is written.
    fn mesh(&self, value: &Attribute) -> Option<Mesh> {
        let Some(name) = value.as_symbol() else {
            return written_mesh(value);
        };
        let operation = self.source.body().iter().find(|operation| {
            let own = operation.attribute("sym_name").and_then(Attribute::as_str);
            &*operation.name == "sdy.mesh" && own == Some(name)
        })?;
        match operation.attribute("mesh")? {
            Attribute::Opaque { body, .. } => parsed_mesh(body),
            other => written_mesh(other),
        }
    }
}

impl Mesh {
    /// Devices that differ in these parts of axes alone, in their order.
    fn groups(&self, total: i64, parts: &[AxisPart]) -> Vec<Vec<i64>> {
        let device = |place: i64| {
            let listed = usize::try_from(place)
                .ok()
                .and_then(|p| self.devices.get(p));
            listed.copied().unwrap_or(place)
        };
        let mut groups: Vec<(i64, Vec<(i64, i64)>)> = Vec::new();
        for place in 0..total {
            let (mut within, mut around) = (0, place);
            for part in parts {
                // What a step along this part is, in places.
                let faster: i64 = self.axes[part.axis + 1..].iter().map(|(_, s)| s).product();
                let step = faster * (self.axes[part.axis].1 / part.before / part.size);
                let at = place / step % part.size;
                within = within * part.size + at;
                around -= at * step;
            }
            match groups.iter_mut().find(|(first, _)| *first == around) {
                Some((_, members)) => members.push((within, device(place))),
                None => groups.push((around, vec![(within, device(place))])),
            }
        }
        let ordered = groups.into_iter().map(|(_, mut members)| {
            members.sort_unstable();
            members.into_iter().map(|(_, device)| device).collect()
        });
        ordered.collect()
    }
}

/// `#stablehlo.axis_ref<name = "x", sub_axis_info = #stablehlo.sub_axis_info<...>>`.
fn axis_part(value: &Attribute, mesh: &Mesh) -> Option<AxisPart> {
    let field = |of: &Attribute, name: &str| {
        let entries = of.as_entries()?;
        let found = entries.iter().find(|(key, _)| &**key == name);
        found.map(|(_, value)| value.clone())
    };
    let name = match value {
        Attribute::String(name) => name.to_string(),
        _ => field(value, "name")?.as_str()?.to_owned(),
    };
    let axis = mesh.axes.iter().position(|(own, _)| *own == name)?;
    let whole = mesh.axes[axis].1;
    let (before, size) = match field(value, "sub_axis_info") {
        Some(info) => (
            field(&info, "pre_size")?.as_integer()?,
            field(&info, "size")?.as_integer()?,
        ),
        None => (1, whole),
    };
    let fits = before > 0 && size > 0 && before <= whole && size <= whole;
    (fits && whole % (before * size) == 0).then_some(AxisPart { axis, before, size })
}

/// `#stablehlo.mesh<axes = [...], device_ids = ...>`.
fn written_mesh(value: &Attribute) -> Option<Mesh> {
    let entries = value.as_entries()?;
    let field = |name: &str| {
        let found = entries.iter().find(|(key, _)| &**key == name);
        found.map(|(_, value)| value)
    };
    let axis = |axis: &Attribute| {
        let entries = axis.as_entries()?;
        let field = |name: &str| {
            let found = entries.iter().find(|(key, _)| &**key == name);
            found.map(|(_, value)| value)
        };
        let name = field("name")?.as_str()?.to_owned();
        Some((name, field("size")?.as_integer()?))
    };
    let axes: Option<Vec<(String, i64)>> = field("axes")?.as_array()?.iter().map(axis).collect();
    let devices = field("device_ids").and_then(Attribute::as_integers);
    Some(Mesh {
        axes: axes?,
        devices: devices.unwrap_or_default(),
    })
}

/// Shardy's text of a mesh: `mesh<["x"=4, "y"=2], device_ids=[0, 1, ...]>`.
fn parsed_mesh(body: &str) -> Option<Mesh> {
    let inner = body.strip_prefix("mesh<[")?.strip_suffix('>')?;
    let (axes, rest) = inner.split_once(']')?;
    let pieces = |list: &str| -> Vec<String> {
        let all = list.split(',').map(|piece| piece.trim().to_owned());
        all.filter(|piece| !piece.is_empty()).collect()
    };
    let axis = |text: &String| {
        let (name, size) = text.rsplit_once('=')?;
        let name = name.trim().trim_matches('"').to_owned();
        Some((name, size.trim().parse().ok()?))
    };
    let axes: Option<Vec<(String, i64)>> = pieces(axes).iter().map(axis).collect();
    let devices = match rest.split_once('[') {
        Some((_, list)) => {
            let list = list.split_once(']')?.0;
            let ids: Option<Vec<i64>> = pieces(list).iter().map(|id| id.parse().ok()).collect();
            ids?
        }
        None => Vec::new(),
    };
    Some(Mesh {
        axes: axes?,
        devices,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(mesh: &str, parts: &[(usize, i64, i64)]) -> Vec<Vec<i64>> {
        let mesh = parsed_mesh(mesh).expect("a mesh");
        let total = mesh.axes.iter().map(|(_, size)| size).product();
        let part = |&(axis, before, size): &(usize, i64, i64)| AxisPart { axis, before, size };
        let parts: Vec<AxisPart> = parts.iter().map(part).collect();
        mesh.groups(total, &parts)
    }

    #[test]
    fn devices_along_axes_are_groups() {
        let mesh = "mesh<[\"x\"=2, \"y\"=3]>";
        assert_eq!(groups(mesh, &[(1, 1, 3)]), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(groups(mesh, &[(0, 1, 2)]), [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(groups(mesh, &[(1, 1, 3), (0, 1, 2)]), [[0, 3, 1, 4, 2, 5]]);
        assert_eq!(groups(mesh, &[]).len(), 6);
    }

    #[test]
    fn axes_can_be_split_and_devices_listed() {
        let mesh = "mesh<[\"x\"=4], device_ids=[3, 2, 1, 0]>";
        assert_eq!(groups(mesh, &[(0, 1, 2)]), [[3, 1], [2, 0]]);
        assert_eq!(groups(mesh, &[(0, 2, 2)]), [[3, 2], [1, 0]]);
    }
}
