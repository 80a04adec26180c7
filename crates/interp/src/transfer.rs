//! Transfers between program and host: `infeed`, `outfeed`, and `send` and `recv` that name a host.
//!
//! `send` delivers its arrays at once. Only `recv-done` waits for the arrays of a `recv`, so that a
//! program may begin to receive before it sends what the host answers.

use crate::dispatch::{arranged, left_out};
use crate::error::{OpError, invalid, unsupported};
use crate::eval::{Evaluator, Host};
use crate::value::Value;
use tegula_ir::{InstructionId, Literal, Op, Opcode, Shape};

impl Evaluator<'_> {
    /// Evaluates a transfer, given the values of its operands.
    pub(crate) fn transfer(&self, id: InstructionId, operands: &[Value]) -> Result<Value, OpError> {
        let instruction = &self.module[id];
        let (op, shape) = (&instruction.op, &instruction.shape);
        let Some(host) = &self.host else {
            return Err(left_out(op));
        };
        match op {
            Op::Infeed(_) => {
                let entry = host.queues.take_infeed();
                let entry = entry.ok_or_else(|| {
                    OpError::Transfer("the host's infeed queue is empty".to_owned())
                })?;
                self.received(shape, entry)
            }
            Op::Outfeed { .. } => {
                host.queues.feed_out(first_arrays(operands));
                Ok(Value::Token)
            }
            Op::Channel {
                opcode,
                channel_id,
                is_host_transfer,
            } => {
                if !is_host_transfer {
                    return Err(unsupported(
                        "send and receive need `is_host_transfer=true`, because only the host can be reached",
                    ));
                }
                let channel = channel_id.ok_or_else(|| invalid("expected a `channel_id`"))?;
                self.channel(host, (*opcode, channel), operands, shape)
            }
            other => Err(left_out(other)),
        }
    }

    fn channel(
        &self,
        host: &Host,
        (opcode, channel): (Opcode, i64),
        operands: &[Value],
        shape: &Shape,
    ) -> Result<Value, OpError> {
        match opcode {
            Opcode::Send => {
                host.queues.send(channel, first_arrays(operands));
                self.zeros(shape)
            }
            // The received arrays do not exist before `recv-done`, and nothing else may read them.
            Opcode::Recv => self.zeros(shape),
            Opcode::RecvDone => {
                let entry = host.queues.receive(channel, host.timeout);
                let entry = entry.ok_or_else(|| {
                    let seconds = host.timeout.as_secs_f64();
                    OpError::Transfer(format!(
                        "no data arrived on channel {channel} within {seconds} s"
                    ))
                })?;
                self.received(shape, entry)
            }
            _ => Ok(Value::Token),
        }
    }

    /// A value of a shape from the arrays of a queue entry.
    fn received(&self, shape: &Shape, entry: Vec<Literal>) -> Result<Value, OpError> {
        let mut arrays = entry.into_iter();
        let value = arranged(shape, &mut arrays)?;
        match arrays.next().is_none() && value.matches(shape) {
            true => Ok(value),
            false => Err(OpError::Transfer(
                "the shapes of the received arrays differ from the expected ones".to_owned(),
            )),
        }
    }

    /// A value with all elements zero.
    fn zeros(&self, shape: &Shape) -> Result<Value, OpError> {
        let shapes = self.array_shapes(shape)?;
        let zeros = shapes.iter().map(Literal::zeros);
        let zeros: Vec<Literal> = zeros.collect::<Result<_, _>>()?;
        arranged(shape, &mut zeros.into_iter())
    }
}

/// The arrays of the first operand.
fn first_arrays(operands: &[Value]) -> Vec<Literal> {
    let arrays = operands.first().map(Value::leaves).unwrap_or_default();
    arrays.into_iter().cloned().collect()
}
