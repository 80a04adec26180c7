//! Meshes of devices in attributes, and the groups of collectives along their axes.

use super::{Lowerer, access::Access};
use crate::Error;
use crate::mlir::Attribute;
use tegula_ir::ReplicaGroups;
use tegula_ir::helpers::{Mesh, MeshPart};

impl Lowerer<'_> {
    /// The groups that `#stablehlo.replica_group_mesh_axes<mesh = ..., axes = [...]>` describes.
    ///
    /// # Errors
    /// An unknown mesh or axis; sizes that do not divide each other.
    pub(super) fn groups_of_axes(
        &self,
        access: &Access<'_>,
        value: &Attribute,
    ) -> Result<ReplicaGroups, Error> {
        let wrong = |what: &str| access.error(format!("in `replica_groups`: {what}"));
        let field = |name: &str| {
            let entries = value.as_entries().map(Vec::as_slice).unwrap_or_default();
            let found = entries.iter().find(|(key, _)| &**key == name);
            found.map(|(_, value)| value)
        };
        let (Some(mesh), Some(axes)) = (field("mesh"), field("axes")) else {
            return Err(access.unsupported("this form of `replica_groups` is not supported"));
        };
        let mesh = self
            .mesh(mesh)
            .ok_or_else(|| wrong("expected the name of a mesh, or a mesh"))?;
        if mesh.device_count().is_none() {
            return Err(wrong("the mesh has no devices, or too many"));
        }
        let parts: Option<Vec<MeshPart>> = axes
            .as_array()
            .unwrap_or_default()
            .iter()
            .map(|axis| axis_part(axis, &mesh))
            .collect();
        let parts = parts.ok_or_else(|| wrong("expected axes of the mesh"))?;
        mesh.groups(&parts)
            .ok_or_else(|| wrong("the sizes of the sub-axes do not divide the sizes of their axes"))
    }

    /// A mesh, given by name or inline.
    pub(super) fn mesh(&self, value: &Attribute) -> Option<Mesh> {
        let Some(name) = value.as_symbol() else {
            return match value {
                Attribute::Opaque { body, .. } => parsed_mesh(body),
                other => written_mesh(other),
            };
        };
        let operation = self.source.body().iter().find(|operation| {
            let own = operation.attribute("sym_name").and_then(Attribute::as_str);
            &*operation.name == "sdy.mesh" && own == Some(name)
        })?;
        self.mesh(operation.attribute("mesh")?)
    }
}

/// Reads `#stablehlo.axis_ref<name = "x", sub_axis_info = #stablehlo.sub_axis_info<...>>`.
fn axis_part(value: &Attribute, mesh: &Mesh) -> Option<MeshPart> {
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
    Some(MeshPart { axis, before, size })
}

/// Reads `#stablehlo.mesh<axes = [...], device_ids = ...>`.
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
        devices,
    })
}

/// Reads Shardy's text of a mesh: `mesh<["x"=4, "y"=2], device_ids=[0, 1, ...]>`.
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
            Some(ids?)
        }
        None => None,
    };
    Some(Mesh {
        axes: axes?,
        devices,
    })
}
