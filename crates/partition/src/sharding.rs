//! Shardings as data: the part of an array that each device has.
//!
//! A [`Cut`] divides one dimension into a number of parts, and says which part each device has. A
//! [`Sharding`] has one optional cut for each dimension of an array; a dimension without a cut is
//! whole. HLO's tile assignments, iota forms and axes of a mesh are all converted to this form.
//! Questions about several dimensions (which devices have the same tile, or gather together) are
//! answered by comparing the devices' parts.
//!
//! Parts have equal sizes: a dimension of `n` elements that is cut into `p` parts has parts of
//! `ceil(n / p)`. Elements after the end are padding, whose values are arbitrary.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// The division of one dimension into parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    parts: i64,
    /// The part that each device has.
    places: Arc<[i64]>,
}

impl Cut {
    /// A dimension that is not cut.
    pub fn whole(devices: usize) -> Self {
        Self {
            parts: 1,
            places: vec![0; devices].into(),
        }
    }

    /// A cut into `parts` parts, with each device's part; [`None`] if a part does not exist.
    pub fn new(parts: i64, places: Vec<i64>) -> Option<Self> {
        let exist = places.iter().all(|place| (0..parts).contains(place));
        exist.then(|| Self {
            parts,
            places: places.into(),
        })
    }

    /// The number of parts.
    pub fn parts(&self) -> i64 {
        self.parts
    }

    /// The number of devices.
    pub fn devices(&self) -> usize {
        self.places.len()
    }

    /// The number of a device's part.
    pub fn place(&self, device: usize) -> i64 {
        self.places.get(device).copied().unwrap_or(0)
    }

    /// The number of each device's part.
    pub fn places(&self) -> &[i64] {
        &self.places
    }

    /// The size of a part of a dimension of `size` elements.
    pub fn part_size(&self, size: i64) -> i64 {
        tegula_expr::ceil_div(size, self.parts.max(1)).unwrap_or(size)
    }

    /// For each device, the start of its part of a dimension of `size` elements.
    pub(crate) fn starts(&self, size: i64) -> Vec<i64> {
        let part = self.part_size(size);
        self.places.iter().map(|place| place * part).collect()
    }

    /// Whether the parts of a dimension of `size` elements have no padding.
    pub fn divides(&self, size: i64) -> bool {
        size % self.parts.max(1) == 0
    }

    /// Cuts each part of this cut again; [`None`] if there are too many parts.
    #[must_use]
    pub fn then(&self, inner: &Self) -> Option<Self> {
        let parts = self.parts.checked_mul(inner.parts)?;
        let pairs = self.places.iter().zip(inner.places.iter());
        let places = pairs.map(|(outer, place)| outer * inner.parts + place);
        Self::new(parts, places.collect())
    }

    /// The cut that joins `count` neighbouring parts of this one; [`None`] if there are not as many
    /// for each part.
    pub(crate) fn joined(&self, count: i64) -> Option<Self> {
        if count < 1 || self.parts % count != 0 {
            return None;
        }
        let places = self.places.iter().map(|place| place / count);
        Self::new(self.parts / count, places.collect())
    }

    /// The cut that says which of `count` neighbouring parts of this one a device has.
    pub(crate) fn within(&self, count: i64) -> Option<Self> {
        let places = self.places.iter().map(|place| place % count.max(1));
        Self::new(count, places.collect())
    }

    /// Whether each part of this cut of `size` elements consists of several whole parts of `fine`.
    pub fn is_coarser_than(&self, fine: &Self, size: i64) -> bool {
        if fine.parts % self.parts != 0 {
            return false;
        }
        let factor = fine.parts / self.parts;
        let sizes_fit = fine.part_size(size) * factor == self.part_size(size);
        let mut pairs = self.places.iter().zip(fine.places.iter());
        sizes_fit && pairs.all(|(own, place)| place / factor == *own)
    }
}

/// The division of an array between devices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharding {
    devices: usize,
    cuts: SmallVec<[Option<Cut>; 4]>,
}

/// For each cut dimension, the number of the part that a device has.
type Tile = SmallVec<[i64; 6]>;

impl Sharding {
    /// The sharding with the whole array on every device.
    pub fn replicated(rank: usize, devices: usize) -> Self {
        Self {
            devices,
            cuts: smallvec::smallvec![None; rank],
        }
    }

    /// The sharding with these cuts, one for each dimension.
    pub fn new(devices: usize, cuts: impl IntoIterator<Item = Option<Cut>>) -> Self {
        let cut = |cut: Option<Cut>| cut.filter(|cut| cut.parts > 1);
        Self {
            devices,
            cuts: cuts.into_iter().map(cut).collect(),
        }
    }

    /// The number of devices.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.cuts.len()
    }

    /// The cut of a dimension; [`None`] if it is whole.
    pub fn cut(&self, dim: usize) -> Option<&Cut> {
        self.cuts.get(dim)?.as_ref()
    }

    /// The cut of each dimension.
    pub fn cuts(&self) -> &[Option<Cut>] {
        &self.cuts
    }

    /// The same sharding with another cut of one dimension.
    #[must_use]
    pub fn with(&self, dim: usize, cut: Option<Cut>) -> Self {
        let mut changed = self.clone();
        if let Some(own) = changed.cuts.get_mut(dim) {
            *own = cut.filter(|cut| cut.parts > 1);
        }
        changed
    }

    /// The sharding for another rank: later dimensions are dropped, or whole ones are added.
    #[must_use]
    pub fn of_rank(&self, rank: usize) -> Self {
        let mut changed = self.clone();
        changed.cuts.resize(rank, None);
        changed
    }

    /// Whether every device has the whole array.
    pub fn is_replicated(&self) -> bool {
        self.cuts.iter().all(Option::is_none)
    }

    /// The number of different tiles.
    pub fn tiles(&self) -> i64 {
        let parts = self.cuts.iter().flatten().map(|cut| cut.parts);
        parts.fold(1, i64::saturating_mul)
    }

    /// The sizes of a device's part of an array of these sizes.
    pub fn part(&self, dims: &[i64]) -> Vec<i64> {
        let pairs = dims.iter().zip(&self.cuts);
        pairs
            .map(|(size, cut)| cut.as_ref().map_or(*size, |cut| cut.part_size(*size)))
            .collect()
    }

    /// The start of a device's part of an array of these sizes; at or after the end if the part
    /// consists of padding only.
    pub fn start(&self, dims: &[i64], device: usize) -> Vec<i64> {
        let start = |(size, cut): (&i64, &Option<Cut>)| {
            let cut = cut.as_ref();
            cut.map_or(0, |cut| cut.part_size(*size) * cut.place(device))
        };
        dims.iter().zip(&self.cuts).map(start).collect()
    }

    fn tile(&self, device: usize) -> Tile {
        let cuts = self.cuts.iter().flatten();
        cuts.map(|cut| cut.place(device)).collect()
    }

    /// Whether the devices in each part of `scope` hold every tile, each equally often.
    pub fn is_complete(&self, scope: &Cut) -> bool {
        let mut holders: FxHashMap<(i64, Tile), usize> = FxHashMap::default();
        for device in 0..self.devices {
            *holders
                .entry((scope.place(device), self.tile(device)))
                .or_default() += 1;
        }
        let mut counts = holders.values();
        let first = counts.next();
        let even = counts.all(|count| Some(count) == first);
        even && holders.len() as i64 == self.tiles().saturating_mul(scope.parts)
    }

    /// For each device, a source device that has, under `self`, the tile that the device has under
    /// `wanted`. Each device is the source of one. [`None`] if the tiles differ.
    pub fn sources(&self, wanted: &Self, scope: &Cut) -> Option<Vec<usize>> {
        let parts = |of: &Self| -> Vec<Option<i64>> {
            let cuts = of.cuts.iter();
            cuts.map(|cut| cut.as_ref().map(Cut::parts)).collect()
        };
        if parts(self) != parts(wanted) {
            return None;
        }
        let mut holders: FxHashMap<(i64, Tile), Vec<usize>> = FxHashMap::default();
        for device in (0..self.devices).rev() {
            let key = (scope.place(device), self.tile(device));
            holders.entry(key).or_default().push(device);
        }
        // Devices that keep their tile are assigned first; the others take the remaining sources.
        let mut sources = vec![None; self.devices];
        let key = |device: usize| (scope.place(device), wanted.tile(device));
        for (device, source) in sources.iter_mut().enumerate() {
            let holders = holders.get_mut(&key(device))?;
            if let Some(own) = holders.iter().position(|holder| *holder == device) {
                holders.remove(own);
                *source = Some(device);
            }
        }
        for (device, source) in sources.iter_mut().enumerate() {
            if source.is_none() {
                *source = Some(holders.get_mut(&key(device))?.pop()?);
            }
        }
        sources.into_iter().collect()
    }
}

/// Groups of devices that agree in `kept`, and of which member `i` has part `i` of `varied`;
/// [`None`] if the devices cannot be grouped in this way.
pub(crate) fn groups<K: std::hash::Hash + Eq + Ord + Clone>(
    devices: usize,
    kept: impl Fn(usize) -> K,
    varied: impl Fn(usize) -> i64,
    parts: i64,
) -> Option<Vec<Vec<i64>>> {
    let mut buckets: FxHashMap<K, Vec<Vec<i64>>> = FxHashMap::default();
    let parts = usize::try_from(parts).ok()?;
    let mut order = Vec::new();
    for device in 0..devices {
        let key = kept(device);
        let bucket = buckets.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            vec![Vec::new(); parts]
        });
        let place = usize::try_from(varied(device)).ok()?;
        bucket.get_mut(place)?.push(device as i64);
    }
    let mut groups = Vec::new();
    for key in order {
        let bucket = buckets.remove(&key)?;
        let count = bucket.first()?.len();
        if count == 0 || bucket.iter().any(|holders| holders.len() != count) {
            return None;
        }
        for number in 0..count {
            let members = bucket.iter().map(|holders| holders.get(number).copied());
            groups.push(members.collect::<Option<Vec<i64>>>()?);
        }
    }
    groups.sort();
    Some(groups)
}

impl fmt::Display for Sharding {
    /// The sharding in HLO's form: `{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_replicated() {
            return f.write_str("{replicated}");
        }
        let mut dims: Vec<i64> = self
            .cuts
            .iter()
            .map(|cut| cut.as_ref().map_or(1, Cut::parts))
            .collect();
        let copies = self.devices as i64 / self.tiles().max(1);
        if copies > 1 {
            dims.push(copies);
        }
        let mut order: Vec<usize> = (0..self.devices).collect();
        order.sort_by_key(|&device| self.tile(device));
        let list = |numbers: &[i64]| {
            let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            texts.join(",")
        };
        let order: Vec<i64> = order.into_iter().map(|device| device as i64).collect();
        write!(f, "{{devices=[{}]", list(&dims))?;
        match order.iter().enumerate().all(|(at, own)| at as i64 == *own) {
            true => write!(f, "<=[{}]", self.devices)?,
            false => f.write_str(&list(&order))?,
        }
        f.write_str(match copies > 1 {
            true => " last_tile_dim_replicate}",
            false => "}",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(parts: i64, places: &[i64]) -> Option<Cut> {
        Cut::new(parts, places.to_vec())
    }

    #[test]
    fn parts_have_places_and_padding() {
        let sharding = Sharding::new(4, [cut(2, &[0, 0, 1, 1]), None, cut(2, &[0, 1, 0, 1])]);
        assert_eq!(sharding.part(&[5, 3, 4]), [3, 3, 2]);
        assert_eq!(sharding.start(&[5, 3, 4], 3), [3, 0, 2]);
        assert_eq!(sharding.to_string(), "{devices=[2,1,2]<=[4]}");
        assert!(sharding.is_complete(&Cut::whole(4)));
        let diagonal = Sharding::new(4, [cut(2, &[0, 0, 1, 1]), cut(2, &[0, 0, 1, 1])]);
        assert!(!diagonal.is_complete(&Cut::whole(4)));
    }

    #[test]
    fn devices_that_agree_form_groups() {
        let rows = cut(2, &[0, 0, 1, 1]).expect("a cut");
        let columns = cut(2, &[0, 1, 0, 1]).expect("a cut");
        let found = groups(4, |device| columns.place(device), |d| rows.place(d), 2);
        assert_eq!(found, Some(vec![vec![0, 2], vec![1, 3]]));
        assert!(Cut::whole(4).is_coarser_than(&rows, 6));
        let fine = rows.then(&columns).expect("a cut");
        assert!(rows.is_coarser_than(&fine, 8));
        assert!(!rows.is_coarser_than(&fine, 5));
        assert!(!columns.is_coarser_than(&fine, 8));
    }

    #[test]
    fn tiles_move_to_who_wants_them() {
        let from = Sharding::new(4, [cut(4, &[0, 1, 2, 3])]);
        let to = Sharding::new(4, [cut(4, &[0, 2, 1, 3])]);
        assert_eq!(from.sources(&to, &Cut::whole(4)), Some(vec![0, 2, 1, 3]));
    }
}
