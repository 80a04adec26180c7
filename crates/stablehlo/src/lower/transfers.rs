//! Lowers communication with the host and other devices: `infeed`, `outfeed`, `send`, `recv`.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use crate::mlir::Attribute;
use std::sync::Arc;
use tegula_ir::{ElementType, Op, Opcode, Shape};

impl<'m> Lowerer<'m> {
    pub(super) fn transfer(
        &mut self,
        name: &str,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let Some((&token, arrays)) = operands.split_last() else {
            return Err(access.error("expected a token as the last operand"));
        };
        let config = |name: &str| -> Option<Arc<str>> {
            let text = access.operation.attribute(name).and_then(Attribute::as_str);
            text.filter(|text| !text.is_empty())
                .map(|text| format!("\"{text}\"").into())
        };
        match name {
            "infeed" => {
                let taken = Shape::Tuple(self.results_before_token(access)?);
                let shape = Shape::Tuple(vec![taken, Shape::Token]);
                let op = Op::Infeed(config("infeed_config"));
                let fed = self.push(frame, op, &[token], Some(shape))?;
                self.bind_with_token(access, frame, fed)
            }
            "outfeed" => {
                let given = self.tuple(frame, arrays)?;
                let op = Op::Outfeed {
                    shape: Some(Box::new(frame.shape(given).clone())),
                    config: config("outfeed_config"),
                };
                let done = self.push(frame, op, &[given, token], None)?;
                self.bind(access, frame, done)
            }
            "send" => {
                let given = match arrays {
                    [only] => *only,
                    several => self.tuple(frame, several)?,
                };
                let sent = Shape::Tuple(vec![
                    frame.shape(given).clone(),
                    Shape::array(ElementType::U32, &[]),
                    Shape::Token,
                ]);
                let op = channel(access, Opcode::Send)?;
                let started = self.push(frame, op, &[given, token], Some(sent))?;
                let op = channel(access, Opcode::SendDone)?;
                let done = self.push(frame, op, &[started], Some(Shape::Token))?;
                self.bind(access, frame, done)
            }
            _ => {
                let mut taken = self.results_before_token(access)?;
                let is_one = taken.len() == 1;
                let taken = match is_one {
                    true => taken.remove(0),
                    false => Shape::Tuple(taken),
                };
                let started = Shape::Tuple(vec![
                    taken.clone(),
                    Shape::array(ElementType::U32, &[]),
                    Shape::Token,
                ]);
                let op = channel(access, Opcode::Recv)?;
                let started = self.push(frame, op, &[token], Some(started))?;
                let op = channel(access, Opcode::RecvDone)?;
                let shape = Shape::Tuple(vec![taken, Shape::Token]);
                let done = self.push(frame, op, &[started], Some(shape))?;
                match is_one {
                    true => {
                        let elements = self.elements(frame, done)?;
                        self.bind_all(access, frame, &elements)
                    }
                    false => self.bind_with_token(access, frame, done),
                }
            }
        }
    }

    /// The shapes of all results except for the last one, the token.
    fn results_before_token(&self, access: &Access<'_>) -> Result<Vec<Shape>, Error> {
        let count = access.operation.results.len().saturating_sub(1);
        (0..count)
            .map(|place| self.result_shape(access, place, None))
            .collect()
    }

    /// Binds the elements of a tuple's first element, and its second element, which is the token.
    fn bind_with_token(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        tuple: Local,
    ) -> Result<(), Error> {
        let [arrays, token] = [0, 1].map(Op::GetTupleElement);
        let arrays = self.push(frame, arrays, &[tuple], None)?;
        let mut all = self.elements(frame, arrays)?;
        all.push(self.push(frame, token, &[tuple], None)?);
        self.bind_all(access, frame, &all)
    }
}

fn channel(access: &Access<'_>, opcode: Opcode) -> Result<Op, Error> {
    let channel_id = access.number("channel_handle", "handle")?;
    Ok(Op::Channel {
        opcode,
        channel_id: Some(channel_id),
        is_host_transfer: access.flag("is_host_transfer")?,
    })
}
