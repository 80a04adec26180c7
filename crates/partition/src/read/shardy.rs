//! Reads Shardy's attributes: `#sdy.mesh<["x"=2, "y"=4]>`, `#sdy.sharding<@mesh, [{"x"}, {?}]>`.
//!
//! A dimension is cut by the axes in its braces, the most major first; `"x":(2)4` is a sub-axis. A
//! `?` says that the dimension may be cut further. Along the axes in `unreduced={...}`, devices
//! hold partial results. Priorities and `replicated={...}` are ignored.

use super::cursor::Cursor;
use super::{Stated, Unreduced};
use crate::sharding::{Cut, Sharding};
use rustc_hash::FxHashMap;
use tegula_ir::Binary;
use tegula_ir::helpers::Mesh;

/// The meshes of a program, by name.
pub(crate) type Meshes = FxHashMap<String, Mesh>;

/// A sub-axis of a mesh: a factor of this size, after factors whose product is `before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    axis: usize,
    before: i64,
    size: i64,
}

/// The text of a frontend attribute without quotes and escapes.
pub(crate) fn plain(text: &str) -> String {
    let text = text.trim();
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner
        .unwrap_or(text)
        .replace("\\22", "\"")
        .replace('\\', "")
}

/// Reads `{mesh = #sdy.mesh<[...]>, ...}`.
pub(crate) fn meshes(text: &str) -> Option<Meshes> {
    let mut cursor = Cursor::new(text);
    cursor.expect("{")?;
    let list = cursor.list("}", |cursor| {
        let name = match cursor.quoted() {
            Some(name) => name,
            None => cursor.word()?,
        };
        cursor.expect("=")?;
        cursor.expect("#sdy.")?;
        Some((name.to_owned(), mesh(cursor)?))
    })?;
    cursor.is_at_end().then(|| list.into_iter().collect())
}

/// Reads `mesh<["x"=2], device_ids=[...]>`.
fn mesh(cursor: &mut Cursor<'_>) -> Option<Mesh> {
    cursor.expect("mesh<[")?;
    let axes = cursor.list("]", |cursor| {
        let name = cursor.quoted()?.to_owned();
        cursor.expect("=")?;
        Some((name, cursor.number()?))
    })?;
    let mut devices = None;
    if cursor.eat(",") {
        cursor.expect("device_ids=[")?;
        devices = Some(cursor.list("]", Cursor::number)?);
    }
    cursor.expect(">")?;
    let mesh = Mesh { axes, devices };
    mesh.device_count()?;
    Some(mesh)
}

/// Reads the shardings of several arrays; a single sharding is a list of one.
pub(crate) fn shardings(text: &str, meshes: &Meshes, devices: usize) -> Option<Vec<Axes>> {
    let mut cursor = Cursor::new(text);
    if cursor.eat("#sdy.sharding<") {
        let stated = one(&mut cursor, meshes, devices)?;
        return cursor.is_at_end().then(|| vec![stated]);
    }
    cursor.expect("#sdy.sharding_per_value<[")?;
    let list = cursor.list("]", |cursor| {
        cursor.expect("<")?;
        one(cursor, meshes, devices)
    })?;
    cursor.expect(">")?;
    cursor.is_at_end().then_some(list)
}

/// What was expected instead of an unknown mesh or axis, or of an axis that is used twice, if that
/// is the error in the shardings.
pub(crate) fn expected(text: &str, meshes: &Meshes) -> Option<String> {
    let names = |names: Vec<&str>| match names.is_empty() {
        true => "none".to_owned(),
        false => names.join("`, `"),
    };
    for own in text.split('<').filter_map(|own| own.strip_prefix('@')) {
        let mut cursor = Cursor::new(own);
        let name = cursor.quoted().or_else(|| cursor.word())?;
        let Some(mesh) = meshes.get(name) else {
            let mut known: Vec<&str> = meshes.keys().map(String::as_str).collect();
            known.sort_unstable();
            return Some(format!(
                "a mesh of the program (`{}`), found `{name}`",
                names(known)
            ));
        };
        let mut seen: Vec<(&str, bool)> = Vec::new();
        // After each name in quotes: whether it is a sub-axis.
        let quotes: Vec<&str> = own.split('"').collect();
        for pair in quotes.get(1..)?.chunks(2) {
            let (axis, rest) = (*pair.first()?, pair.get(1).copied().unwrap_or(""));
            if !mesh.axes.iter().any(|(own, _)| own == axis) {
                let known = mesh.axes.iter().map(|(own, _)| own.as_str()).collect();
                return Some(format!(
                    "an axis of the mesh (`{}`), found `{axis}`",
                    names(known)
                ));
            }
            let whole = !rest.starts_with(":(");
            if seen
                .iter()
                .any(|(own, all)| *own == axis && (*all || whole))
            {
                return Some(format!("each axis at most once, found `{axis}` twice"));
            }
            seen.push((axis, whole));
        }
    }
    None
}

/// Reads `#sdy<manual_axes{"x", "y"}>`.
pub(crate) fn manual_axes(text: &str) -> Option<Vec<String>> {
    let mut cursor = Cursor::new(text);
    cursor.expect("#sdy<manual_axes")?;
    let mut axes = Vec::new();
    if cursor.eat("{") {
        axes = cursor.list("}", |cursor| Some(cursor.quoted()?.to_owned()))?;
    }
    cursor.expect(">")?;
    cursor.is_at_end().then_some(axes)
}

/// A sharding in terms of a mesh's axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axes {
    pub(crate) stated: Stated,
    mesh: Mesh,
    by_dim: Vec<Vec<Part>>,
    unreduced: (Binary, Vec<Part>),
}

/// Reads a sharding from after its `<`: `@mesh, [{"x"}, {}], replicated={"y"}>`.
fn one(cursor: &mut Cursor<'_>, meshes: &Meshes, devices: usize) -> Option<Axes> {
    let mesh = match cursor.eat("@") {
        true => {
            let name = match cursor.quoted() {
                Some(name) => name,
                None => cursor.word()?,
            };
            meshes.get(name)?.clone()
        }
        false => mesh(cursor)?,
    };
    cursor.expect(",")?;
    cursor.expect("[")?;
    let mut open = Vec::new();
    let by_dim = cursor.list("]", |cursor| {
        cursor.expect("{")?;
        let mut is_open = false;
        let axes = cursor.list("}", |cursor| {
            if cursor.eat("?") {
                is_open = true;
                return Some(None);
            }
            axis(cursor, &mesh).map(Some)
        })?;
        open.push(is_open);
        // A priority such as `p1`.
        if cursor.eat("p") {
            cursor.number()?;
        }
        Some(axes.into_iter().flatten().collect::<Vec<Part>>())
    })?;
    let mut unreduced = (Binary::Add, Vec::new());
    while cursor.eat(",") {
        let what = cursor.word()?;
        cursor.expect("=")?;
        let op = match (cursor.eat("max"), cursor.eat("min")) {
            (true, _) => Binary::Maximum,
            (_, true) => Binary::Minimum,
            _ => Binary::Add,
        };
        cursor.expect("{")?;
        let axes = cursor.list("}", |cursor| axis(cursor, &mesh))?;
        if what == "unreduced" {
            unreduced = (op, axes);
        }
    }
    cursor.expect(">")?;
    let mut found = Axes {
        stated: Stated {
            sharding: Sharding::replicated(by_dim.len(), devices),
            open,
            manual: None,
            unreduced: None,
        },
        mesh,
        by_dim,
        unreduced,
    };
    found.stated.sharding = found.cut_where(devices, &|_| true)?;
    // If an axis is used twice, no device has some of the parts.
    found
        .stated
        .sharding
        .is_complete(&Cut::whole(devices))
        .then_some(())?;
    found.stated.unreduced = found.unreduced_where(devices, &|_| true)?;
    Some(found)
}

/// Reads `"x"` or `"x":(2)4`.
fn axis(cursor: &mut Cursor<'_>, mesh: &Mesh) -> Option<Part> {
    let name = cursor.quoted()?;
    let axis = mesh.axes.iter().position(|(own, _)| own == name)?;
    let size = mesh.axes.get(axis)?.1;
    if !cursor.eat(":(") {
        return Some(Part {
            axis,
            before: 1,
            size,
        });
    }
    let before = cursor.number()?;
    cursor.expect(")")?;
    let part = cursor.number()?;
    let divides = before > 0 && part > 0 && size % before.checked_mul(part)? == 0;
    divides.then_some(Part {
        axis,
        before,
        size: part,
    })
}

impl Axes {
    /// Whether the mesh has no axes, so that nothing is cut.
    pub(crate) fn has_no_axes(&self) -> bool {
        self.mesh.axes.is_empty()
    }

    /// Whether the mesh consists of a single device.
    pub(crate) fn is_of_one_device(&self) -> bool {
        self.has_no_axes() && self.mesh.devices.is_some()
    }

    /// The sharding with only those axes whose names `wanted` accepts.
    pub(crate) fn cut_where(
        &self,
        devices: usize,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Option<Sharding> {
        let is_wanted = |part: &&Part| {
            let axis = self.mesh.axes.get(part.axis);
            axis.is_some_and(|(name, _)| wanted(name))
        };
        let mut cuts = Vec::new();
        for parts in &self.by_dim {
            let mut cut = Cut::whole(devices);
            for part in parts.iter().filter(is_wanted) {
                cut = cut.then(&part_cut(&self.mesh, part, devices)?)?;
            }
            cuts.push(Some(cut));
        }
        Some(Sharding::new(devices, cuts))
    }

    /// The unreduced axes whose names `wanted` accepts.
    pub(crate) fn unreduced_where(
        &self,
        devices: usize,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Option<Option<Unreduced>> {
        let (op, parts) = &self.unreduced;
        let is_wanted = |part: &&Part| {
            let axis = self.mesh.axes.get(part.axis);
            axis.is_some_and(|(name, size)| *size > 1 && wanted(name))
        };
        let parts: Vec<&Part> = parts.iter().filter(is_wanted).collect();
        if parts.is_empty() {
            return Some(None);
        }
        // Groups of devices that differ only in these axes. Sub-axes cannot be unreduced.
        let mut along = Cut::whole(devices);
        let mut others = Cut::whole(devices);
        for (axis, (_, size)) in self.mesh.axes.iter().enumerate() {
            let part = Part {
                axis,
                before: 1,
                size: *size,
            };
            let cut = part_cut(&self.mesh, &part, devices)?;
            match parts.iter().any(|own| own.axis == axis) {
                true => along = along.then(&cut)?,
                false => others = others.then(&cut)?,
            }
        }
        if parts
            .iter()
            .any(|part| Some(&part.size) != self.mesh.axes.get(part.axis).map(|a| &a.1))
        {
            return None;
        }
        let groups = crate::sharding::groups(
            devices,
            |device| others.place(device),
            |device| along.place(device),
            along.parts(),
        )?;
        Some(Some(Unreduced { op: *op, groups }))
    }

    /// The cut that distinguishes devices along these axes.
    pub(crate) fn along(&self, names: &[String], devices: usize) -> Option<Cut> {
        let mut cut = Cut::whole(devices);
        for name in names {
            let axis = self.mesh.axes.iter().position(|(own, _)| own == name)?;
            let part = Part {
                axis,
                before: 1,
                size: self.mesh.axes.get(axis)?.1,
            };
            cut = cut.then(&part_cut(&self.mesh, &part, devices)?)?;
        }
        Some(cut)
    }
}

/// The cut along a sub-axis.
fn part_cut(mesh: &Mesh, part: &Part, devices: usize) -> Option<Cut> {
    let count = mesh.device_count()?;
    // In a mesh of one device, every device is on its own.
    if count == 1 {
        return Some(Cut::whole(devices));
    }
    if usize::try_from(count).ok()? != devices {
        return None;
    }
    let size = mesh.axes.get(part.axis)?.1;
    let inner: i64 = mesh
        .axes
        .get(part.axis + 1..)?
        .iter()
        .map(|(_, size)| size)
        .product();
    let after = size / (part.before * part.size);
    let mut places = vec![None; devices];
    for at in 0..count {
        let device = match &mesh.devices {
            Some(devices) => *devices.get(usize::try_from(at).ok()?)?,
            None => at,
        };
        let coordinate = at / inner % size;
        let place = places.get_mut(usize::try_from(device).ok()?)?;
        *place = Some(coordinate / after % part.size);
    }
    Cut::new(part.size, places.into_iter().collect::<Option<_>>()?)
}

/// The number of devices in the program's meshes, if they agree.
pub(crate) fn device_count(meshes: &Meshes) -> Option<i64> {
    let counts = meshes.values().filter_map(Mesh::device_count);
    counts.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the sharding of one array.
    fn sharding(text: &str, meshes: &Meshes, devices: usize) -> Option<Stated> {
        let mut all = shardings(text, meshes, devices)?;
        all.pop().map(|axes| axes.stated)
    }

    #[test]
    fn axes_cut_dimensions() {
        let text = plain(
            r#""{mesh = #sdy.mesh<[\"x\"=2, \"y\"=2]>, m1 = #sdy.mesh<[], device_ids=[0]>}""#,
        );
        let meshes = meshes(&text).expect("meshes");
        let read =
            |text: &str| sharding(text, &meshes, 4).map(|stated| stated.sharding.to_string());
        let read = |text: &str| read(&format!("#sdy.sharding<@mesh, {text}>"));
        assert_eq!(
            read(r#"[{"x"}, {}]"#).as_deref(),
            Some("{devices=[2,1,2]<=[4] last_tile_dim_replicate}")
        );
        assert_eq!(
            read(r#"[{"y", ?}p1, {}], replicated={"x"}"#).as_deref(),
            Some("{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}")
        );
        assert_eq!(
            read(r#"[{"y", "x"}]"#).as_deref(),
            Some("{devices=[4]0,2,1,3}")
        );
        assert_eq!(read(r#"[{"z"}]"#), None);
        assert_eq!(read(r#"[{"x"}, {"x"}]"#), None);
        let expected = |text: &str| expected(&format!("#sdy.sharding<@{text}>"), &meshes);
        assert_eq!(
            expected(r#"mesh, [{"x"}, {"x"}]"#).as_deref(),
            Some("each axis at most once, found `x` twice")
        );
        assert_eq!(
            expected(r#"mesh, [{"z"}]"#).as_deref(),
            Some("an axis of the mesh (`x`, `y`), found `z`")
        );
        assert_eq!(
            expected(r#"grid, [{"x"}]"#).as_deref(),
            Some("a mesh of the program (`m1`, `mesh`), found `grid`")
        );
        assert_eq!(expected(r#"mesh, [{"x"}, {"y"}]"#), None);
        assert_eq!(
            manual_axes(r#"#sdy<manual_axes{"x", "y"}>"#),
            Some(vec!["x".to_owned(), "y".to_owned()])
        );
        let several = r#"#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, []>]>"#;
        assert_eq!(
            shardings(several, &meshes, 4).map(|list| list.len()),
            Some(2)
        );
    }

    #[test]
    fn parts_of_axes_cut_too() {
        let meshes = meshes("{m = #sdy.mesh<[\"x\"=4], device_ids=[3, 2, 1, 0]>}").expect("meshes");
        let places = |text: &str| {
            let stated = sharding(&format!("#sdy.sharding<@m, [{{{text}}}]>"), &meshes, 4)?;
            Some(stated.sharding.cut(0)?.places().to_vec())
        };
        assert_eq!(places("\"x\""), Some(vec![3, 2, 1, 0]));
        assert_eq!(places("\"x\":(1)2"), Some(vec![1, 1, 0, 0]));
        assert_eq!(places("\"x\":(2)2"), Some(vec![1, 0, 1, 0]));
        assert_eq!(places("\"x\":(3)2"), None);
    }
}
