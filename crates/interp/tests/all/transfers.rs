//! Transfers with the host: `infeed`, `outfeed`, `send`, `recv`.

use crate::common::{f32s, module};
use std::sync::Arc;
use std::time::Duration;
use tegula_devices::HostQueues;
use tegula_interp::{Error, Options, Value, evaluate, evaluate_with_host};

fn run(text: &str, queues: &Arc<HostQueues>) -> Result<Value, Error> {
    let (options, timeout) = (Options::default(), Duration::from_millis(20));
    evaluate_with_host(&module(text), &[], &options, queues, timeout)
}

/// Outfeeds the sum of two infeed entries.
const SUMS: &str = "HloModule m
    ENTRY e { t = token[] after-all()
      a = ((f32[2]), token[]) infeed(t)
      u = token[] get-tuple-element(a), index=1
      b = ((f32[2]), token[]) infeed(u)
      v = token[] get-tuple-element(b), index=1
      ta = (f32[2]) get-tuple-element(a), index=0  xa = f32[2] get-tuple-element(ta), index=0
      tb = (f32[2]) get-tuple-element(b), index=0  xb = f32[2] get-tuple-element(tb), index=0
      s = f32[2] add(xa, xb)
      o = token[] outfeed(s, v), outfeed_shape=f32[2]
      ROOT r = f32[2] copy(xa) }";

#[test]
fn what_is_fed_in_can_be_fed_out() {
    let queues = Arc::new(HostQueues::default());
    queues.feed(vec![f32s(&[1., 2.])]);
    queues.feed(vec![f32s(&[10., 20.])]);
    assert_eq!(run(SUMS, &queues).unwrap(), Value::Array(f32s(&[1., 2.])));
    assert_eq!(queues.take_outfeed(), Some(vec![f32s(&[11., 22.])]));
    assert_eq!(queues.take_outfeed(), None);
}

#[test]
fn a_feed_that_does_not_fit_is_an_error_of_its_instruction() {
    let queues = Arc::new(HostQueues::default());
    queues.feed(vec![f32s(&[1., 2.])]);
    let error = run(SUMS, &queues).unwrap_err();
    assert_eq!(error.to_string(), "b: the host's infeed queue is empty");
    queues.feed(vec![f32s(&[1., 2., 3.])]);
    let error = run(SUMS, &queues).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a: the shapes of the received arrays differ from the expected ones"
    );
    assert!(matches!(
        evaluate(&module(SUMS), &[]),
        Err(Error::Unsupported { .. })
    ));
}

/// Begins to receive before it sends.
const ECHO: &str = "HloModule m
    ENTRY e { t = token[] after-all()
      x = f32[2] constant({3, 4})
      r = (f32[2], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true
      s = (f32[2], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true
      sd = token[] send-done(s), channel_id=1, is_host_transfer=true
      rd = (f32[2], token[]) recv-done(r), channel_id=1, is_host_transfer=true
      ROOT y = f32[2] get-tuple-element(rd), index=0 }";

#[test]
fn a_program_may_begin_to_receive_before_it_sends() {
    let queues = Arc::new(HostQueues::default());
    assert_eq!(run(ECHO, &queues).unwrap(), Value::Array(f32s(&[3., 4.])));
    // If the program does not send, nobody answers.
    let silent = ECHO.replace("send(x, t), channel_id=1", "send(x, t), channel_id=2");
    let error = run(&silent, &queues).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rd: no data arrived on channel 1 within 0.02 s"
    );
    // Transfers between devices are not handled by the host.
    let to_device = ECHO.replace(", is_host_transfer=true", "");
    assert!(matches!(
        run(&to_device, &queues),
        Err(Error::Unsupported { .. })
    ));
}
