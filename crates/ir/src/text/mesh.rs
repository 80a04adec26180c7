//! Replica groups along the axes of a mesh of devices:
//! `mesh['x'=4,'y'=2], device_ids=([8]T(0)) {'x'}`.
//!
//! A mesh numbers devices by coordinates, one for each axis, the last one fastest. Those who
//! differ only in the named axes are a group. An axis may be named in part, `'x':(2)2`: of its
//! factors 2, 2, ... the one behind a product of 2. The groups become one of the older forms:
//! a transposed iota, or lists where devices are numbered one by one.

use super::cursor::Cursor;
use super::lexer::Token;
use super::strings::unescape;
use crate::{DimNumbers, Error, ReplicaGroups, Span};

/// Devices of a mesh that are numbered one by one.
const MAX_DEVICES: i64 = 1 << 20;

struct Axis {
    name: String,
    size: i64,
}

/// How the devices of a mesh are numbered.
enum Devices {
    /// 0, 1, 2, ...
    InOrder,
    /// These, in the order of coordinates.
    Listed(Vec<i64>),
}

/// A part of an axis: behind a product of `before`, of this size.
#[derive(Clone, Copy)]
struct Part {
    axis: usize,
    before: i64,
    size: i64,
}

impl Cursor<'_> {
    /// Reads groups along the axes of a mesh.
    pub(crate) fn mesh_groups(&mut self) -> Result<ReplicaGroups, Error> {
        let span = self.span();
        let kind = self.word("`mesh`")?;
        if kind.text == "maximal_mesh" {
            self.expect(Token::BracketOpen)?;
            self.word("`device_id`")?;
            self.expect(Token::Equal)?;
            let device = self.int()?;
            self.expect(Token::BracketClose)?;
            self.axis_parts(&[])?;
            return Ok(ReplicaGroups::Lists(vec![vec![device]]));
        }
        let axes = self.axes()?;
        if axes.is_empty() {
            self.axis_parts(&[])?;
            return Ok(ReplicaGroups::Lists(Vec::new()));
        }
        let count = self.device_count(&axes, span)?;
        let devices = match self.eat(Token::Comma) {
            true => self.devices(count)?,
            false => Devices::InOrder,
        };
        let parts = self.axis_parts(&axes)?;
        groups(&axes, &parts, &devices, count)
            .ok_or_else(|| self.error_at(span, "the named parts do not divide their axes"))
    }

    fn axes(&mut self) -> Result<Vec<Axis>, Error> {
        let mut axes = Vec::new();
        self.list(Token::BracketOpen, Token::BracketClose, |cursor| {
            let name = unescape(cursor.expect(Token::Text)?.text);
            cursor.expect(Token::Equal)?;
            let size = cursor.int()?;
            axes.push(Axis { name, size });
            Ok(())
        })?;
        Ok(axes)
    }

    fn device_count(&self, axes: &[Axis], span: Span) -> Result<i64, Error> {
        let mut sizes = axes.iter().map(|axis| axis.size);
        let count = sizes.try_fold(1i64, |n, size| n.checked_mul(size).filter(|_| size > 0));
        count
            .filter(|&count| count <= MAX_DEVICES)
            .ok_or_else(|| self.error_at(span, format!("a mesh has 1 to {MAX_DEVICES} devices")))
    }

    /// Reads `device_ids=(0,2,1,3)` or `device_ids=([2,2]T(1,0))`.
    fn devices(&mut self, count: i64) -> Result<Devices, Error> {
        let word = self.word("`device_ids`")?;
        if word.text != "device_ids" {
            return Err(self.error_at(word.span, "expected `device_ids`"));
        }
        self.expect(Token::Equal)?;
        let span = self.span();
        if self.peek_second() != Some(Token::BracketOpen) {
            let listed = self.ints_between(Token::ParenOpen, Token::ParenClose)?;
            return match i64::try_from(listed.len()) == Ok(count) {
                true => Ok(Devices::Listed(listed.to_vec())),
                false => Err(self.error_at(span, format!("expected {count} devices"))),
            };
        }
        self.expect(Token::ParenOpen)?;
        let (dims, transpose) = self.iota_array()?;
        self.expect(Token::ParenClose)?;
        let listed = transposed_iota(&dims, &transpose)
            .filter(|listed| i64::try_from(listed.len()) == Ok(count));
        listed.map(Devices::Listed).ok_or_else(|| {
            self.error_at(span, format!("expected a permutation of {count} devices"))
        })
    }

    /// Reads `{'x','y':(1)2}`.
    fn axis_parts(&mut self, axes: &[Axis]) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            let lexeme = cursor.expect(Token::Text)?;
            let name = unescape(lexeme.text);
            let by_number = || name.parse::<usize>().ok().filter(|&axis| axis < axes.len());
            let axis = axes.iter().position(|axis| axis.name == name);
            let Some(axis) = axis.or_else(by_number) else {
                let message = format!("the mesh has no axis `{name}`");
                return Err(cursor.error_at(lexeme.span, message));
            };
            let mut part = Part {
                axis,
                before: 1,
                size: axes.get(axis).map_or(1, |axis| axis.size),
            };
            if cursor.eat(Token::Colon) {
                cursor.expect(Token::ParenOpen)?;
                part.before = cursor.int()?;
                cursor.expect(Token::ParenClose)?;
                part.size = cursor.int()?;
            }
            parts.push(part);
            Ok(())
        })?;
        Ok(parts)
    }
}

/// 0, 1, 2, ... in this shape, transposed, row by row.
fn transposed_iota(dims: &[i64], transpose: &[i64]) -> Option<Vec<i64>> {
    let count = dims
        .iter()
        .try_fold(1i64, |n, &d| n.checked_mul(d).filter(|_| d > 0))?;
    if count > MAX_DEVICES {
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

/// The groups: the mesh's axes are cut so that each named part is a dimension of its own, and
/// those dimensions go last, in the order in which they are named.
fn groups(axes: &[Axis], parts: &[Part], devices: &Devices, count: i64) -> Option<ReplicaGroups> {
    let mut dims = DimNumbers::new();
    let mut places = vec![0i64; parts.len()];
    for (number, axis) in axes.iter().enumerate() {
        let mut own: Vec<usize> = (0..parts.len()).collect();
        own.retain(|&part| parts.get(part).is_some_and(|part| part.axis == number));
        own.sort_by_key(|&part| parts.get(part).map_or(0, |part| part.before));
        let mut before = 1i64;
        for part in own {
            let Part {
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
        if before > axis.size || axis.size % before != 0 {
            return None;
        }
        if before != axis.size {
            dims.push(axis.size / before);
        }
    }
    let size = parts
        .iter()
        .try_fold(1i64, |n, part| n.checked_mul(part.size))?;
    let others = (0..dims.len() as i64).filter(|d| !places.contains(d));
    let transpose: DimNumbers = others.chain(places.iter().copied()).collect();
    if let Devices::Listed(devices) = devices {
        let order = transposed_iota(&dims, &transpose)?;
        let device = |&at: &i64| devices.get(usize::try_from(at).ok()?).copied();
        let order: Vec<i64> = order.iter().map(device).collect::<Option<_>>()?;
        let size = usize::try_from(size).ok()?;
        return Some(ReplicaGroups::Lists(
            order.chunks(size).map(<[i64]>::to_vec).collect(),
        ));
    }
    Some(ReplicaGroups::Iota {
        dims: DimNumbers::from_slice(&[count / size, size]),
        reshape_dims: dims,
        transpose,
    })
}
