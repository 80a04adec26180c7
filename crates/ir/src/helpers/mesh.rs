//! Meshes of devices, and device groups along some of their axes.
//!
//! A mesh numbers devices by coordinates, one for each axis; the last axis varies fastest. Devices
//! that differ only in the named axes form a group. A sub-axis such as `'x':(2)2` names a factor of
//! an axis: the factor of size 2 that follows factors whose product is 2. The groups are converted
//! to one of HLO's other forms: a transposed iota, or explicit lists if the mesh numbers its
//! devices one by one.

use crate::{DimNumbers, ReplicaGroups};

/// An upper limit on the number of devices of a mesh.
pub(crate) const MAX_MESH_DEVICES: i64 = 1 << 20;

/// An array of devices whose dimensions have names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// Names and sizes of the axes; the last axis varies fastest.
    pub axes: Vec<(String, i64)>,
    /// The devices in the order of their coordinates; [`None`] if they are 0, 1, 2, ...
    pub devices: Option<Vec<i64>>,
}

/// A factor of an axis: of this size, after factors whose product is `before`. The whole axis has
/// `before` 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshPart {
    /// The number of the axis.
    pub axis: usize,
    /// The product of the preceding factors.
    pub before: i64,
    /// The size of the factor.
    pub size: i64,
}

impl Mesh {
    /// The number of devices; [`None`] if it is 0 or above the limit.
    pub fn device_count(&self) -> Option<i64> {
        let mut sizes = self.axes.iter().map(|(_, size)| *size);
        let count = sizes.try_fold(1i64, |n, size| n.checked_mul(size).filter(|_| size > 0));
        count.filter(|&count| count <= MAX_MESH_DEVICES)
    }

    /// The groups of devices that differ only in these factors of axes. Each factor becomes a
    /// dimension of its own, and the factors' dimensions are moved last, in the order in which they
    /// are named. [`None`] if a factor does not divide its axis.
    pub fn groups(&self, parts: &[MeshPart]) -> Option<ReplicaGroups> {
        let mut dims = DimNumbers::new();
        let mut places = vec![0i64; parts.len()];
        for (number, (_, whole)) in self.axes.iter().enumerate() {
            let mut own: Vec<usize> = (0..parts.len()).collect();
            own.retain(|&part| parts.get(part).is_some_and(|part| part.axis == number));
            own.sort_by_key(|&part| parts.get(part).map_or(0, |part| part.before));
            let mut before = 1i64;
            for part in own {
                let MeshPart {
                    before: wanted,
                    size,
                    ..
                } = *parts.get(part)?;
                if wanted <= 0 || size <= 0 || wanted % before != 0 {
                    return None;
                }
                if wanted != before {
                    dims.push(wanted / before);
                }
                *places.get_mut(part)? = dims.len() as i64;
                dims.push(size);
                before = wanted.checked_mul(size)?;
            }
            if before > *whole || whole % before != 0 {
                return None;
            }
            if before != *whole {
                dims.push(whole / before);
            }
        }
        let size = parts
            .iter()
            .try_fold(1i64, |n, part| n.checked_mul(part.size))?;
        let others = (0..dims.len() as i64).filter(|d| !places.contains(d));
        let transpose: DimNumbers = others.chain(places.iter().copied()).collect();
        if let Some(devices) = &self.devices {
            let order = transposed_iota(&dims, &transpose)?;
            let device = |&at: &i64| devices.get(usize::try_from(at).ok()?).copied();
            let order: Vec<i64> = order.iter().map(device).collect::<Option<_>>()?;
            let size = usize::try_from(size).ok()?;
            return Some(ReplicaGroups::Lists(
                order.chunks(size).map(<[i64]>::to_vec).collect(),
            ));
        }
        Some(ReplicaGroups::Iota {
            dims: DimNumbers::from_slice(&[self.device_count()? / size, size]),
            reshape_dims: dims,
            transpose,
        })
    }
}

impl ReplicaGroups {
    /// The groups as explicit lists; [`None`] if the iota form does not have two dimensions, or has
    /// more devices than the limit.
    pub fn listed(&self) -> Option<Vec<Vec<i64>>> {
        match self {
            Self::Lists(groups) => Some(groups.clone()),
            Self::Iota {
                dims,
                reshape_dims,
                transpose,
            } => {
                let &[groups, size] = dims.as_slice() else {
                    return None;
                };
                let order = transposed_iota(reshape_dims, transpose)?;
                let size = usize::try_from(size).ok().filter(|&size| size > 0)?;
                let lists: Vec<Vec<i64>> = order.chunks_exact(size).map(<[i64]>::to_vec).collect();
                let whole = lists.len() * size == order.len();
                (whole && i64::try_from(lists.len()) == Ok(groups)).then_some(lists)
            }
        }
    }
}

/// The numbers 0, 1, 2, ... reshaped to `dims` and transposed, in row-major order.
pub(crate) fn transposed_iota(dims: &[i64], transpose: &[i64]) -> Option<Vec<i64>> {
    let count = dims
        .iter()
        .try_fold(1i64, |n, &d| n.checked_mul(d).filter(|_| d > 0))?;
    if count > MAX_MESH_DEVICES {
        return None;
    }
    let mut order: Vec<usize> = (0..dims.len()).collect();
    if !transpose.is_empty() {
        order = transpose
            .iter()
            .map(|&d| usize::try_from(d).ok())
            .collect::<Option<_>>()?;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..dims.len()) {
            return None;
        }
    }
    let stride = |d: usize| -> Option<i64> { Some(dims.get(d + 1..)?.iter().product()) };
    let mut numbers = vec![0];
    for &d in &order {
        let (size, stride) = (*dims.get(d)?, stride(d)?);
        numbers = numbers
            .iter()
            .flat_map(|&outer| (0..size).map(move |i| outer + i * stride))
            .collect();
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(axes: &[(&str, i64)], devices: &[i64], parts: &[(usize, i64, i64)]) -> Vec<Vec<i64>> {
        let axes = axes.iter().map(|(name, size)| ((*name).to_owned(), *size));
        let mesh = Mesh {
            axes: axes.collect(),
            devices: Some(devices.to_vec()),
        };
        let part = |&(axis, before, size): &(usize, i64, i64)| MeshPart { axis, before, size };
        let parts: Vec<MeshPart> = parts.iter().map(part).collect();
        match mesh.groups(&parts) {
            Some(ReplicaGroups::Lists(lists)) => lists,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn devices_along_axes_are_groups() {
        let axes = [("x", 2), ("y", 3)];
        let devices = [0, 1, 2, 3, 4, 5];
        assert_eq!(
            groups(&axes, &devices, &[(1, 1, 3)]),
            [[0, 1, 2], [3, 4, 5]]
        );
        assert_eq!(
            groups(&axes, &devices, &[(0, 1, 2)]),
            [[0, 3], [1, 4], [2, 5]]
        );
        assert_eq!(
            groups(&axes, &devices, &[(1, 1, 3), (0, 1, 2)]),
            [[0, 3, 1, 4, 2, 5]]
        );
        assert_eq!(groups(&axes, &devices, &[]).len(), 6);
    }

    #[test]
    fn axes_can_be_split_and_devices_listed() {
        let axes = [("x", 4)];
        assert_eq!(groups(&axes, &[3, 2, 1, 0], &[(0, 1, 2)]), [[3, 1], [2, 0]]);
        assert_eq!(groups(&axes, &[3, 2, 1, 0], &[(0, 2, 2)]), [[3, 2], [1, 0]]);
    }
}
