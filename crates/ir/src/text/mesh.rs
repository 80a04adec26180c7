//! Reads replica groups along the axes of a mesh of devices:
//! `mesh['x'=4,'y'=2], device_ids=([8]T(0)) {'x'}`. See [`Mesh`].

use super::cursor::Cursor;
use super::lexer::Token;
use super::strings::unescape;
use crate::helpers::{MAX_MESH_DEVICES, transposed_iota};
use crate::helpers::{Mesh, MeshPart};
use crate::{Error, ReplicaGroups};

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
        let mut mesh = Mesh {
            axes,
            devices: None,
        };
        let count = mesh.device_count().ok_or_else(|| {
            self.error_at(
                span,
                format!("expected a mesh of 1 to {MAX_MESH_DEVICES} devices"),
            )
        })?;
        if self.eat(Token::Comma) {
            mesh.devices = Some(self.devices(count)?);
        }
        let parts = self.axis_parts(&mesh.axes)?;
        mesh.groups(&parts).ok_or_else(|| {
            self.error_at(
                span,
                "the sizes of the sub-axes do not divide the sizes of their axes",
            )
        })
    }

    fn axes(&mut self) -> Result<Vec<(String, i64)>, Error> {
        let mut axes = Vec::new();
        self.list(Token::BracketOpen, Token::BracketClose, |cursor| {
            let name = unescape(cursor.expect(Token::Text)?.text);
            cursor.expect(Token::Equal)?;
            let size = cursor.int()?;
            axes.push((name, size));
            Ok(())
        })?;
        Ok(axes)
    }

    /// Reads `device_ids=(0,2,1,3)` or `device_ids=([2,2]T(1,0))`.
    fn devices(&mut self, count: i64) -> Result<Vec<i64>, Error> {
        let word = self.word("`device_ids`")?;
        if word.text != "device_ids" {
            return Err(self.error_at(word.span, "expected `device_ids`"));
        }
        self.expect(Token::Equal)?;
        let span = self.span();
        if self.peek_second() != Some(Token::BracketOpen) {
            let listed = self.ints_between(Token::ParenOpen, Token::ParenClose)?;
            return match i64::try_from(listed.len()) == Ok(count) {
                true => Ok(listed.to_vec()),
                false => Err(self.error_at(span, format!("expected {count} devices"))),
            };
        }
        self.expect(Token::ParenOpen)?;
        let (dims, transpose) = self.iota_array()?;
        self.expect(Token::ParenClose)?;
        let listed = transposed_iota(&dims, &transpose)
            .filter(|listed| i64::try_from(listed.len()) == Ok(count));
        listed.ok_or_else(|| {
            self.error_at(span, format!("expected a permutation of {count} devices"))
        })
    }

    /// Reads `{'x','y':(1)2}`.
    fn axis_parts(&mut self, axes: &[(String, i64)]) -> Result<Vec<MeshPart>, Error> {
        let mut parts = Vec::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            let lexeme = cursor.expect(Token::Text)?;
            let name = unescape(lexeme.text);
            let by_number = || name.parse::<usize>().ok().filter(|&axis| axis < axes.len());
            let axis = axes.iter().position(|(own, _)| *own == name);
            let Some(axis) = axis.or_else(by_number) else {
                let message = format!("the mesh has no axis `{name}`");
                return Err(cursor.error_at(lexeme.span, message));
            };
            let mut part = MeshPart {
                axis,
                before: 1,
                size: axes.get(axis).map_or(1, |(_, size)| *size),
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
